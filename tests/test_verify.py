"""Acceptance rules: the law of the output by enumeration and by simulation, chances, records and refusals."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests import laws
from treegraft import verify
from treegraft.trace.records import NATS
from treegraft.tree import DraftTree
from treegraft.verify import DRAFTINGS, RULE_OF, RULES, Draws, Trial, accept_sampled

LOSSLESS = [
    ("points", "best", [2, 2], 4),
    ("points", "best", [3, 2, 1], 6),
    ("mixed", "best", [2, 2], 5),
    ("chain", "one", [1, 1, 1], 5),
    ("mixed", "one", [1, 1], 6),
    ("specinfer", "one", [1, 1], 8),
    ("specinfer", "iid", [2, 2], 4),
    ("specinfer", "iid", [3], 8),
    ("mixed", "iid", [3, 1], 4),
    ("sequoia", "one", [1, 1], 6),
    ("sequoia", "distinct", [2, 2], 4),
    ("sequoia", "distinct", [4], 5),
    ("mixed", "distinct", [3, 1], 4),
    ("mixed", "mixed-iid", [2, 1], 4),
    ("mixed", "mixed-distinct", [2, 1], 4),
    ("traversal", "one", [1, 1, 1], 5),
    ("traversal", "iid", [2, 2], 4),
    ("traversal", "iid", [2, 1, 1], 4),
    ("traversal", "distinct", [2, 2], 4),
    ("traversal", "distinct", [3, 1], 4),
]
"""Rule, drafting, children by depth, vocabulary."""


def error_of_law(world: laws.World, rule: str, drafting: str, shape: list[int]) -> float:
    """Largest difference between the joint law of the first tokens and the target's, by enumeration."""
    length = len(shape) + 1
    return float(np.abs(laws.exact_law(world, shape, drafting, rule, length) - world.law(length)).max())


# --- the law of the output ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rule", "drafting", "shape", "vocab"), LOSSLESS)
@pytest.mark.parametrize("impossible", [0.2, 0.6])
def test_joint_law_is_the_targets(rule, drafting, shape, vocab, impossible):
    assert error_of_law(laws.world(vocab, seed=3, impossible=impossible), rule, drafting, shape) < 1e-9


def test_every_lossless_rule_is_enumerated_with_all_that_it_takes():
    enumerated = {(rule, drafting.split("-")[0]) for rule, drafting, _, _ in LOSSLESS}
    promised = {(rule.name, drafting) for rule in RULES.values() for drafting in rule.drafting if rule.lossless}
    assert promised - enumerated == {("greedy", drafting) for drafting in DRAFTINGS}


@st.composite
def distributions(draw, vocab: int) -> np.ndarray:
    weights = np.array(draw(st.lists(st.sampled_from([0, 0, 1, 2, 5, 20]), min_size=vocab, max_size=vocab)), float)
    assume(weights.sum() > 0)
    return weights / weights.sum()


@st.composite
def cases(draw) -> tuple[laws.World, str, str, list[int]]:
    """A random world, and a rule with a drafting that it takes, for a tree small enough to enumerate."""
    vocab = draw(st.integers(1, 4))
    world = laws.World(draw(st.lists(distributions(vocab), min_size=1, max_size=3)),
                       draw(st.lists(distributions(vocab), min_size=1, max_size=3)))
    rule, drafting, _, _ = draw(st.sampled_from(LOSSLESS))
    wide = 1 if drafting == "one" else 3
    shape = draw(st.sampled_from([[wide], [1, 1], [1, min(2, wide)], [min(2, wide), 1]]))
    return world, rule, drafting, shape


@given(cases())
@settings(max_examples=60)
def test_joint_law_is_the_targets_in_any_world(case):
    world, rule, drafting, shape = case
    assert error_of_law(world, rule, drafting, shape) < 1e-9


def skips_repeats(p, drawn):
    """SpecInfer's rule on each token once, though it was drawn twice."""
    return verify_specinfer(p, Draws(list(dict.fromkeys(drawn.tokens)), drawn.q, True))


