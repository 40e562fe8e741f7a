"""Sampled acceptance in words: the rule, the verdicts with their numbers, and what the player replays."""

from __future__ import annotations

import re

import pytest
from hypothesis import given

from tests.strategies import runs
from tests.view.examples import BLUE, PIECES, SEA, SUN, WAS, drawn, example
from treegraft.trace.records import Accept, Decoding, Tried
from treegraft.verify import RULES
from treegraft.view.acceptance import LOSSY, acceptance, decoding_line, rule_view
from treegraft.view.events import event_views
from treegraft.view.explain import Explainer
from treegraft.view.model import run_view
from treegraft.view.words import render


def words(sentence) -> str:
    return render(sentence, lambda token: PIECES[token].decode(), lambda drafter: f"drafter {drafter}")


def explainer(*verdicts: Tried, rule: str = "points", path: list[int] | None = None) -> Explainer:
    return Explainer(drawn(rule, list(verdicts), path).rounds[0])


def verdict(node: int, *verdicts: Tried, **changes) -> str:
    """The sentence on how the node was judged."""
    return words(explainer(*verdicts, **changes).node(node)[1])


@pytest.mark.parametrize(("decoding", "line"), [
    (Decoding(), "greedy"),
    (Decoding(temperature=1, rule="points", seed=3), "rule points, temperature 1, seed 3"),
    (Decoding(temperature=0.5, top_k=40, top_p=0.9, min_p=0.05, rule="chain"),
     "rule chain, temperature 0.5, top-k 40, top-p 0.9, min-p 0.05"),
    (Decoding(temperature=1, rule="typical"),
     "rule typical, temperature 1 (lossy: the text is not distributed as the target’s own)"),
    (Decoding(temperature=1, rule="\u202enew"), "rule \\u202enew, temperature 1"),
])
def test_how_the_output_was_chosen_in_one_line(decoding, line):
    assert decoding_line(decoding) == line


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_is_named_with_its_meaning_and_called_lossy_where_it_is(rule):
    view = rule_view(rule)
    assert (view["name"], view["help"]) == (rule, RULES[rule].help)
    assert view["lossy"] == ("" if RULES[rule].lossless else LOSSY)


def test_a_rule_of_another_program_has_a_name_alone():
    assert rule_view("my\u202erule") == {"name": "my\\u202erule", "help": "", "lossy": ""}


@pytest.mark.parametrize(("node", "told"), [
    (1, "Rejected: after “The” the target’s p was 0.670 and u 0.750: not accepted."),
    (2, "Accepted: after “The” the p that was left of the target’s was 0.913, and u 0.250, below it."),
    (5, "Rejected: after “ sea” the target’s p was 0.951 and u 0.970: not accepted."),
    (3, "Not reached: its parent “ sky” was rejected."),
])
def test_verdicts_by_p(node, told):
    assert words(Explainer(drawn().rounds[0]).node(node)[1]) == told


def test_verdicts_by_p_over_q():
    lost = Tried(node=1, p=-40_000, q=-10_000, u=0.75, accepted=False)
    won = Tried(node=2, p=-9_100, q=-120_000, u=0.75, accepted=True)
    assert verdict(1, lost, won, rule="sequoia") == (
        "Rejected: after “The” the target’s p was 0.670 and the drafter’s q 0.905, and u 0.750: not accepted.")
    assert verdict(2, lost, won, rule="sequoia") == (
        "Accepted: after “The” the p that was left of the target’s was 0.913 and the drafter’s q 0.301, and u 0.750,"
        " below p / q.")


def test_a_child_after_the_accepted_one_was_not_tried():
    assert verdict(2, Tried(node=1, p=-40_000, u=0.5, accepted=True), path=[1]) == (
        "Rejected: not tried, as “ sky” was accepted before it.")


def test_the_last_of_two_verdicts_counts():
    lost = Tried(node=1, p=-40_000, q=-10_000, u=0.75, accepted=False)
    won = Tried(node=1, p=-40_000, q=-10_000, u=0.125, accepted=True)
    assert verdict(1, lost, won, rule="specinfer", path=[1]).endswith("and u 0.125, below p / q.")


def test_whole_paths():
    inner = Tried(node=3, p=-60_000, q=-10_000, u=0.5, accepted=True)
    early = Tried(node=5, p=-60_000, q=-10_000, u=0.75, accepted=False)
    other = Tried(node=2, p=-60_000, q=-10_000, u=0.875, accepted=False)
    known = {"rule": "traversal", "path": [1, 3]}
    assert verdict(3, early, other, inner, **known) == (
        "Accepted: the chance of the whole path to it was 0.607 and u 0.500, below it.")
    assert verdict(1, early, other, inner, **known) == "Accepted: it lies on a path that was accepted as a whole."
    assert verdict(2, early, other, inner, **known) == (
        "Rejected: the chance of the whole path to it was 0.607 and u 0.875: not accepted.")
    assert verdict(5, early, other, inner, **known) == (
        "Not reached: the chance of the whole path to it was 0.607 and u 0.750: not accepted.")


