"""What holds for every policy that grows its tree from the drafter's ranks or probabilities alone."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiny, tiny_heads
from tests.decoding import PROMPTS, assert_same_text, plain_generate, run
from tests.policies.random_drafters import draft, grown, random_drafter
from treegraft.drafters.lm import LM
from treegraft.drafters.lookup import Lookup as LookupDrafter
from treegraft.models.cache import CachedModel
from treegraft.models.target import Target
from treegraft.policies import Cascade, Ddd, OptTree, Sequoia, SpecExec, Static, Talon
from treegraft.policies.base import Policy
from treegraft.trace.records import Prune

NEW_TOKENS = 20
POLICIES = [
    Static(), Static(tree="medusa"), Sequoia(budget=20, depth=4),
    Ddd(budget=20, top_k=4, depth=6, checks="2,4", threshold=0.1),
    OptTree(budget=16, threshold=0.2, depth=6), Talon(budget=24, top_k=5), Cascade(top_k=2, early=2, late=3),
    SpecExec(budget=40, beams=6, width=5, depth=8)]


def ids(policy: Policy) -> str:
    return f"{policy.name}-{policy.capacity}"


def drafters_for(policy: Policy, strong, weak=None) -> list:
    made = [weak or LookupDrafter(), strong] if policy.name == "cascade" else [strong]
    for number, drafter in enumerate(made):
        drafter.id = number
    return made


@functools.cache
def reference(family: str, prompt: tuple[int, ...], new_tokens: int) -> list[int]:
    return plain_generate(tiny.target(family), list(prompt), new_tokens)


def check_equivalence(family: str, policy: Policy, prompts: list[list[int]], strong, weak=None) -> None:
    """The text of plain decoding comes out, and not because nothing is accepted."""
    target, accepted = Target(CachedModel(tiny.target(family), 256)), 0
    for prompt in prompts:
        output, steps, _ = run(target, policy, drafters_for(policy, strong, weak), prompt, NEW_TOKENS)
        assert_same_text(tiny.target(family), prompt, output, reference(family, tuple(prompt), NEW_TOKENS))
        accepted += sum(len(step.path) for step in steps)
    assert accepted > 5


@pytest.mark.parametrize("policy", POLICIES, ids=ids)
@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_output_equals_plain_greedy_decoding(family, policy):
    check_equivalence(family, policy, PROMPTS[1:3], LM(model=tiny.drafter(family)))


@pytest.mark.parametrize("policy", POLICIES, ids=ids)
def test_output_with_an_eagle3_head_equals_plain_greedy_decoding(policy):
    head = tiny_heads.taught_head("llama", *map(tuple, PROMPTS))
    check_equivalence("llama", policy, PROMPTS[2:3], tiny_heads.drafter_of(head, "llama"),
                      LM(model=tiny.drafter("llama")))


@pytest.mark.parametrize("policy", POLICIES, ids=ids)
def test_context_limit_clips_the_tree_and_never_overflows(policy):
    prompt, target = PROMPTS[2][:20], Target(CachedModel(tiny.target("llama"), 256))
    drafters = drafters_for(policy, LM(model=tiny.drafter("llama")))
    output, steps, reason = run(target, policy, drafters, prompt, 100, 25, eos=())
    assert reason == "context"
    assert_same_text(tiny.target("llama"), prompt, output, reference("llama", tuple(prompt), 5))
    assert all(step.round.tree.context + len(step.round.kept) - 1 <= 25 for step in steps)


# --- trees ----------------------------------------------------------------------------------------------------------


def some_policies() -> st.SearchStrategy[Policy]:
    budget, top_k, share = st.integers(1, 30), st.integers(1, 6), st.floats(0.0, 1.0)
    return st.one_of(
        st.builds(OptTree, budget=budget, threshold=share, depth=st.integers(1, 6)),
        st.builds(Talon, budget=budget, top_k=top_k, mu=share),
        st.builds(SpecExec, budget=budget, beams=st.integers(1, 8), width=top_k, depth=st.integers(1, 8)),
        st.builds(Ddd, budget=budget, top_k=top_k, depth=st.integers(1, 6), checks=st.just("1,2,3"), threshold=share),
        st.builds(Sequoia, budget=budget, depth=st.integers(1, 6), acceptance=st.just("[0.5, 0.2, 0.1, 0.1]")),
        st.sampled_from([Static(), Static(tree="medusa"), Static(tree="[[2], [2, 1], [0]]")]))


@given(policy=some_policies(), seed=st.integers(0, 2**32), limit=st.integers(0, 40))
@settings(max_examples=150, deadline=None)
def test_kept_nodes_are_closed_and_within_budget_and_limit(policy, seed, limit):
    round = draft(policy, random_drafter(seed), limit=limit)
    kept, tree = round.kept, round.tree
    assert kept[0] == 0
    assert np.isin(tree.parent[kept[1:]], kept).all()
    assert len(kept) - 1 <= min(limit, getattr(policy, "budget", policy.capacity - 1))
    assert tree.size <= policy.capacity
    assert type(round.events[-1]) is Prune
    if len(kept) - 1 < min(tree.size - 1, getattr(policy, "budget", tree.size)):
        assert "the context ends" in round.note


@given(policy=some_policies(), seed=st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_every_layer_is_one_forward_and_one_event(policy, seed):
    drafter = random_drafter(seed)
    round = draft(policy, drafter)
    layers = grown(round)
    assert [event.layer for event in layers] == list(range(1, len(layers) + 1))
    assert len(drafter.reads) == len(layers)
    assert [node for event in layers for node in event.nodes] == list(range(1, round.tree.size))
    for event in layers:
        assert set(round.tree.parent[event.nodes].tolist()) <= set(event.parents)


@pytest.mark.parametrize("policy", [one for one in POLICIES if one.name != "cascade"], ids=ids)
def test_a_drafter_at_the_end_of_its_context_is_the_reason_for_a_small_tree(policy):
    drafter = random_drafter(1)
    drafter.limits = lambda tree, nodes: "no further" if tree.depth[nodes].max() > 0 else ""
    round = draft(policy, drafter)
    assert round.tree.depth.max() == 1
    assert round.note == "no further"
