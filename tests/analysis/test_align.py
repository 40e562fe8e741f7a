"""Runs aligned by output position: every position has one writer in each run."""

from __future__ import annotations

import copy
from itertools import pairwise
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import make_run, runs
from treegraft.analysis import align
from treegraft.analysis.agreement import margins
from treegraft.analysis.text import PREFILL
from treegraft.trace.records import Branch, Decoding, Prompt, TargetInfo
from treegraft.trace.runs import Run


@given(runs())
def test_every_position_has_exactly_one_writer(run):
    written = align.writers(run)
    assert [one.token for one in written] == run.output
    spans = {PREFILL: range(1)} | {number: range(round.output_start, round.output_start + round.outcome.taken)
                                   for number, round in enumerate(run.rounds)}
    for position, one in enumerate(written):
        assert [number for number, span in spans.items() if position in span] == [one.round]
        assert one.depth == (0 if one.round == PREFILL else position - spans[one.round].start + 1)


@given(runs(min_rounds=1))
def test_the_writer_is_the_node_that_holds_the_token(run):
    for one in align.writers(run):
        round = run.rounds[max(one.round, 0)]
        if one.node == "bonus":
            assert (one.token, one.drafted) == (round.event("accept").bonus, False)
        else:
            assert one.token == round.record.nodes.token[one.node]
            assert one.drafter == round.record.nodes.origin[one.node]
            assert one.depth == round.tree.depth[one.node]


@given(runs())
def test_accepted_lengths_are_those_of_the_rounds(run):
    lengths = align.accepted_by_round(align.writers(run))
    assert [lengths.get(number, 0) for number in range(len(run.rounds))] == [one.accepted for one in run.rounds]


@st.composite
def rewritten(draw: st.DrawFn) -> tuple[list[align.Written], list[align.Written]]:
    """The writers of a run, and those of other rounds that write the same text, or its beginning."""
    first = align.writers(draw(runs(min_rounds=1)))
    second, round = [], 0
    for one in first[: draw(st.integers(0, len(first)))]:
        second.append(align.Written(one.token, round, 1, 1, draw(st.integers(-1, 2))))
        round += draw(st.booleans())
    return first, second


@given(rewritten())
def test_stretches_cover_the_common_text_and_end_where_a_round_does(columns):
    found, common = align.stretches(columns), align.same_for(columns)
    assert common == min(map(len, columns))
    assert [place for one in found for place in range(one.start, one.end)] == list(range(1, common))
    for one in found:
        for place in range(one.start, one.end):
            assert tuple(column[place].round for column in columns) == one.rounds
        for column, round, accepted in zip(columns, one.rounds, one.accepted, strict=True):
            assert sum(other.drafted for other in column if other.round == round) == accepted
    for one, following in pairwise(found):
        assert one.rounds != following.rounds


def test_other_texts_end_the_stretches():
    first = [align.Written(token, 0, 1, 1) for token in (1, 2, 3, 4)]
    second = [align.Written(token, 0, 1, 1) for token in (1, 2, 9, 4)]
    assert align.same_for([first, second]) == 2
    assert [(one.start, one.end) for one in align.stretches([first, second])] == [(1, 2)]


def test_the_widest_differences_name_a_round_once():
    found = [align.Stretch(1, 2, (0, 0), (3, 0)), align.Stretch(2, 4, (0, 1), (3, 1)),
             align.Stretch(4, 5, (0, 2), (3, 0)), align.Stretch(5, 6, (1, 3), (0, 4)),
             align.Stretch(6, 7, (2, 4), (1, 1)), align.Stretch(7, 8, (3, 0), (2, 0))]
    assert [one.start for one in align.widest(found, 9)] == [5, 1, 7]
    assert [one.start for one in align.widest(found, 1)] == [5]


@given(runs())
def test_progress_ends_with_the_whole_output_and_all_the_time(run):
    found = align.progress(run)
    assert found.tokens[-1] == len(run.output)
    assert len(found.tokens) == len(found.milliseconds) == len(run.rounds) + 1
    total = run.prefill.microseconds + sum(record.times["total"] for record in run.records)
    assert found.milliseconds[-1] == pytest.approx(total / 1000)