def test_thresholds():
    tried = [Tried(node=node, p=p, u=0.09, accepted=p > -240_000) for node, p in (
        (1, -40_000), (2, -120_000), (3, -10_000), (4, -250_000))]
    known = {"rule": "typical", "path": [1, 3]}
    assert verdict(3, *tried, **known) == "Accepted: its p of 0.905 is above the threshold of 0.090."
    assert verdict(4, *tried, **known) == "Rejected: its p of 0.082 is not above the threshold of 0.090."
    assert verdict(2, *tried, **known) == (
        "Rejected: its p of 0.301 is above the threshold of 0.090, but another branch was accepted.")


def test_without_the_numbers_of_a_verdict_the_sentences_say_less():
    told = explainer(Tried(node=1, p=-40_000, accepted=False), Tried(node=2, p=-9_100, accepted=True))
    assert words(told.node(1)[1]) == "Rejected: not tried, as “ sea” was accepted before it."


def test_where_the_bonus_was_drawn_from():
    assert words(Explainer(drawn().rounds[0]).bonus()) == (
        "Drawn after “ sea” from what the rejected tokens left of the target’s distribution, with p = 0.186. It is the"
        " root of the next round.")
    won = Tried(node=2, p=-120_000, u=0.25, accepted=True)
    assert words(explainer(won).bonus()) == (
        "Drawn from the target’s distribution after “ sea”, with p = 0.009. It is the root of the next round.")
    unknown = drawn()
    unknown.records[0].events[-1].bonus = SUN
    assert words(Explainer(unknown.rounds[0]).bonus()) == (
        "Drawn after “ sea” from what the rejected tokens left of the target’s distribution. It is the root of the next"
        " round.")


def test_a_threshold_takes_nothing_from_the_bonus():
    low = Tried(node=5, p=-5_000, u=0.09, accepted=False, residual=[(WAS, -1)])
    assert words(explainer(Tried(node=2, p=-120_000, u=0.09, accepted=True), low, rule="typical").bonus()) == (
        "Drawn from the target’s distribution after “ sea”, with p = 0.009. It is the root of the next round.")


@pytest.mark.parametrize(("path", "told"), [
    ([2], "1 token accepted, “ sea”; then “ blue” is drawn."),
    ([2, 5], "2 tokens accepted, “ sea is”, to the end of the branch; then “ blue” is drawn."),
    ([], "No drafted token accepted; “ blue” is drawn."),
])
def test_the_event(path, told):
    explain = explainer(path=path)
    assert words(explain.event(explain.accept)) == told


def test_the_view_holds_verdicts_chances_and_expected_lengths():
    view = run_view(drawn())
    round = view["rounds"][0]
    assert (view["decoding"], view["rule"]["name"]) == ("rule points, temperature 1, top-p 0.9, seed 1", "points")
    accept = round["events"][-1]
    assert accept["rule"] == rule_view("points")
    assert accept["tried"][0] == [1, -40_000, None, 0.75, False, [(SEA, -9_100), (SUN, -289_000)]]
    assert [row[0] for row in accept["tried"]] == [1, 2, 5]
    assert {SEA, SUN, WAS, BLUE} <= view["pieces"].keys()
    assert round["chances"][3] == 0.905
    assert round["expected"][0] == pytest.approx(0.670 * 1.987 + 0.301 * 1.951)
    assert words(Explainer(drawn().rounds[0]).expects()) == (
        "Expected accepted length 1.92, computed from the recorded probabilities.")


def test_a_greedy_round_replays_nothing_and_expects_nothing():
    run = example()
    assert event_views(run.records[0].events, set())[-1].keys() == {"kind", "title"}
    view = run_view(run)
    assert view["decoding"] == "greedy"
    assert (view["rounds"][0]["expects"], view["rounds"][0]["expected"]) == (None, {})


def test_the_residual_of_a_hostile_trace_is_cut():
    accept = Accept(rule="points", path=[], bonus=1, tried=[
        Tried(node=1, p=-1, u=0.5, accepted=False, residual=[(token, -token) for token in range(1000)])])
    assert len(acceptance(accept)["tried"][0][5]) == 8


@given(runs(min_rounds=1))
def test_every_tried_node_of_any_run_tells_its_numbers(run):
    for round in run.rounds:
        explain = Explainer(round)
        if explain.sampled:
            for node in {tried.node for tried in explain.accept.tried}:
                told = " ".join(render(sentence, str, str) for sentence in explain.node(node))
                assert re.search(r"u (0\.|1\.000)", told) or "threshold" in told or "Discarded" in told