def points_first(p, drawn, tokens):
    """Mixed siblings the other way round, where the points were chosen with the draws in view."""
    for trial in verify.points(p, tokens):
        yield trial
        p = trial.left
    if drawn is not None:
        yield from verify.specinfer(p, drawn)


def keeps_q(p, drawn):
    """Sequoia's rule with the q of the first draw throughout."""
    return verify_specinfer(p, drawn)


def only_tokens_on_top(p, drawn):
    """Accepts what the target likes at least as much as the drafter, and nothing else."""
    for trial in verify_chain(p, drawn):
        yield Trial(trial.token, trial.p, trial.q, float(trial.chance == 1), trial.left)


verify_specinfer, verify_chain = verify.specinfer, verify.chain

BROKEN = [
    ("points", "best", [2, 1], {"without": lambda p, token: p}),
    ("chain", "one", [1, 1], {"residual": lambda p, q: p}),
    ("chain", "one", [1, 1], {"WALKS": {**verify.WALKS, "chain": only_tokens_on_top}}),
    ("specinfer", "iid", [3], {"WALKS": {**verify.WALKS, "specinfer": skips_repeats}}),
    ("specinfer", "iid", [2, 1], {"residual": lambda p, q: p}),
    ("sequoia", "distinct", [2, 1], {"WALKS": {**verify.WALKS, "sequoia": keeps_q}}),
    ("mixed", "mixed-iid", [1, 1], {"mixed": points_first}),
    ("traversal", "iid", [2, 1], {"normalised": lambda rest, fallback: fallback}),
    ("traversal", "distinct", [2, 1], {"without": lambda p, token: p}),
    ("traversal", "one", [1, 1], {"ratio": lambda p, q: float(p >= q)}),
]
"""Rules with one thing wrong, and the part of the module that it is put in for."""
BROKEN_IDS = [f"{rule}-{'-'.join(parts)}-{index}" for index, (rule, _, _, parts) in enumerate(BROKEN)]


@pytest.mark.parametrize(("rule", "drafting", "shape", "parts"), BROKEN, ids=BROKEN_IDS)
def test_a_broken_rule_changes_the_law(monkeypatch, rule, drafting, shape, parts):
    world = laws.world(4, seed=1)
    assert error_of_law(world, rule, drafting, shape) < 1e-9
    for name, part in parts.items():
        monkeypatch.setattr(verify, name, part)
    assert error_of_law(world, rule, drafting, shape) > 1e-4


SIMULATED = (0, 1, 3, 5, 6, 7)
"""Which of them, one for each rule, the simulation is to find."""


@pytest.mark.parametrize(("rule", "drafting", "shape", "parts"), [BROKEN[index] for index in SIMULATED],
                         ids=[BROKEN_IDS[index] for index in SIMULATED])
def test_texts_are_as_frequent_as_the_target_writes_them(monkeypatch, rule, drafting, shape, parts):
    world = laws.world(4, seed=1)
    law = world.law(3)
    assert laws.chi_square(laws.sampled_counts(world, shape, drafting, rule, 3, 2000, seed=11), law) > 0.001
    for name, part in parts.items():
        monkeypatch.setattr(verify, name, part)
    assert laws.chi_square(laws.sampled_counts(world, shape, drafting, rule, 3, 2000, seed=11), law) < 0.001


# --- chances --------------------------------------------------------------------------------------------------------


@given(cases(), st.data())
@settings(max_examples=40)
def test_chances_are_those_of_all_verdicts(case, data):
    world, rule, drafting, shape = case
    drafted = [grown for _, grown in laws.drafts(world, shape, drafting)]
    draft = laws.build(world, data.draw(st.sampled_from(drafted)))
    accepted = np.zeros(draft.tree.size)
    for weight, outcome in laws.outcomes(draft, rule):
        accepted[np.append(0, outcome.path)] += weight
    order = np.arange(draft.tree.size)
    chances = verify.node_chances(draft.tree, order, draft.distribution, draft.draws, rule)
    assert chances[0] == 1
    assert np.allclose(chances[1:] * accepted[draft.tree.parent[1:]], accepted[1:], atol=1e-12)
    assert (chances >= 0).all()
    assert (chances <= 1).all()


