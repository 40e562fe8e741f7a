"""Gates, grafts and learned rows: written, read back, replayed, and refused where they do not add up."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given, settings

import treegraft
from tests.strategies import PIECES, make_header, runs, write_runs
from treegraft.trace import TraceError, Writer, codec, replay
from treegraft.trace.records import Accept, End, Expand, Gate, Graft, Learn, Nodes, Probe, Prune, Round, Verify

PROMPT = [3, 4]
DRAFT = Expand(layer=1, drafter=1, parents=[0], nodes=[1, 2], scores=[-20, -30])
GATE = Gate(layer=1, measure="confidence", value=0.09, threshold=0.14, stop=True, stage="d0")
RETRIEVE = Expand(layer=2, drafter=2, parents=[0, 1], nodes=[3, 4], scores=[None, None], merged=[1], rank=[2, 0],
                  grafted=[3])
GRAFT = Graft(stage="d0", drafter=2, drafted=2, retrieved=3, nodes=[1, 3, 4], merged=[1], replaced=1, shortfall=1)
PRUNE = Prune(budget=4, rule="graft", kept=[0, 1, 3, 4])
LEARN = Learn(drafter=2, k=3, tokens=[7, 8], successors=[9, 5, -1, 1, 2, 3])
DRAFTED = (DRAFT, GATE, RETRIEVE, GRAFT, PRUNE)


def round_of(*events, learned=(LEARN,)) -> Round:
    """Node 1 is drafted and retrieved, 2 drafted and pruned, 3 retrieved below 1, 4 below 3; 1 and 3 are accepted."""
    nodes = Nodes(token=[7, 8, 9, 10, 11], parent=[-1, 0, 0, 1, 3], origin=[-1, 1, 1, 2, 2],
                  score=[0, -20, -30, None, None], proposers=[0, 6, 2, 4, 4])
    return Round(index=0, context=3, root=7, nodes=nodes, events=[
        *(events or DRAFTED), Verify(order=[0, 1, 3, 4], argmax=[8, 10, 5, 5], logprob=[0, -5, -5, -9]),
        Accept(rule="greedy", path=[1, 3], tried=[], bonus=5), *learned])


def write(path, *records):
    """A run with these records between header and end."""
    with Writer(path) as writer:
        writer.write(make_header(PROMPT))
        writer.pieces(PIECES)
        for record in records:
            writer.write(record)
        writer.write(End(reason="length", new_tokens=1, microseconds=5))
    return path


def changed(record, **values):
    return msgspec.structs.replace(record, **values)


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.zst"])
def test_the_events_of_a_graft_survive_a_round_trip(tmp_path, name):
    record = round_of(learned=(LEARN, changed(LEARN, drafter=0)))
    run = treegraft.open(write(tmp_path / name, record)).runs[0]
    assert run.rounds[0].record == record
    assert run.rounds[0].event("graft") == GRAFT
    assert run.output == [7, 8, 10, 5]
    assert run.rounds[0].fates == ["root", "accepted", "pruned", "accepted", "rejected"]


def test_only_what_drafts_changes_the_tree():
    states = replay.states(round_of())
    for place, event in enumerate(round_of().events):
        assert (states[place + 1] == states[place]) == (not isinstance(event, Expand | Prune))


@pytest.mark.parametrize(("events", "field"), [
    ((DRAFT, changed(GATE, value=math.inf), RETRIEVE), "events[1].value"),
    ((DRAFT, changed(GATE, threshold=math.nan), RETRIEVE), "events[1].threshold"),
    ((DRAFT, changed(RETRIEVE, rank=[0])), "events[1].rank"),
    ((DRAFT, RETRIEVE, changed(GRAFT, drafter=7)), "events[2].drafter"),
    ((DRAFT, RETRIEVE, changed(GRAFT, nodes=[1, 3, 9])), "events[2].nodes"),
    ((DRAFT, changed(GRAFT, nodes=[3], merged=[]), RETRIEVE), "events[1].nodes"),
    ((DRAFT, RETRIEVE, changed(GRAFT, nodes=[1, 3, 3])), "events[2].nodes"),
    ((DRAFT, RETRIEVE, changed(GRAFT, nodes=[1, 2, 3])), "events[2].nodes"),
    ((DRAFT, RETRIEVE, changed(GRAFT, nodes=[0, 1, 3])), "events[2].nodes"),
    ((DRAFT, RETRIEVE, changed(GRAFT, merged=[4], nodes=[1, 3])), "events[2].merged"),
])
def test_grafts_that_do_not_add_up_are_refused(tmp_path, events, field):
    with pytest.raises(TraceError) as caught:
        write(tmp_path / "run.jsonl", round_of(*events))
    assert caught.value.field == field


@pytest.mark.parametrize(("values", "field"), [
    ({"drafter": 7}, "drafter"), ({"tokens": [7, 7]}, "tokens"), ({"tokens": [7]}, "successors"),
    ({"k": 2}, "successors"), ({"k": 0}, "successors"), ({"successors": [9, -1, 5, 1, 2, 3]}, "successors"),
    ({"successors": [9, 9, -1, 1, 2, 3]}, "successors")])
def test_rows_that_do_not_add_up_are_refused(tmp_path, values, field):
    with pytest.raises(TraceError) as caught:
        write(tmp_path / "run.jsonl", round_of(learned=[changed(LEARN, **values)]))
    assert caught.value.field == f"events[7].{field}"


@pytest.mark.parametrize(("k", "tokens", "successors"), [
    (0, [7], []), (3, [], []), (2, [7], [-1, -1]), (1, [7, 8], [8, 7])])
def test_rows_may_be_empty_or_short(tmp_path, k, tokens, successors):
    learn = Learn(drafter=2, k=k, tokens=tokens, successors=successors)
    run = treegraft.open(write(tmp_path / "run.jsonl", round_of(learned=[learn]))).runs[0]
    assert run.rounds[0].event("learn") == learn


@pytest.mark.parametrize("order", [[-1, 0, 1], [0, -1, 1]])
def test_nothing_is_learned_before_the_target_has_answered(tmp_path, order):
    record = round_of()
    record.events[-3:] = [record.events[-3:][place] for place in order]
    with pytest.raises(TraceError, match="must end with one verify, one accept, and what was learned from them"):
        write(tmp_path / "run.jsonl", record)


@settings(deadline=None)
@given(runs(min_rounds=1))
def test_learned_rows_hide_no_ending(run):
    for record in run.records:
        verify, accept = replay.ending(record)
        assert [type(verify), type(accept)] == [Verify, Accept]
        assert codec.outcome(codec.encode(record)) == replay.outcome(record)


def test_the_text_is_found_without_decoding_rows(tmp_path, monkeypatch):
    path = write(tmp_path / "run.jsonl", round_of())
    decoded = []
    real = codec.decode
    monkeypatch.setattr(codec, "decode", lambda line, kind: decoded.append(kind) or real(line, kind))
    assert treegraft.open(path).runs[0].output == [7, 8, 10, 5]
    assert "round" not in decoded


def test_rows_of_a_ranking_drafter_in_a_probe_may_be_short(tmp_path):
    probe = Probe(drafter=2, context=3, token=[7, 8], parent=[-1, 0], logprob=[None, None], expanded=[0, 1], k=2,
                  best=[8, -1, -1, -1])
    assert treegraft.open(write(tmp_path / "run.jsonl", probe)).runs[0].probes == [probe]
    with pytest.raises(TraceError) as caught:
        write(tmp_path / "other.jsonl", changed(probe, best_logprobs=[-5, -9, -9, -9]))
    assert caught.value.field == "best"


def test_events_are_written_without_what_is_empty(tmp_path):
    line = json.loads(write(tmp_path / "run.jsonl", round_of()).read_text(encoding="utf-8").split("\n")[2])
    assert line["events"][1] == {"kind": "gate", "layer": 1, "measure": "confidence", "value": 0.09, "threshold": 0.14,
                                 "stop": True, "stage": "d0"}
    assert "rank" not in line["events"][0]
    assert line["events"][2]["rank"] == [2, 0]


@settings(deadline=None, max_examples=30)
@given(runs(min_rounds=1))
def test_learned_rows_of_random_runs_survive(tmp_path_factory, run):
    path = write_runs(tmp_path_factory.mktemp("runs") / "run.jsonl.zst", run)
    read = treegraft.open(path).runs[0]
    for written, record in zip(run.records, read.records, strict=True):
        assert [one for one in record.events if isinstance(one, Learn)] == [
            one for one in written.events if isinstance(one, Learn)]
