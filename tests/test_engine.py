"""The decode loop writes what plain greedy decoding writes, whatever the drafters propose."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import tiny, tiny_heads
from tests.decoding import NEW_TOKENS, PROMPTS, assert_same_text, plain_generate, run
from treegraft.drafters.lm import LM
from treegraft.drafters.lookup import Lookup as LookupDrafter
from treegraft.engine import decode, prefill
from treegraft.models.cache import CachedModel
from treegraft.models.target import Target
from treegraft.policies import Chain, Eagle2, Lookup, Plain, TreeGraft
from treegraft.stop import Stop

POLICIES = [Plain(), Chain(length=4), Lookup(budget=20, top_k=3), Eagle2(budget=12, top_k=4, depth=4),
            Eagle2(budget=40, top_k=3, depth=6), TreeGraft(budget=20, top_k=3, schedule="always"),
            TreeGraft(budget=30, top_k=4, schedule="2,4", survive_empty=True)]


def drafters_for(policy, family: str, **options) -> list:
    roles = {"plain": "", "lookup": "w", "treegraft": "ws"}.get(policy.name, "s")
    made = [LookupDrafter() if role == "w" else LM(model=tiny.drafter(family), **options) for role in roles]
    for number, drafter in enumerate(made):
        drafter.id = number
    return made


@pytest.fixture(scope="module", params=tiny.CONFIGS)
def family(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def target(family) -> Target:
    return Target(CachedModel(tiny.target(family), 256))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.capacity}")
def test_output_equals_plain_greedy_decoding(family, target, policy):
    accepted = 0
    for prompt in PROMPTS:
        reference = plain_generate(tiny.target(family), prompt, NEW_TOKENS)
        output, steps, _ = run(target, policy, drafters_for(policy, family), prompt)
        assert_same_text(tiny.target(family), prompt, output, reference)
        accepted += sum(len(step.path) for step in steps)
    assert accepted > 0 or policy.name == "plain"


@pytest.mark.parametrize("policy", [Chain(length=4), Eagle2(budget=12, top_k=4, depth=4)],
                         ids=lambda policy: policy.name)
def test_output_with_an_eagle3_head_equals_plain_greedy_decoding(family, target, policy):
    head, accepted = tiny_heads.taught_head(family, *map(tuple, PROMPTS)), 0
    for prompt in PROMPTS:
        reference = plain_generate(tiny.target(family), prompt, NEW_TOKENS)
        output, steps, _ = run(target, policy, [tiny_heads.drafter_of(head, family)], prompt)
        assert_same_text(tiny.target(family), prompt, output, reference)
        accepted += sum(len(step.path) for step in steps)
    assert accepted > 5


@pytest.mark.parametrize("max_context", [24, 25, 31])
def test_an_eagle3_head_drafts_up_to_the_end_of_the_context(family, target, max_context):
    prompt, policy = PROMPTS[2][:20], Eagle2(budget=12, top_k=4, depth=4)
    reference = plain_generate(tiny.target(family), prompt, max_context - len(prompt))
    drafter = tiny_heads.drafter_of(tiny_heads.taught_head(family, tuple(PROMPTS[2])), family)
    output, _, reason = run(target, policy, [drafter], prompt, 100, max_context, eos=())
    assert reason == "context"
    assert_same_text(tiny.target(family), prompt, output[: len(reference)], reference)


def test_states_are_captured_only_for_drafters_that_ask(family, target):
    drafter = tiny_heads.drafter_of(tiny_heads.random_head(aux_layers=(0, 2)), family)
    for drafters, layers in (([drafter], {0, 2}), ([LM(model=tiny.drafter(family))], set())):
        prefilled = prefill(target, drafters, PROMPTS[1], 256, 20)
        assert target.cached.states.keys() == layers
        assert prefilled.states == {}


@pytest.mark.parametrize("policy", POLICIES[1:], ids=lambda policy: f"{policy.name}-{policy.capacity}")
@pytest.mark.parametrize("max_context", [24, 25, 31])
def test_context_limit_clips_the_budget_and_never_overflows(family, target, policy, max_context):
    prompt = PROMPTS[2][:20]
    reference = plain_generate(tiny.target(family), prompt, max_context - len(prompt))
    output, steps, reason = run(target, policy, drafters_for(policy, family), prompt, 100, max_context, eos=())
    assert len(prompt) + len(output) == max_context or 2 in reference
    assert reason == "context"
    assert_same_text(tiny.target(family), prompt, output[: len(reference)], reference)
    assert all(step.round.tree.context + len(step.round.kept) - 1 <= max_context for step in steps)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.capacity}")
def test_end_of_text_inside_the_accepted_path_discards_the_rest(family, target, policy):
    prompt = PROMPTS[1]
    full, _, _ = run(target, policy, drafters_for(policy, family), prompt, eos=())
    for place in (0, 1, 5):
        end = full[place]
        output, steps, reason = run(target, policy, drafters_for(policy, family), prompt, eos=(end,))
        assert output == full[: full.index(end) + 1]
        assert reason == "eos"
        assert all(step.taken == len(step.tokens) for step in steps[:-1])


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.capacity}")
@pytest.mark.parametrize("new_tokens", [1, 2, 3, 7])
def test_new_token_limit_is_exact(family, target, policy, new_tokens):
    full, _, _ = run(target, policy, drafters_for(policy, family), PROMPTS[2], eos=())
    output, _, reason = run(target, policy, drafters_for(policy, family), PROMPTS[2], new_tokens, eos=())
    assert output == full[:new_tokens]
    assert reason == "length"


@given(prompt=st.lists(st.integers(3, tiny.VOCAB - 1), min_size=1, max_size=30),
       top_k=st.integers(1, 5), depth=st.integers(1, 5), budget=st.integers(1, 30))
@settings(max_examples=25, deadline=None)
def test_every_round_keeps_the_invariants(prompt, top_k, depth, budget):
    model = tiny.target("gemma3")
    target = Target(CachedModel(model, 128))
    lm = LM(model=tiny.drafter("gemma3"))
    policy = Eagle2(budget=budget, top_k=top_k, depth=depth)
    prefilled = prefill(target, [lm], prompt, 128, policy.capacity)
    context = [*prompt, prefilled.root]
    for step in decode(target, policy, [lm], prefilled, Stop((), [], 20, 90, None), 128):
        tree = step.round.tree
        assert tree.context == len(context)
        assert len(step.round.kept) <= budget + 1
        assert tree.depth[step.path].tolist() == list(range(1, len(step.path) + 1))
        context += step.tokens
        assert target.cached.length == len(context) - 1
        assert lm.cached <= len(context) - 1
        chain = model(torch.tensor([context[:-1]])).logits[0].argmax(-1).tolist()
        assert chain[tree.context - 1:] == step.tokens


def test_drafter_keeps_the_rows_of_accepted_nodes(target, family):
    """Proposals from kept rows equal those of a drafter that reads the whole context anew."""
    policy = Eagle2(budget=12, top_k=4, depth=4)
    kept, fresh = LM(model=tiny.drafter(family)), LM(model=tiny.drafter(family))
    prefilled = prefill(target, [kept], PROMPTS[3], 256, policy.capacity)
    for step in decode(target, policy, [kept], prefilled, Stop((), [], 30, 200, None), 256):
        tree = step.round.tree
        context = [int(token) for token in kept._text[: tree.context]]
        fresh.begin(type(prefilled)(context[:-1], context[-1], prefilled.tokens, prefilled.logprobs), 256, 100)
        again = type(tree)(context[-1], tree.context, 100)
        fresh.grow(again, np.array([0]), 1, 4)
        assert again.token.tolist() == tree.token[:5].tolist()
        assert np.abs(again.score - tree.score[:5]).max() <= 20


def test_draft_vocab_never_proposes_tokens_outside_it(family, target):
    policy = Eagle2(budget=12, top_k=4, depth=3)
    ranking = np.array([7, 3, 5, 20, 11, 13, 40, 41, 42])
    lm = LM(model=tiny.drafter(family), draft_vocab=6, ranking=ranking)
    output, steps, _ = run(target, policy, [lm], PROMPTS[1])
    drafted = {token for step in steps for token in step.round.tree.token[1:].tolist()}
    assert drafted <= set(ranking[:6].tolist())
    reference = plain_generate(tiny.target(family), PROMPTS[1], NEW_TOKENS)
    assert_same_text(tiny.target(family), PROMPTS[1], output, reference)


def test_self_draft_is_always_right(family, target):
    """The target as its own drafter: every chain is accepted whole."""
    lm = LM(model=tiny.target(family))
    _, steps, _ = run(target, Chain(length=4), [lm], PROMPTS[0], eos=())
    assert all(len(step.path) == 4 for step in steps)


def test_asking_the_device_once_tells_the_same(family):
    """The facts read with the answers (GPU) equal those read after the acceptance (CPU)."""
    cached, prompt = CachedModel(tiny.target(family), 256), PROMPTS[1]
    described = []
    for ask_once in (False, True):
        lm = LM(model=tiny.drafter(family))
        _, steps, _ = run(Target(cached, ask_once), Eagle2(budget=12, top_k=4, depth=4), [lm], prompt, 12)
        described.append([step.answers.describe(step.path) for step in steps])
    assert described[0] == described[1]


def test_cost_curve_is_measured_once_and_leaves_the_cache_empty(family):
    cached = CachedModel(tiny.target(family), 300)
    points = cached.cost_points()
    assert [tokens for tokens, _ in points] == [1, 8, 16, 32, 64]
    assert all(microseconds > 0 for _, microseconds in points)
    assert cached.length == 0
    assert cached.cost_points() is points
