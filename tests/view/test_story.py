"""A round's story says what the records hold, and nothing that they do not."""

from __future__ import annotations

from hypothesis import given

from tests.strategies import runs
from tests.view.examples import PIECES, drawn, example, grafted, retrieved
from treegraft.analysis.oracle import Reach, reach
from treegraft.trace import Run
from treegraft.view.explain import Explainer
from treegraft.view.story import oracle, story
from treegraft.view.words import Sentence, render


def words(sentences: list[Sentence], pieces: dict[int, bytes] = PIECES) -> str:
    names = ["lookup", "small", "successors"]
    return " ".join(render(one, lambda token: pieces[token].decode(errors="replace"), names.__getitem__)
                    for one in sentences)


def told(run: Run) -> str:
    return words(story(Explainer(run.rounds[0]), strong=1))


def test_what_grew_the_tree_and_why_acceptance_stopped():
    assert told(example()) == (
        "1 token was copied from the context; 3 drafted tokens were pruned."
        " It went no further because nothing was drafted after “ is”.")
    assert told(grafted()) == (
        "small was called in 1 of 2 layers; 2 tokens were copied from the context; 2 tokens were grafted; 1 drafted"
        " token was pruned. It went no further because nothing was drafted after “ was”.")
    assert told(retrieved()).endswith(
        "It went no further because nothing was drafted after “ blue”: a gate had stopped drafting after layer 2.")
    assert told(drawn()).endswith("It went no further because the one token drafted after “ sea” was not accepted.")
    assert "It went no further" not in told(example(discarded=1))


def test_the_oracle_in_words():
    run = example()
    assert words(oracle(reach(run.rounds[0]), 2)) == (
        "Accepted 2; the grown tree held 2 right tokens in a row. On its own, lookup held 0. On its own,"
        " small held 2.")
    assert words(oracle(Reach(verified=1, grown=4, alone={1: 4}), 1)) == (
        "Accepted 1; the grown tree held 4 right tokens in a row; 3 were pruned.")


@given(runs(min_rounds=1))
def test_any_round_has_a_story(run):
    for round in run.rounds:
        explain = Explainer(round)
        text = words([*story(explain, 1), *oracle(reach(round), round.accepted)], run.pieces)
        assert len(explain.token) == 1 or f"Accepted {round.accepted}; the grown tree held" in text
