"""Sentences say what the record says: the right words, with the right numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.strategies import runs
from tests.view.examples import PIECES, example
from treegraft.trace.records import Prune
from treegraft.view.explain import Explainer
from treegraft.view.words import FIELDS, NAMES, TEMPLATES, render, say


def words(sentence) -> str:
    return render(sentence, lambda token: PIECES[token].decode(), lambda drafter: ["lookup", "small"][drafter])


def fate(node: int, **changes) -> str:
    explain = Explainer(example(**changes).rounds[0])
    return " ".join(map(words, explain.node(node)))


@pytest.mark.parametrize(("node", "told"), [
    (0, "Root: the target chose it before this round, and every drafted token continues from here."),
    (1, "Kept: rank 1 of 8 by score. Accepted: it is the target’s first choice after “The”, with p = 0.670."),
    (2, "Kept: rank 3 of 8 by score. Rejected: after “The” the target preferred “ sky” by 0.80 nats,"
        " p = 0.670 against 0.301."),
    (4, "Kept: rank 5 of 8 by score. Rejected: after “ sky” the target preferred “ is” by 2.40 nats,"
        " p = 0.905 against 0.082."),
    (5, "Kept: rank 4 of 8 by score. Not reached: its parent “ sea” was rejected. On its own branch it was the target’s"
        " first choice, with p = 0.951."),
    (6, "Pruned: rank 6 of 8 by score, 0.42 nats below the last of the 5 kept."),
    (7, "Pruned: rank 7 of 8 by score, 1.50 nats below the last of the 5 kept."),
    (8, "Pruned: no drafter scored it, and the budget is 5."),
])
def test_fates_with_their_numbers(node, told):
    assert fate(node) == told


def test_a_tie_is_told_as_one():
    explain = Explainer(example().rounds[0])
    explain.logprob[4] = explain.logprob[3]  # “ was” as likely as “ is”, which has the lower id
    assert words(explain.node(4)[1]) == (
        "Rejected: after “ sky” the target found it and “ is” exactly as likely, p = 0.905; of equals it takes the token"
        " with the lower id.")


def test_what_was_pruned_for_the_sake_of_its_parent():
    # Without node 1 its child 3 cannot be kept, though it ranks second.
    run = example(Prune(budget=2, rule="score", kept=[0, 2, 5]))
    explain = Explainer(run.rounds[0])
    explain.fates = ["root", "pruned", "rejected", "pruned", "pruned", "unreached", "pruned", "pruned", "pruned"]
    explain.kept, explain.last_kept = [2, 5], 5
    assert words(explain.node(3)[0]) == (
        "Pruned although rank 2 of 8 by score: the tokens before it did not fit into the budget of 2.")


def test_selection_by_another_rule_is_not_called_one_by_score():
    run = example(Prune(budget=5, rule="threshold", kept=[0, 1, 2, 3, 4, 5]))
    assert words(Explainer(run.rounds[0]).node(6)[0]) == "Pruned by the rule threshold: rank 6 of 8 by score."


def test_discarded_tokens_and_the_end_of_the_text():
    run = example(discarded=2)
    explain = Explainer(run.rounds[0])
    assert words(explain.node(3)[1]) == "Discarded: the target accepted it, but the text had ended before it."
    assert words(explain.summary()) == "The text ended in this round: 1 token written, 2 discarded."
    assert words(explain.bonus()).endswith("discarded: the text had ended before it.")
    assert words(explain.event(run.rounds[0].event("accept"))) == (
        "The target agrees with 2 tokens, “ sky is”; the text ends after 1 of them, and the rest is discarded.")
    at_the_end = example(discarded=1).rounds[0]
    assert words(Explainer(at_the_end).event(at_the_end.event("accept"))) == (
        "2 tokens accepted, “ sky is”; the text ends there, and the target’s own “ blue” is discarded.")


def test_events_and_the_round():
    round = example().rounds[0]
    explain = Explainer(round)
    assert [words(explain.event(event)) for event in round.record.events] == [
        "small extends 1 node by 2 new tokens.",
        "small extends 1 node by 2 new tokens.",
        "lookup copies 1 token; the longest match is 2 tokens long.",
        "small extends 1 node by 2 new tokens.",
        "lookup copies 1 token; the longest match is 1 token long.",
        "The best 5 of 8 drafted tokens go to the target; the last of them has a score of −1.50 nats.",
        "The target reads 6 tokens in one forward pass of 0.8 ms.",
        "2 tokens accepted, “ sky is”, to the end of the branch; the target adds “ blue”.",
    ]
    assert words(explain.summary()) == (
        "2 of 5 drafted tokens accepted; with the target’s own “ blue” the round wrote 3 tokens.")
    assert words(explain.bonus()) == (
        "The target’s own choice after “ is”, with p = 0.497. It is the root of the next round.")


def test_small_chances_are_not_said_to_be_equal_to_anything():
    assert words(say("own branch", p=-50_000)) == "On its own branch the target gave it p = 0.607."
    assert words(say("own branch", p=-5_000_000)) == "On its own branch the target gave it p < 0.001."


def test_sentences_take_exactly_their_values():
    with pytest.raises(ValueError, match="takes"):
        say("kept", rank=1)
    with pytest.raises(ValueError, match="takes"):
        say("kept", rank=1, pool=2, more=3)


def test_a_packed_sentence_leaves_out_what_the_reader_knows():
    packed = say("pruned", rank=6, pool=8, gap=42_000, kept=5).packed({"rank", "pool", "kept"})
    assert packed == [list(TEMPLATES).index("pruned"), 42_000]


def test_templates_use_known_kinds():
    kinds = {field.kind for fields in FIELDS.values() for field in fields if field.name and "|" not in field.kind}
    assert kinds <= {"count", "text", "nats", "score", "prob", "p", "ms", "number", "level", "token", "tokens",
                     "drafter"}
    assert all(names == list(dict.fromkeys(names)) for names in NAMES.values())


@given(runs(min_rounds=1))
def test_every_node_of_any_run_has_its_sentences(run):
    for round in run.rounds:
        explain = Explainer(round)
        for node, fate_of in enumerate(round.fates):
            told = [render(sentence, str, str) for sentence in explain.node(node)]
            begins = {"root": "Root", "accepted": "Accepted", "rejected": "Rejected", "unreached": "Not reached",
                      "pruned": "Pruned", "discarded": "Discarded"}[fate_of]
            assert any(sentence.startswith(begins) for sentence in told)
        for event in round.record.events:
            assert render(explain.event(event), str, str)
        assert render(explain.summary(), str, str)
        assert render(explain.bonus(), str, str)


@given(runs(min_rounds=1))
def test_ranks_are_the_order_in_which_selection_takes_nodes(run):
    for round in run.rounds:
        explain, tree = Explainer(round), round.tree
        order = sorted(range(1, tree.size), key=explain.rank.__getitem__)
        drafted = [node for node in range(1, tree.size) if node not in explain.retrieved.new]
        best_first = np.lexsort((drafted, tree.depth[drafted], -tree.score[drafted]))
        assert order[: len(drafted)] == [drafted[place] for place in best_first]
        assert set(order[len(drafted):]) == explain.retrieved.new
