"""Sampled decoding has the distribution of plain sampling, whatever the drafters propose."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import treegraft as tg
from tests import remembered, tiny, tiny_heads
from tests.remembered import PROMPT, VOCAB, Remembered, RememberedLM
from treegraft import verify
from treegraft.batch import record_prompts
from treegraft.drafters.lm import LM
from treegraft.drafters.logitspec import LogitSpec as LogitSpecDrafter
from treegraft.drafters.lookahead import Lookahead as LookaheadDrafter
from treegraft.drafters.lookup import Lookup as LookupDrafter
from treegraft.drafters.ngram import Ngram
from treegraft.drafters.successors import Successors
from treegraft.engine import decode, prefill
from treegraft.models.cache import CachedModel
from treegraft.models.sampler import Sampler
from treegraft.models.target import Target
from treegraft.policies import (
    POLICIES,
    Cascade,
    Chain,
    Ddd,
    Eagle2,
    Graft,
    LogitSpec,
    Lookahead,
    Lookup,
    OptTree,
    Plain,
    PromptLookup,
    Sequoia,
    SpecExec,
    Static,
    Talon,
    TokenRecycling,
    TreeGraft,
)
from treegraft.policies.base import Policy, Role
from treegraft.policies.drawn import draw
from treegraft.prompts import Prompt
from treegraft.run import RunError
from treegraft.sampling import LARGEST_SEED, Sampling, rule_for, rules_for
from treegraft.settings import SettingError
from treegraft.stop import Stop
from treegraft.tree import ROOT, DraftTree

LENGTH = 3
OUTCOMES = VOCAB**LENGTH
SETTINGS = [Sampling(0.5, seed=1), Sampling(1, seed=2), Sampling(1.5, seed=3), Sampling(1, top_p=0.9, seed=4)]
SHAPE = "[[0], [1], [2], [0, 0], [0, 1], [1, 0], [0, 0, 0]]"
DEEP = "[[0], [1], [0, 0], [0, 1], [1, 0], [1, 1], [0, 0, 0], [0, 0, 1], [1, 0, 0]]"


@dataclass
class Siblings(Policy):
    """Two draws below the root, two best tokens beside them, and the best token below each: mixed siblings."""

    name = "siblings"
    roles = (Role("drafter", "drafts"),)

    @property
    def capacity(self) -> int:
        return 9

    @property
    def drafts(self) -> str:
        return "mixed"

    def draft(self, round) -> None:
        root = np.array([ROOT])
        draw(round, round.drafters[0], root, np.array([2]), 1, replacement=True)
        round.expand(round.drafters[0], root, 1, 2)
        round.expand(round.drafters[0], np.arange(1, round.tree.size), 2, 1)
        round.keep(np.arange(round.tree.size), 8, "all")


# --- the law of the first tokens ------------------------------------------------------------------------------------


def law(sampling: Sampling) -> np.ndarray:
    """The probability of every first three tokens under plain sampling: [VOCAB**3], multiplied out."""
    answers, sampler = remembered.answers(remembered.target()), Sampler(sampling, "points", VOCAB)
    chances = np.ones(1)
    for length in range(LENGTH):
        texts = [(*PROMPT, *text) for text in itertools.product(range(VOCAB), repeat=length)]
        next_token = sampler.probabilities(torch.stack([answers[text] for text in texts]))
        chances = (chances[:, None] * next_token).ravel()
    return chances


def drafters_for(policy: Policy) -> list:
    """Drafters for the roles, of the only kind that fits or the model."""
    kinds = {"token-recycling": [Successors], "logitspec": [LogitSpecDrafter], "prompt-lookup": [Ngram],
             "lookahead": [LookaheadDrafter], "lookup": [LookupDrafter], "graft": [None, Successors],
             "cascade": [LookupDrafter, None], "treegraft": [LookupDrafter, None]}
    made = [kind() if kind else RememberedLM(model=remembered.drafter())
            for kind in kinds.get(policy.name, [None] * len(policy.roles))]
    for number, drafter in enumerate(made):
        drafter.id = number
    return made


def texts(policy: Policy, sampling: Sampling, count: int) -> np.ndarray:
    """How often each outcome came about in `count` decodes, one after the other from one generator: [VOCAB**3]."""
    target = Target(Remembered(remembered.target()))
    drafters, sampler = drafters_for(policy), Sampler(sampling, rule_for(policy, sampling), VOCAB)
    counts = np.zeros(OUTCOMES, np.int64)
    for _ in range(count):
        a, b, c = written(target, policy, drafters, sampler)
        counts[(a * VOCAB + b) * VOCAB + c] += 1
    return counts


def written(target, policy, drafters, sampler) -> list[int]:
    stop = Stop((), [], LENGTH, 64, None)
    prefilled = prefill(target, drafters, PROMPT, 96, policy.capacity, sampler)
    steps = decode(target, policy, drafters, prefilled, stop, 96, sampler=sampler)
    return [prefilled.root, *(token for step in steps for token in step.tokens[: step.taken])]


def chance_of(counts: np.ndarray, law: np.ndarray) -> float:
    """The p-value of a chi-square test; neighbours are put together until about eight are expected of them."""
    expected = law * counts.sum()
    assert counts[law == 0].sum() == 0
    shared = np.minimum(expected.cumsum() // 8, counts.sum() // 8 - 1).astype(int)
    observed, expected = np.bincount(shared, counts), np.bincount(shared, expected)
    observed, expected = observed[expected > 0], expected[expected > 0]
    square = ((observed - expected) ** 2 / expected).sum()
    half = torch.tensor([(len(observed) - 1) / 2, square / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(*half))


# --- every rule -----------------------------------------------------------------------------------------------------

LOSSLESS = [
    Chain(length=3), Chain(length=3, drafting="iid"),
    Static(tree=SHAPE), Static(tree=DEEP, drafting="iid"), Static(tree=DEEP, drafting="distinct"),
    Siblings(),
    (Chain(length=3, drafting="iid"), "traversal"), (Static(tree=DEEP, drafting="iid"), "traversal"),
    (Static(tree=DEEP, drafting="distinct"), "traversal")]
"""Policies, alone with the rule that fits, or with another."""


def case(one) -> tuple[Policy, str]:
    return one if isinstance(one, tuple) else (one, "fitting")


def name_of(one) -> str:
    policy, rule = case(one)
    return f"{policy.name}-{rule_for(policy, Sampling(1.0, rule=rule))}-{policy.drafts}"


def counted(policy: Policy, rule: str, place: int) -> np.ndarray:
    """The outcomes of some hundred decodes under one of `SETTINGS`."""
    return remembered_counts(type(policy), tuple(policy.settings.items()), rule, place)


@functools.cache
def remembered_counts(kind: type, settings: tuple, rule: str, place: int) -> np.ndarray:
    return texts(kind(**dict(settings)), replace(SETTINGS[place], rule=rule), 200 if place == 0 else 120)


@pytest.mark.parametrize("place", range(len(SETTINGS)), ids=["0.5", "1", "1.5", "top-p"])
@pytest.mark.parametrize("one", LOSSLESS, ids=name_of)
def test_the_first_tokens_have_the_distribution_of_plain_sampling(one, place):
    assert chance_of(counted(*case(one), place), law(SETTINGS[place])) > 0.001


@pytest.mark.parametrize("place", range(len(SETTINGS)), ids=["0.5", "1", "1.5", "top-p"])
def test_all_rules_together_have_the_distribution_of_plain_sampling(place):
    total = sum(counted(*case(one), place) for one in LOSSLESS)
    assert chance_of(total, law(SETTINGS[place])) > 0.001


OTHERS = [
    Plain(), Sequoia(acceptance="[0.5, 0.3, 0.1]", budget=9, depth=3, drafting="distinct"),
    Eagle2(budget=8, top_k=3, depth=3), Ddd(budget=8), OptTree(budget=8), Talon(budget=8), SpecExec(budget=8, depth=3),
    Lookup(budget=8, top_k=3), PromptLookup(), LogitSpec(), Lookahead(), TokenRecycling(),
    Cascade(budget=8, early=1, late=2), TreeGraft(budget=8, top_k=2, layers=3, schedule="always"), Graft(budget=8)]


@pytest.mark.parametrize("policy", OTHERS, ids=lambda policy: policy.name)
def test_other_policies_have_the_distribution_of_plain_sampling(policy):
    assert chance_of(texts(policy, SETTINGS[0], 80), law(SETTINGS[0])) > 0.001


BROKEN = [
    (Chain(length=3, drafting="iid"), "fitting", "residual", lambda p, q: p),
    (Static(tree=DEEP, drafting="iid"), "fitting", "residual", lambda p, q: p),
    (Static(tree=DEEP, drafting="distinct"), "fitting", "residual", lambda p, q: p),
    (Static(tree=SHAPE), "fitting", "without", lambda p, token: p),
    (Static(tree=DEEP, drafting="iid"), "traversal", "normalised", lambda rest, fallback: fallback)]


@pytest.mark.parametrize(("policy", "rule", "part", "wrong"), BROKEN, ids=lambda one: getattr(one, "name", None))
def test_a_broken_rule_fails_the_same_test(policy, rule, part, wrong, monkeypatch):
    monkeypatch.setattr(verify, part, wrong)
    assert chance_of(texts(policy, replace(SETTINGS[0], rule=rule), 200), law(SETTINGS[0])) < 0.001


def test_typical_acceptance_is_marked_lossy_and_is():
    assert [name for name, rule in verify.RULES.items() if not rule.lossless] == ["typical"]
    counts = texts(Eagle2(budget=8, top_k=3, depth=3), replace(SETTINGS[1], rule="typical"), 200)
    assert chance_of(counts, law(SETTINGS[1])) < 0.001


# --- rules and drafts -----------------------------------------------------------------------------------------------


def test_each_policy_has_a_rule_that_takes_what_it_drafts():
    for kind in POLICIES.values():
        policy = kind()
        assert rules_for(policy) == ["points", "typical"]
        for rule in rules_for(policy):
            assert policy.drafts in verify.RULES[rule].drafting
    assert rules_for(Chain(drafting="iid")) == ["chain", "traversal", "typical"]
    assert rules_for(Static(drafting="iid")) == ["specinfer", "traversal", "typical"]
    assert rules_for(Sequoia(drafting="distinct")) == ["sequoia", "traversal", "typical"]


@pytest.mark.parametrize(("policy", "sampling", "words"), [
    (Eagle2(), {"temperature": 1.0, "rule": "traversal"}, "points, typical .changes the distribution"),
    (Chain(drafting="iid"), {}, "needs a temperature above 0")])
def test_a_rule_that_does_not_fit_is_refused(policy, sampling, words):
    with pytest.raises(SettingError, match=words):
        rule_for(policy, Sampling(**sampling))


@pytest.mark.parametrize(("choices", "words"), [
    ({"temperature": 0.001}, "0.01 to 10"), ({"temperature": -1.0}, "0.0 to 10"), ({"top_p": 0.9}, "nothing is drawn"),
    ({"rule": "typical"}, "nothing is drawn"), ({"temperature": 1.0, "seed": -1}, "whole numbers"),
    ({"temperature": 1.0, "rule": "greedy"}, "fitting, traversal, typical"),
    ({"temperature": 1.0, "top_p": 2}, "top_p")])
def test_choices_out_of_range_are_refused(choices, words):
    with pytest.raises(SettingError, match=words):
        Sampling(**choices)


def test_a_seed_is_drawn_where_none_is_given():
    assert Sampling().seed is None
    assert Sampling(1.0).seed != Sampling(1.0).seed


@pytest.mark.parametrize("replacement", [True, False])
def test_draws(replacement):
    q = np.array([[0.5, 0.25, 0.25, 0], [0, 1, 0, 0], [0.1, 0, 0.9, 0]])
    sampler = Sampler(SETTINGS[1], "specinfer", 4)
    many = [sampler.draws(q, 3, replacement) for _ in range(2000)]
    first = np.array([[one.tokens[0] for one in draws] for draws in many])
    np.testing.assert_allclose([(first == token).mean(0) for token in range(4)], q.T, atol=0.04)
    lengths = {tuple(len(one.tokens) for one in draws) for draws in many}
    assert lengths == ({(3, 3, 3)} if replacement else {(3, 1, 2)})
    second = np.mean([draws[0].tokens[1] == 0 for draws in many if draws[0].tokens[0] == 1])
    assert abs(second - (0.5 if replacement else 2 / 3)) < 0.07


@pytest.mark.parametrize("kind", ["lm", "lm with a short head", "eagle3"])
def test_the_distribution_that_drafters_draw_from(kind):
    ids = np.arange(0, tiny.VOCAB, 2)
    drafter = LM(model=tiny.drafter("llama"), ranking=ids, draft_vocab=0 if kind == "lm" else len(ids))
    if kind == "eagle3":
        drafter = tiny_heads.drafter_of(tiny_heads.random_head(draft_vocab=len(ids)), "llama", ids)
    target, sampler = Target(CachedModel(tiny.target("llama"), 64)), Sampler(Sampling(1.0, seed=1), "chain", tiny.VOCAB)
    prefilled = prefill(target, [drafter], [3, 4, 5], 32, 9)
    tree, root = DraftTree(prefilled.root, 4, 9), np.array([ROOT])
    tree.add(np.array([ROOT, ROOT]), np.array([7, 8]), np.zeros(2, np.int64), 0)
    for nodes in (root, np.array([2, 1])):
        q = drafter.distribution(tree, nodes, sampler)
        tokens, logprobs = drafter.best(tree, nodes, 20)
        np.testing.assert_allclose(np.take_along_axis(q, tokens, 1), np.exp(logprobs / 1e5), rtol=1e-4)
        np.testing.assert_allclose(q.sum(1), 1)
        assert (q > 0).sum() == len(nodes) * (tiny.VOCAB if kind == "lm" else len(ids))


def test_near_the_end_of_the_context_the_shape_is_cut():
    target, policy = Target(Remembered(remembered.target())), Static(tree=DEEP, drafting="iid")
    drafters, sampler = drafters_for(policy), Sampler(SETTINGS[1], "specinfer", VOCAB)
    room = len(PROMPT) + 5
    stop = Stop((), [], 64, 5, None)
    prefilled = prefill(target, drafters, PROMPT, room, policy.capacity, sampler)
    steps = list(decode(target, policy, drafters, prefilled, stop, room, sampler=sampler))
    assert stop.reason == "context"
    assert steps[0].round.tree.size <= 1 + 4
    assert "clipped" in steps[0].round.note


# --- processors and seeds -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choices", [{"temperature": 0.7}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.2},
                                     {"temperature": 1.4, "top_k": 6, "top_p": 0.9, "min_p": 0.1}],
                         ids=lambda choices: "-".join(choices))
def test_processors_are_those_of_generate(choices):
    choices = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0} | choices
    torch.manual_seed(0)
    output = remembered.target().generate(
        torch.tensor([PROMPT]), attention_mask=torch.ones(1, len(PROMPT), dtype=torch.long), do_sample=True,
        max_new_tokens=4, eos_token_id=None, pad_token_id=0, output_logits=True, output_scores=True,
        return_dict_in_generate=True, **choices)
    expected = torch.cat(output.scores).double().softmax(-1).numpy()
    found = Sampler(Sampling(**choices), "points", VOCAB).probabilities(torch.cat(output.logits))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_remembered_answers_are_those_of_the_model():
    with torch.inference_mode():
        logits = remembered.target()(torch.tensor([[*PROMPT, 1, 2]])).logits[0, -1]
    torch.testing.assert_close(remembered.answers(remembered.target())[(*PROMPT, 1, 2)], logits)


def recorded(pair, policy=None, **options):
    return tg.record(pair, "Hi", policy or Eagle2(budget=8, top_k=3, depth=2), max_new_tokens=12, costs=False,
                     **options).run


def test_the_same_seed_gives_the_same_text(tiny_pair, tmp_path):
    policy = Static(tree=SHAPE, drafting="distinct")
    first = recorded(tiny_pair, policy, temperature=1, out=tmp_path / "first.jsonl")
    decoding = first.header.decoding
    assert (decoding.temperature, decoding.rule) == (1.0, "sequoia")
    again = recorded(tiny_pair, policy, temperature=1.0, seed=decoding.seed)
    assert again.output == first.output
    assert [round.event("accept") for round in again.rounds] == [round.event("accept") for round in first.rounds]
    others = [recorded(tiny_pair, policy, temperature=1.0, seed=seed).output for seed in range(3)]
    assert any(other != first.output for other in others)
    read = tg.trace.open(tmp_path / "first.jsonl").runs[0]
    assert [record.events for record in read.records] == [record.events for record in first.records]


def test_runs_of_one_seed_have_random_numbers_of_their_own(tiny_pair):
    prompts = [Prompt("a", ("Hi", "Hi")), Prompt("b", ("Hi",))]
    runs = [result.run for _, result in record_prompts(
        tiny_pair, prompts, tg.policies.Plain(), temperature=1.0, seed=LARGEST_SEED, max_new_tokens=8, costs=False)]
    assert [run.header.decoding.seed for run in runs] == [LARGEST_SEED, 0, 1]
    assert runs[0].header.prompt == runs[2].header.prompt
    assert runs[0].output != runs[2].output


def test_what_a_trace_says_of_a_sampled_round(tiny_pair):
    run = recorded(tiny_pair, temperature=0.8, top_k=5, seed=4)
    for round in run.rounds:
        verified, accept = round.event("verify"), round.event("accept")
        assert accept.rule == "points"
        assert len(accept.chances) == len(verified.order)
        for walked in verified.walk:
            assert len(walked.tokens) == 5
            assert abs(np.exp(np.array(walked.logprobs) / 1e5).sum() - 1) < 1e-4
        first = next((tried for tried in accept.tried), None)
        if first:
            assert first.p == verified.logprob[verified.order.index(first.node)]
            assert first.accepted == (first.u < np.exp((-np.inf if first.p is None else first.p) / 1e5))


@pytest.mark.parametrize(("options", "words"), [
    ({"temperature": 1.0, "level": "dense"}, "greedy text alone"), ({"temperature": 99}, "0.0 to 10"),
    ({"temperature": 1.0, "rule": "traversal"}, "eagle2"), ({"policy": Chain(drafting="iid")}, "temperature above 0")])
def test_what_cannot_be_recorded_is_refused(tiny_pair, options, words):
    with pytest.raises(RunError, match=words):
        recorded(tiny_pair, **options)