def test_chances_of_siblings_by_hand():
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.2, 0.4, 0.4])
    assert verify.chances(p, None, [1, 0], "points") == pytest.approx({1: 0.3, 0: 0.5})
    assert verify.chances(p, Draws([1], q, True), [], "chain") == pytest.approx({1: 0.75})
    # After a defeat of token 1, max(0, p - q) leaves only token 0.
    assert verify.chances(p, Draws([1, 1, 0], q, True), [], "specinfer") == pytest.approx({1: 0.75, 0: 0.25})
    assert verify.chances(p, Draws([1], q, True), [2, 0], "mixed") == pytest.approx({1: 0.75, 2: 0.0, 0: 0.25})


def test_chances_know_of_the_q_that_is_left_without_replacement():
    p, q = np.array([0.4, 0.1, 0.4, 0.1]), np.array([0.1, 0.5, 0.2, 0.2])
    # A defeat of token 1 leaves p = (0.6, 0, 0.4, 0) and q = (0.2, 0, 0.4, 0.4): token 2 then wins for sure.
    assert verify.chances(p, Draws([1, 2], q, False), [], "sequoia") == pytest.approx({1: 0.2, 2: 0.8})


def test_nodes_below_one_that_the_target_cannot_say_have_no_chance_to_be_reached_by_traversal():
    tree, p, q = DraftTree(0, 1, 5), np.array([0.0, 1.0]), np.array([0.5, 0.5])
    tree.append([0, 1], [0, 1], [0, 0], 0)
    draws = {0: Draws([0], q, True), 1: Draws([1], q, True)}
    assert verify.node_chances(tree, np.arange(3), lambda node: p, draws, "traversal").tolist() == [1, 0, 0]


# --- corners --------------------------------------------------------------------------------------------------------


def star(tokens: list[int]) -> DraftTree:
    """A root with these children."""
    tree = DraftTree(0, 1, 50)
    tree.append([0] * len(tokens), tokens, [0] * len(tokens), 0)
    return tree


def accept(tree: DraftTree, p: np.ndarray, draws: dict[int, Draws], rule: str, *numbers: float) -> verify.Outcome:
    """One round in which every node has the same target distribution, with the given random numbers."""
    given_numbers = iter(numbers)
    return accept_sampled(tree, np.arange(tree.size), lambda node: p, draws, rule, lambda: next(given_numbers))


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "greedy"])
def test_a_tree_without_children_gives_the_bonus_alone(rule):
    outcome = accept(star([]), np.array([0.25, 0.5, 0.25]), {}, rule, 0.5)
    assert (outcome.path.tolist(), outcome.bonus, outcome.tried) == ([], 1, [])


@pytest.mark.parametrize("drafting", ["best", "one", "iid", "distinct"])
def test_a_vocabulary_of_one_token_accepts_everything(drafting):
    tree, only = DraftTree(0, 1, 5), np.ones(1)
    tree.append([0, 1], [0, 0], [0, 0], 0)
    tokens = [0, 0] if drafting == "iid" else [0]
    draws = {} if drafting == "best" else {node: Draws(tokens, only, drafting != "distinct") for node in (0, 1)}
    for rule in verify.rules_for(drafting):
        outcome = accept(tree, only, draws, rule, *[1 - 2**-53] * 9)
        assert (outcome.path.tolist(), outcome.bonus) == ([1, 2], 0)


@pytest.mark.parametrize(("rule", "draws"), [
    ("points", {}), ("mixed", {}), ("typical", {}),
    *[(rule, {0: Draws([1], np.array([0.5, 0.5]), True)}) for rule in ("chain", "specinfer", "sequoia", "traversal")]])
