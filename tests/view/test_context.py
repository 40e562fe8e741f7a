"""The context holds what was copied, at the positions that the trace says, and stays small."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

import treegraft
from tests.strategies import make_run, runs
from tests.view.examples import SKY, example
from treegraft.view.context import AROUND, LONGEST, context_view, tokens_at
from treegraft.view.library import DEMOS
from treegraft.view.model import run_view


def positions(context) -> dict[int, str]:
    return {first + place: text for first, texts in context["segments"] for place, text in enumerate(texts)}


def test_every_copied_token_stands_at_its_source():
    run = treegraft.open(DEMOS / "repetition.jsonl.zst").runs[0]
    view = run_view(run)
    there = positions(view["context"])
    pairs = [(round["token"][node], source) for round in view["rounds"]
             for node, (_, source) in round["copied"].items() if source is not None]
    assert pairs
    tokens = [*run.header.prompt.tokens, *run.output]
    assert all(tokens[source] == token for token, source in pairs)
    assert all(there[source] == run.pieces[token].decode().replace("\n", "\u21b5") for token, source in pairs)


def test_of_a_long_context_only_what_is_near_is_given():
    run = example()
    run.header.prompt.tokens = [SKY] * 5000
    run.records[0].context = 5001
    context = run_view(run)["context"]
    assert context["prompt"] == 5000
    assert context["segments"][0][0] == 0
    assert len(positions(context)) == 2 + AROUND + 1


def test_the_size_of_the_context_costs_nothing():
    run = example()
    run.records[0].context = 2**53
    assert positions(run_view(run)["context"]).keys() == {0, 1, 2}


@given(runs(min_rounds=1, max_rounds=8), st.integers(0, 30), st.integers(0, 30))
def test_tokens_by_position_are_those_of_prompt_and_text(run, first, count):
    tokens = [*run.header.prompt.tokens, *run.output]
    assert tokens_at(run, first, count) == tokens[first: first + count]


def test_long_and_hostile_pieces_stay_short_text():
    run = example()
    run.pieces[SKY] = "\u202e".encode() + b"x" * 10_000
    text = positions(run_view(run)["context"])[1]
    assert len(text) == LONGEST
    assert "\u202e" not in text


def test_nothing_copied_needs_no_context():
    run = make_run(Random(1), [])
    assert context_view(run, []) is None
    assert run_view(treegraft.open(DEMOS / "plain.jsonl.zst").runs[0])["context"] is None
