"""Policies that draft by retrieval alone: the text is the target's own, and no tree is larger than its budget."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests import tiny
from tests.datastore.test_store import store_of
from tests.decoding import NEW_TOKENS, PROMPTS, assert_same_text, plain_generate, run
from treegraft.drafters.base import Prefilled
from treegraft.drafters.datastore import Datastore
from treegraft.drafters.logitspec import LogitSpec as LogitSpecDrafter
from treegraft.drafters.lookahead import Lookahead as LookaheadDrafter
from treegraft.drafters.ngram import Ngram
from treegraft.models.cache import CachedModel
from treegraft.models.target import Target
from treegraft.policies import LogitSpec, Lookahead, PromptLookup, Rest
from treegraft.policies.base import Round
from treegraft.trace.records import Expand, Prune
from treegraft.tree import DraftTree

STRANGE = np.random.default_rng(5).integers(3, 12, (40, 30)).tolist()
"""Texts that have little to do with what a target writes."""


def datastore(texts: list[list[int]]) -> Datastore:
    return Datastore(store=store_of(texts, tiny.VOCAB), vocab=tiny.VOCAB)


CASES = {
    "prompt-lookup": (PromptLookup(), Ngram),
    "prompt-lookup, short copies": (PromptLookup(), lambda: Ngram(whole=False)),
    "logitspec": (LogitSpec(), LogitSpecDrafter), "logitspec, few nodes": (LogitSpec(budget=5), LogitSpecDrafter),
    "lookahead": (Lookahead(), LookaheadDrafter), "lookahead, no room": (Lookahead(budget=4), LookaheadDrafter),
    "rest": (Rest(), lambda: datastore(STRANGE)), "rest, few nodes": (Rest(budget=3), lambda: datastore(STRANGE))}


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def target(request) -> Target:
    return Target(CachedModel(tiny.target(request.param), 10_000))


@functools.cache
def expected(target: Target, prompt: tuple[int, ...]) -> list[int]:
    return plain_generate(target.cached.model, list(prompt), NEW_TOKENS)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("prompt", PROMPTS, ids=[f"{len(prompt)} tokens" for prompt in PROMPTS])
def test_the_text_is_that_of_plain_decoding(target, case, prompt):
    policy, drafter = CASES[case]
    output, steps, _ = run(target, policy, [drafter()], prompt)
    assert_same_text(target.cached.model, prompt, output, expected(target, tuple(prompt)))
    for step in steps:
        *expands, prune = step.round.events
        assert [type(event) for event in expands] == [Expand] * (2 if policy.name == "lookahead" else 1)
        assert isinstance(prune, Prune)
        assert prune.kept == list(range(step.round.tree.size))
        assert len(prune.kept) - 1 <= policy.budget


def test_what_a_datastore_has_of_the_text_is_accepted_in_long_runs(target):
    prompt = PROMPTS[3]
    text = prompt + expected(target, tuple(prompt))
    output, steps, _ = run(target, Rest(), [datastore([*STRANGE, text])], prompt)
    assert output == text[len(prompt):]
    assert {len(step.path) for step in steps[:-1]} == {10}


@pytest.mark.parametrize("limit", [0, 3])
def test_near_the_end_of_the_context_the_beginning_of_the_chain_is_kept(limit):
    drafter, text = Ngram(length=8), [*range(5, 15), 5]
    empty = np.zeros((0, 0), np.int64)
    drafter.begin(Prefilled(prompt=text[:-1], root=5, tokens=empty, logprobs=empty), 20, 20)
    policy = PromptLookup()
    round = Round(DraftTree(5, len(text), policy.capacity), [drafter], limit)
    policy.draft(round)
    assert round.kept.tolist() == list(range(1 + limit))
    assert round.note == f"budget 10 clipped to {limit}: the context ends"