def test_what_the_target_cannot_say_is_not_accepted_even_by_a_zero(rule, draws):
    outcome = accept(star([1]), np.array([1.0, 0.0]), draws, rule, 0.0, 0.0)
    assert (outcome.path.tolist(), outcome.bonus) == ([], 0)
    assert outcome.tried[0].p is None


def test_where_a_defeat_leaves_nothing_the_distribution_stays():
    p = np.array([0.3, 0.7])
    assert verify.residual(p, p) is p
    assert verify.residual(p, np.array([0.3, 0.7000001])) is p
    sure = np.array([0.0, 1.0])
    assert verify.without(sure, 1) is sure
    assert p.tolist() == [0.3, 0.7]


def test_rounding_that_leaves_nothing_still_gives_a_possible_bonus():
    nearly = np.array([0.0, 1 - 2**-53, 0.0])
    drawn = {0: Draws([1], np.array([0.0, 1.0, 0.0]), True)}
    for rule, draws in (("points", {}), ("chain", drawn), ("traversal", drawn)):
        outcome = accept(star([1]), nearly, draws, rule, 1 - 2**-53, 0.0)
        assert (outcome.path.tolist(), outcome.bonus) == ([], 1)


@given(st.integers(1, 6).flatmap(distributions), st.floats(0, 1, exclude_max=True))
def test_a_draw_is_the_inverse_of_the_cumulative_sums(p, u):
    token, sums = verify.pick(p, u), np.cumsum(p)
    assert p[token] > 0
    assert (sums[token - 1] if token else 0) - 1e-12 <= u <= sums[token] + 1e-12


def test_a_draw_at_either_end_takes_a_possible_token():
    p = np.array([0.0, 0.25, 0.75, 0.0])
    assert (verify.pick(p, 0.0), verify.pick(p, 1 - 2**-53)) == (1, 2)


def test_a_repeated_draw_is_tried_again_in_vain():
    p, q = np.array([0.1, 0.2, 0.7]), np.array([0.0, 0.9, 0.1])
    outcome = accept(star([1]), p, {0: Draws([1, 1], q, True)}, "specinfer", 0.99, 0.0, 0.0)
    assert [(tried.node, tried.p is None) for tried in outcome.tried] == [(1, False), (1, True)]
    assert outcome.path.size == 0
    # max(0, p - q) = (0.1, 0, 0.6); normalised and once more without q: (0.1, 0, 0.6) / 0.7 - (0, 0, 0.1).
    assert outcome.left == pytest.approx(np.array([1 / 7, 0, 6 / 7 - 0.1]) / 0.9)


def test_traversal_does_not_try_the_nodes_below_a_repeated_draw_again():
    tree, p, q = DraftTree(0, 1, 5), np.array([0.1, 0.2, 0.7]), np.array([0.0, 0.9, 0.1])
    tree.append([0, 1], [1, 1], [0, 0], 0)
    outcome = accept(tree, p, {0: Draws([1, 1], q, True), 1: Draws([1], q, True)}, "traversal", 0.9, 0.9, 0.0, 0.0)
    assert [(tried.node, tried.p is None) for tried in outcome.tried] == [(2, False), (1, False), (1, True)]


@pytest.mark.parametrize(("drafting", "rule", "shape"), [
    ("one", "chain", [1, 1, 1]), ("iid", "specinfer", [2, 1]), ("distinct", "sequoia", [2, 1])])
def test_traversal_accepts_more_than_the_rule_that_walks_down(drafting, rule, shape):
    world, lengths = laws.world(4, seed=1), {rule: 0.0, "traversal": 0.0}
    for chance, grown in laws.drafts(world, shape, drafting):
        draft = laws.build(world, grown)
        for name in lengths:
            lengths[name] += chance * sum(weight * len(out.path) for weight, out in laws.outcomes(draft, name))
    assert lengths["traversal"] > lengths[rule] + 0.01


