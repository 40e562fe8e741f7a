"""Sampled acceptance in a trace: written, read back, put into tables, and refused where it does not add up."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given, settings

import treegraft
from tests.strategies import PIECES, make_header, runs, write_runs
from tests.trace.sampled import sampled
from treegraft.analysis.metrics import as_dict, summary
from treegraft.trace import TraceError, Writer, codec
from treegraft.trace.records import Accept, End, Round, Tried

FIRST = Tried(node=1, p=-60_000, q=-40_000, u=0.9, accepted=False, residual=[(9, -20_000), (12, -170_000)])
SECOND = Tried(node=2, p=-20_000, u=0.25, accepted=True)
CHANCES = [1.0, 0.5, 0.25, 0.4]


def write(path, record: Round, **decoding):
    header = make_header([3, 4, 5], "mixed")
    header.decoding = msgspec.structs.replace(header.decoding, **decoding)
    with Writer(path) as writer:
        writer.write(header)
        writer.pieces(PIECES)
        writer.write(record)
        writer.write(End(reason="length", new_tokens=3, microseconds=5))
    return path


def test_verdicts_and_chances_survive_a_round_trip(tmp_path):
    record = sampled([FIRST, SECOND], [2], CHANCES, rule="mixed")
    run = treegraft.open(write(tmp_path / "run.jsonl.zst", record, min_p=0.05)).runs[0]
    assert run.rounds[0].record == record
    assert run.header.decoding.rule == "mixed"
    assert (run.header.decoding.min_p, run.header.decoding.seed) == (0.05, 1)
    assert run.rounds[0].fates == ["root", "rejected", "accepted", "unreached"]


@settings(deadline=None, max_examples=20)
@given(runs(min_rounds=1))
def test_random_sampled_runs_survive_a_round_trip(tmp_path_factory, run):
    path = write_runs(tmp_path_factory.mktemp("runs") / "run.jsonl", run)
    again = treegraft.open(path).runs[0]
    assert [round.record for round in again.rounds] == run.records
    assert again.header == run.header


def test_old_traces_were_greedy():
    header = json.loads(codec.encode(make_header([3])))
    del header["decoding"]
    assert codec.decode(json.dumps(header).encode(), "header").decoding.rule == "greedy"
    old = {"node": 1, "p": -5, "accepted": True}
    assert msgspec.convert(old, Tried) == Tried(node=1, p=-5, accepted=True, u=None, q=None, residual=[])


def test_a_token_that_was_drawn_twice_has_two_verdicts(tmp_path):
    again = msgspec.structs.replace(FIRST, u=0.1, accepted=True, residual=[])
    write(tmp_path / "run.jsonl", sampled([FIRST, again], [1], rule="specinfer"))
    with pytest.raises(TraceError, match="does not agree with the path"):
        write(tmp_path / "lost.jsonl", sampled([again, FIRST], [1], rule="specinfer"))


def test_typical_acceptance_may_leave_a_likely_token_off_the_path(tmp_path):
    likely = Tried(node=1, p=-60_000, u=0.09, accepted=True)
    write(tmp_path / "run.jsonl", sampled([likely, SECOND], [2], rule="typical"))
    with pytest.raises(TraceError, match="does not agree with the path"):
        write(tmp_path / "beside.jsonl", sampled([likely, SECOND], [2], rule="points"))


@pytest.mark.parametrize(("changes", "problem"), [
    ({"u": 1.5}, r"tried\[0\].u: was 1.5"),
    ({"node": 4}, r"accepted=False of node 4"),
    ({"accepted": True}, r"accepted=True of node 1"),
    ({"residual": [(9, -1), (9, -2)]}, r"residual.* repeats a token"),
    ({"residual": [(-9, -1)]}, "residual"),
])
def test_verdicts_that_do_not_add_up_are_refused(tmp_path, changes, problem):
    with pytest.raises(TraceError, match=problem):
        write(tmp_path / "run.jsonl", sampled([msgspec.structs.replace(FIRST, **changes), SECOND], [2], CHANCES))


@pytest.mark.parametrize(("chances", "problem"), [
    ([1.0, 0.5], "2 entries; 4 are needed"),
    ([1.0, 0.5, 0.6, 0.4], "siblings sum to 1.1"),
    ([0.5, 0.5, 0.25, 0.4], "the root's being 1"),
    ([1.0, -0.1, 0.25, 0.4], "between 0 and 1"),
])
def test_chances_that_do_not_add_up_are_refused(tmp_path, chances, problem):
    with pytest.raises(TraceError, match=problem):
        write(tmp_path / "run.jsonl", sampled([FIRST, SECOND], [2], chances))


def test_a_temperature_below_zero_is_refused(tmp_path):
    with pytest.raises(TraceError, match=r"decoding.temperature.* was -1.0"):
        write(tmp_path / "run.jsonl", sampled([FIRST, SECOND], [2]), temperature=-1.0)


def test_the_greedy_rule_takes_the_favourites_and_others_need_not(tmp_path):
    write(tmp_path / "run.jsonl", sampled([FIRST, SECOND], [2]))
    with pytest.raises(TraceError, match="not the target's favourite"):
        write(tmp_path / "greedy.jsonl", sampled([FIRST, SECOND], [2], rule="greedy"))


def test_tables_hold_the_numbers_of_the_verdicts(tmp_path):
    trace = treegraft.open(write(tmp_path / "run.jsonl", sampled([FIRST, SECOND], [2], CHANCES, rule="mixed")))
    [row], nodes = trace.rounds_frame().to_dict("records"), trace.nodes_frame()
    assert row["rule"] == "mixed"
    assert row["expected"] == pytest.approx(0.95)
    assert nodes["tried_p"].tolist() == pytest.approx([math.nan, -0.6, -0.2, math.nan], nan_ok=True)
    assert nodes["tried_q"].tolist() == pytest.approx([math.nan, -0.4, math.nan, math.nan], nan_ok=True)
    assert nodes["u"].tolist() == pytest.approx([math.nan, 0.9, 0.25, math.nan], nan_ok=True)
    assert nodes["chance"].tolist() == CHANCES
    assert nodes["expected"].tolist() == pytest.approx([0.95, 0.4, 0, 0])


def test_the_summary_averages_over_the_rounds_that_recorded_chances(tmp_path):
    run = treegraft.open(write(tmp_path / "run.jsonl", sampled([FIRST, SECOND], [2], CHANCES))).runs[0]
    counts = summary(run)
    assert (counts.expected, counts.rules) == (pytest.approx(0.95), {"points": 1})
    assert as_dict(counts)["expected"] == pytest.approx(0.95)
    record = run.rounds[0].record
    accept = next(event for event in record.events if isinstance(event, Accept))
    accept.chances = []
    assert summary(treegraft.trace.Run(run.header, {}, None, [record], None)).expected is None
