"""Probes, and the events of several drafters: written, read back, and refused where they do not add up."""

from __future__ import annotations

import msgspec
import pytest

import treegraft
from tests.strategies import PIECES, make_header, records_of
from treegraft.trace import Run, TraceError, Writer
from treegraft.trace.records import (
    Accept,
    Clock,
    Decide,
    End,
    Expand,
    Nodes,
    Probe,
    Rescore,
    Reselect,
    Round,
    SchedulerInfo,
    Verify,
)

PROMPT = [3, 4]
PROBE = Probe(drafter=1, context=3, token=[7, 8, 9], parent=[-1, 0, 0], logprob=[None, -5, -9], unreachable=[2],
              expanded=[0, 1], k=2, best=[8, 9, 10, 11], best_logprobs=[-5, -9, -1, -3])


def write(path, *records):
    """A run with these records between header and end."""
    header = make_header(PROMPT)
    header.level, header.clock = "exhaustive", Clock(target=9, strong=3, call_budget=5)
    header.scheduler = SchedulerInfo(name="s", description={"features": ["a"], "mean": [0.5]}, weights=b"\x00\xff")
    with Writer(path) as writer:
        writer.write(header)
        writer.pieces(PIECES)
        for record in records:
            writer.write(record)
        writer.write(End(reason="length", new_tokens=1, microseconds=5))
    return path


def changed(record, **values):
    return msgspec.structs.replace(record, **values)


@pytest.mark.parametrize("name", ["run.jsonl", "run.jsonl.zst"])
def test_probes_survive_a_round_trip(tmp_path, name):
    run = treegraft.open(write(tmp_path / name, PROBE, changed(PROBE, context=4))).runs[0]
    assert run.probes == [PROBE, changed(PROBE, context=4)]
    assert run.header.level == "exhaustive"
    assert run.header.scheduler.weights == b"\x00\xff"
    assert [type(record).__name__ for record in run.all_records()] == ["Header", "Pieces", "Probe", "Probe", "End"]


@pytest.mark.parametrize(("values", "field"), [
    ({"drafter": 5}, "drafter"), ({"context": 2}, "context"), ({"parent": [-1, 0]}, "parent"),
    ({"parent": [-1, 0, 2]}, "parent"), ({"parent": [0, 0, 0]}, "parent"), ({"token": [7, 8, 8]}, "token"),
    ({"logprob": [None]}, "logprob"), ({"unreachable": [3]}, "unreachable"), ({"expanded": [0, 0]}, "expanded"),
    ({"logprob": [None, 101, -9]}, "logprob"), ({"best_logprobs": [-5, 101, -1, -3]}, "best_logprobs"),
    ({"best": [1]}, "best"), ({"k": 3}, "best"), ({"token": [], "parent": [], "logprob": []}, "token")])
def test_probes_that_do_not_add_up_are_refused(tmp_path, values, field):
    with pytest.raises(TraceError) as caught:
        write(tmp_path / "run.jsonl", changed(PROBE, **values))
    assert caught.value.field == field


def test_reading_everything_checks_the_probes(tmp_path):
    path = write(tmp_path / "run.jsonl", PROBE)
    path.write_bytes(path.read_bytes().replace(b"[null,-5,-9]", b"[null,101,-9]"))
    with pytest.raises(TraceError, match="line 3, field logprob: holds 101, which is no log-probability"):
        treegraft.open(path).check()


def round_of(*events) -> Round:
    """A round of two nodes, the second a rescored graft, with `events` in place of its stages."""
    nodes = Nodes(token=[7, 8, 9], parent=[-1, 0, 1], origin=[-1, 0, 1], score=[0, -20, -30], proposers=[0, 1, 2])
    stages = events or EVENTS
    return Round(index=0, context=3, root=7, nodes=nodes, events=[
        *stages, Verify(order=[0, 1, 2], argmax=[5, 5, 5], logprob=[0, -5, -5]),
        Accept(rule="greedy", path=[], tried=[], bonus=5)])


COPY = Expand(layer=1, drafter=0, parents=[0], nodes=[1], scores=[None])
DECIDE = Decide(layer=2, rule="scheduler", call=True, calls_left=5, margin=1.5, threshold=0.0, features={"layer": 0.4})
RESCORE = Rescore(layer=2, drafter=1, nodes=[1], before=[None], after=[-20], unreachable=[1])
RESELECT = Reselect(layer=2, pool=2, before=[1], after=[0, 1])
GROW = Expand(layer=2, drafter=1, parents=[1], nodes=[2], scores=[-30], grafted=[2])
EVENTS = (COPY, DECIDE, RESCORE, RESELECT, GROW)


def test_the_stages_of_a_call_survive_and_rebuild_the_scores(tmp_path):
    run = treegraft.open(write(tmp_path / "run.jsonl", round_of())).runs[0]
    assert tuple(run.rounds[0].record.events[:5]) == EVENTS
    scores = [state.scores[:2] for state in run.rounds[0].states]
    assert scores[1:4] == [(0, None), (0, None), (0, -20)]


@pytest.mark.parametrize(("events", "field"), [
    ((COPY, changed(RESCORE, before=[-1]), GROW), "events[1].before"),
    ((COPY, changed(RESCORE, after=[]), GROW), "events[1].after"),
    ((COPY, changed(RESCORE, nodes=[2]), GROW), "events[1].nodes"),
    ((COPY, changed(RESCORE, after=[101]), GROW), "events[1].after"),
    ((COPY, changed(GROW, raised=[1], raised_scores=[101])), "events[1].raised_scores"),
    ((COPY, changed(RESCORE, drafter=7), GROW), "events[1].drafter"),
    ((COPY, changed(RESCORE, unreachable=[9]), GROW), "events[1].unreachable"),
    ((COPY, RESCORE, changed(RESELECT, after=[2]), GROW), "events[2].after"),
    ((COPY, RESCORE, changed(RESELECT, after=[1, 1]), GROW), "events[2].after"),
    ((COPY, RESCORE, changed(RESELECT, pool=1), GROW), "events[2].after"),
    ((COPY, RESCORE, changed(GROW, grafted=[1])), "events[2].grafted"),
    ((COPY, GROW), "nodes.score"),
])
def test_stages_that_do_not_add_up_are_refused(tmp_path, events, field):
    with pytest.raises(TraceError) as caught:
        write(tmp_path / "run.jsonl", round_of(*events))
    assert caught.value.field == field


def test_a_run_in_memory_keeps_its_probes():
    run = Run(make_header(PROMPT), {}, None, [], None, [PROBE])
    assert run.probes == [PROBE]
    assert records_of(run) == [run.header, PROBE]