def test_a_node_id_and_not_the_token_decides_which_point_comes_first():
    outcome = accept(star([3, 0, 2]), np.full(4, 0.25), {}, "points", 0.9, 0.9, 0.9, 0.0)
    assert [tried.node for tried in outcome.tried] == [1, 2, 3]
    assert outcome.bonus == 1


def test_children_that_were_not_verified_are_not_tried():
    tree, p, numbers = star([1, 2]), np.full(3, 1 / 3), iter([0.99, 0.99])
    outcome = accept_sampled(tree, np.array([0, 2]), lambda node: p, {}, "points", lambda: next(numbers))
    assert ([tried.node for tried in outcome.tried], outcome.bonus) == ([2], 1)


# --- records --------------------------------------------------------------------------------------------------------


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=40)
def test_records_allow_a_replay_of_every_verdict(case, seed):
    world, rule, drafting, shape = case
    rng = np.random.default_rng(seed)
    draft = laws.build(world, next(laws.drafts(world, shape, drafting))[1])
    outcome = draft.accept(rule, rng.random)
    won = [tried.node for tried in outcome.tried if tried.accepted]
    assert won == (outcome.path[-1:] if rule == "traversal" else outcome.path).tolist()
    for tried, verdict in zip(outcome.tried, outcome.verdicts, strict=True):
        chance = 0.0 if tried.p is None else math.exp((tried.p - (tried.q or 0)) / NATS)
        assert min(1.0, chance) == pytest.approx(verdict.trial.chance, rel=1e-4, abs=1e-9)
        assert tried.accepted == (tried.u < verdict.trial.chance)
        expected = {token: p for token, p in enumerate(verdict.trial.left) if p > 0 and not tried.accepted}
        assert {token: math.exp(p / NATS) for token, p in tried.residual} == pytest.approx(expected, rel=1e-4)
        assert [p for _, p in tried.residual] == sorted((p for _, p in tried.residual), reverse=True)


def test_a_record_names_the_best_tokens_of_what_is_left_ties_by_token():
    p = np.array([0.02, 0.1, 0.1, 0.3, 0.0, 0.08, 0.1, 0.1, 0.1, 0.05, 0.05])
    outcome = accept(star([3]), p, {}, "points", 0.9, 0.0)
    assert [token for token, _ in outcome.tried[0].residual] == [1, 2, 6, 7, 8, 5, 9, 10]


@given(st.lists(st.sampled_from([0, 1, 2, 3]), min_size=1, max_size=40), st.integers(1, 8))
def test_the_best_tokens_are_sorted_equal_ones_by_token(weights, k):
    p = np.array(weights) / 50
    tokens = [token for token, _ in verify.best(p, k)]
    assert sorted(p[tokens], reverse=True) == sorted(p[p > 0], reverse=True)[:k]
    assert tokens == sorted(tokens, key=lambda token: (-p[token], token))


# --- Medusa's typical acceptance ------------------------------------------------------------------------------------


def test_typical_acceptance_is_marked_lossy_and_changes_the_law():
    assert [rule.name for rule in RULES.values() if not rule.lossless] == ["typical"]
    assert error_of_law(laws.world(4, seed=3), "typical", "best", [2, 1]) > 0.05


def test_typical_threshold_is_the_lower_of_both_bounds():
    flat = np.full(8, 0.125)  # 0.3 * exp(-log 8) = 0.0375
    peaked = np.array([0.88, 0.09, 0.03, 0, 0, 0, 0, 0])  # 0.3 * exp(-0.434) = 0.194, so 0.09 counts
    assert accept(star([1]), flat, {}, "typical", 0.0).tried[0].u == pytest.approx(0.0375)
    outcome = accept(star([1, 0]), peaked, {}, "typical", 0.0)
    assert [(tried.node, tried.u, tried.accepted) for tried in outcome.tried] == [(1, 0.09, False), (2, 0.09, True)]