def test_no_times_no_curve():
    run = make_run(Random(1), [(2, 3)] * 2)
    run.records[1].times = {}
    assert align.progress(run).milliseconds is None


@given(runs(min_rounds=1))
def test_margins_are_those_of_the_walk(run):
    expected = margins(run)
    for position in range(len(run.output)):
        assert align.margin_at(run, position) == expected[position]


# --- verdicts -------------------------------------------------------------------------------------------------------


def pair(margin: int = 200_000, dtype: str = "float32") -> tuple[Run, Run]:
    """Two greedy runs whose texts part at the bonus of round 1, where the target's best tokens lie `margin` apart."""
    run = make_run(Random(3), [(2, 3)] * 3)
    run.header.target = TargetInfo(name="target", dtype=dtype)
    accept, verify = run.rounds[1].event("accept"), run.rounds[1].event("verify")
    tip = next(one for one in verify.walk if one.node == [0, *accept.path][-1])
    tip.logprobs[:2] = [-1000, -1000 - margin]
    other = Run(copy.deepcopy(run.header), run.pieces, run.prefill, msgspec.json.decode(
        msgspec.json.encode(run.records[:2]), type=list[type(run.records[0])]), None)
    changed = other.rounds[1].event("accept")
    changed.bonus = (changed.bonus + 1) % 40
    return run, other


def verdict(one: Run, other: Run) -> str:
    return align.parting(one, other).verdict


def test_the_parting_is_where_the_changed_token_is():
    run, other = pair()
    found = align.parting(run, other)
    place = run.rounds[2].output_start - 1
    assert found.position == place
    assert found.tokens == (run.output[place], other.output[place])
    assert found.margins == (2.0, 2.0)
    assert found.verdict == "unexplained"
    assert align.parting(run, run) is None


@pytest.mark.parametrize(("margin", "dtype", "expected"), [
    (5, "float32", "near tie"), (200, "float32", "unexplained"), (40_000, "bfloat16", "near tie"),
    (60_000, "bfloat16", "unexplained")])
def test_a_near_tie_depends_on_margin_and_type(margin, dtype, expected):
    assert verdict(*pair(margin, dtype)) == expected


def test_what_else_explains_another_text():
    run, other = pair()
    other.header.target.dtype = "float16"
    assert verdict(run, other) == "other type"
    other.header.target.name = "another"
    assert verdict(run, other) == "other model"
    other.header.decoding = Decoding(temperature=0.7)
    assert verdict(run, other) == "sampled"


def test_a_text_that_ends_earlier():
    run, _ = pair()
    short = Run(run.header, run.pieces, run.prefill, run.records[:1], None)
    found = align.parting(run, short)
    assert (found.position, found.tokens[1], found.verdict) == (len(short.output), None, "ended")


def test_without_margins_there_is_no_verdict():
    run, other = pair()
    for one in (run, other):
        one.rounds[1].event("verify").walk.clear()
    assert verdict(run, other) == "unknown"


def test_a_branch_says_what_it_has_in_common_with_its_run():
    run = make_run(Random(3), [(2, 3)] * 3)
    held = [*run.output[:2], 1 + max(run.output)]
    other = copy.copy(run)
    other.header = copy.copy(run.header)
    other.header.prompt = Prompt(tokens=[*run.header.prompt.tokens, *held], branch=Branch(
        trace="first", round=0, node=-1, token=held[-1], own=len(run.header.prompt.tokens)))
    assert align.branched(run, other) == (3, 2)
    other.header.prompt.tokens[-1] = run.output[2]
    assert align.branched(run, other) == (3, 3)
    assert align.branched(run, run) is None


def test_tokens_of_the_same_number_may_stand_for_other_texts():
    run = make_run(Random(3), [(2, 3)])
    other = copy.copy(run)
    other.pieces = dict(run.pieces)
    assert not align.other_tokens(run, other)
    other.pieces[run.output[0]] = b"something else"
    assert align.other_tokens(run, other)