def test_typical_takes_the_longest_path_and_then_the_likeliest():
    tree, p = DraftTree(0, 1, 9), np.array([0.5, 0.3, 0.2, 0.0])
    tree.append([0, 0, 1, 2, 3], [1, 0, 2, 2, 3], [0] * 5, 0)  # 1-2-(3 cannot follow), 0-2
    outcome = accept(tree, p, {}, "typical", 0.0)
    assert outcome.path.tolist() == [2, 4]
    assert {tried.node: tried.accepted for tried in outcome.tried} == {1: True, 2: True, 3: True, 4: True, 5: False}
    tree.append([3], [1], [0], 0)
    assert accept(tree, p, {}, "typical", 0.0).path.tolist() == [1, 3, 6]


def test_typical_gives_no_chances():
    draft = star([1])
    assert verify.node_chances(draft, np.arange(2), lambda node: np.full(2, 0.5), {}, "typical").size == 0


# --- what fits what -------------------------------------------------------------------------------------------------

UNIFORM = np.full(6, 1 / 6)
TREES = {
    "best": ([1, 2], {}),
    "one": ([1], {0: Draws([1], UNIFORM, True)}),
    "iid": ([1, 2], {0: Draws([1, 2], UNIFORM, True)}),
    "distinct": ([1, 2], {0: Draws([1, 2], UNIFORM, False)}),
    "mixed": ([1, 2], {0: Draws([1], UNIFORM, True)}),
}


@pytest.mark.parametrize("drafting", DRAFTINGS)
@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "greedy"])
def test_rules_refuse_what_the_table_says_and_nothing_else(rule, drafting):
    tokens, draws = TREES[drafting]
    if drafting in RULES[rule].drafting:
        assert rule in verify.rules_for(drafting)
        assert accept(star(tokens), UNIFORM, draws, rule, 0.99, 0.99, 0.99).bonus == 5
    else:
        assert rule not in verify.rules_for(drafting)
        with pytest.raises(ValueError, match=f"{rule} does not take .*; allowed there: .*typical"):
            accept(star(tokens), UNIFORM, draws, rule, 0.99, 0.99, 0.99)


def test_each_drafting_has_a_lossless_rule():
    assert RULE_OF.keys() == DRAFTINGS.keys()
    assert all(RULES[rule].lossless and drafting in RULES[rule].drafting for drafting, rule in RULE_OF.items())


def test_the_documented_tables_are_those_of_the_code():
    text = (Path(__file__).parents[1] / "docs/acceptance.md").read_text()
    rows = [[cell.strip(" `*") for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    assert {row[0]: row[3] == "yes" for row in rows if row[0] in RULES} == {
        rule.name: rule.lossless for rule in RULES.values()}
    fitting = {row[1]: [row[2], *re.findall("`(.*?)`", f"`{row[3]}`")] for row in rows if row[1] in DRAFTINGS}
    assert {drafting: sorted(rules) for drafting, rules in fitting.items()} == {
        drafting: sorted(verify.rules_for(drafting)) for drafting in DRAFTINGS}
    assert {drafting: rules[0] for drafting, rules in fitting.items()} == RULE_OF


def test_greedy_acceptance_is_for_temperature_0():
    assert not any("greedy" in verify.rules_for(drafting) for drafting in DRAFTINGS)
    with pytest.raises(ValueError, match="greedy does not take"):
        accept(star([1]), UNIFORM, {}, "greedy", 0.5)


def test_a_drawn_token_must_be_in_the_tree():
    with pytest.raises(ValueError, match=r"tokens \[1, 3\] were drawn after node 0, not all"):
        accept(star([1]), UNIFORM, {0: Draws([1, 3], UNIFORM, True)}, "specinfer", 0.5)


@pytest.mark.parametrize(("tokens", "replacement", "match"), [
    ([2], True, "probability above 0"), ([0, 0], False, "must differ")])
def test_draws_that_q_cannot_give(tokens, replacement, match):
    with pytest.raises(ValueError, match=match):
        Draws(tokens, np.array([0.5, 0.5, 0.0]), replacement)
