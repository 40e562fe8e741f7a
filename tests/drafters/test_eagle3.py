"""An EAGLE-3 head drafts in a tree what it would draft a chain at a time, and never keeps what it made up itself."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests import tiny, tiny_heads
from treegraft.drafters import drafter_class
from treegraft.drafters import eagle3 as module
from treegraft.drafters.base import Committed, Prefilled
from treegraft.drafters.eagle3 import Eagle3
from treegraft.engine import decode, prefill
from treegraft.models.cache import CachedModel
from treegraft.models.eagle3 import Eagle3Head
from treegraft.models.target import Target
from treegraft.policies import Eagle2
from treegraft.policies.base import Round
from treegraft.stop import Stop
from treegraft.tree import ROOT, DraftTree

PROMPT = [9, 8, 7, 6, 9, 8, 7, 6, 9, 8, 7, 20, 33, 5, 18]
UNITS = 12
"""Scores are log-probs in 1e-5 nats; a path of rounded ones may be this far off."""

HEADS = {
    "plain": {},
    **{switch: {switch: True} for switch in tiny_heads.SWITCHES},
    "all switches": dict.fromkeys(tiny_heads.SWITCHES, True),
    "two layers": {"layer": {"num_hidden_layers": 2}},
    "narrow": {"layer": {"hidden_size": 16}},
    "five states": {"aux_layers": (0, 0, 1, 1, 2)},
}


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(CachedModel(tiny.target("mistral"), 512))


def begun(target: Target, drafter: Eagle3, prompt: list[int] = PROMPT, capacity: int = 200) -> Prefilled:
    return prefill(target, [drafter], prompt, 400, capacity)


def states_of(text: list[int], layers: tuple[int, ...]) -> list[torch.Tensor]:
    """The target's states [n, hidden] of `layers` after `text`, by transformers."""
    model, ids = tiny.target("mistral"), torch.tensor([text])
    seen = [*model(ids, output_hidden_states=True).hidden_states[1:-1], tiny_heads.last_layer_output(model, ids)]
    return [seen[layer][0] for layer in layers]


@torch.inference_mode()
def expected(drafter: Eagle3, text: list[int], chain: list[int]) -> np.ndarray:
    """Log-probs in 1e-5 nats by token id (-inf for those not scored) of what follows text + chain."""
    aux = states_of(text[:-1], drafter.aux_layers)
    logprobs = tiny_heads.drafted_logprobs(drafter.head, drafter.embeddings, aux, text, chain)
    by_id = np.full(tiny.VOCAB, -np.inf)
    by_id[drafter.ids] = logprobs.numpy() * 1e5
    return by_id


def check_children(tree: DraftTree, drafter: Eagle3, text: list[int], parents: np.ndarray, k: int) -> None:
    """The drafter proposed the k best next tokens of each parent, and new ones have their log-probs as scores."""
    for parent in parents.tolist():
        wanted = expected(drafter, text, tree.token[tree.path(parent)[1:]].tolist())
        children = tree.children(parent)
        children = children[tree.proposers[children] >> drafter.id & 1 == 1]
        assert len(children) == k
        assert np.allclose(np.sort(wanted[tree.token[children]]), np.sort(wanted)[-k:], atol=UNITS)
        new = children[tree.origin[children] == drafter.id]
        assert np.allclose(wanted[tree.token[new]], tree.score[new] - tree.score[parent], atol=UNITS)


def head_named(name: str) -> tuple[Eagle3Head, dict]:
    """The head, and the options of its drafter."""
    head = tiny_heads.random_head(**HEADS[name])
    if name == "narrow":
        return head, {"embeddings": torch.randn((tiny.VOCAB, 16), generator=torch.Generator().manual_seed(1))}
    return head, {}


@pytest.mark.parametrize("name", HEADS)
def test_drafting_a_tree_equals_drafting_each_chain_alone(target, name):
    head, options = head_named(name)
    drafter = tiny_heads.drafter_of(head, "mistral", **options)
    prefilled = begun(target, drafter)
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    frontier = np.array([ROOT])
    for layer in range(1, 5):
        growth = drafter.grow(tree, frontier, layer, 3)
        check_children(tree, drafter, [*PROMPT, prefilled.root], frontier, 3)
        frontier = growth.candidates[[1, 0, -1]] if layer > 1 else growth.candidates
    assert np.unique(tree.depth).tolist() == [0, 1, 2, 3, 4]


def test_only_tokens_of_the_draft_vocabulary_are_proposed(target):
    ids = np.array([3, 5, 6, 20, 33, 40, 41, 59])
    drafter = tiny_heads.drafter_of(tiny_heads.random_head(draft_vocab=8), "mistral", ids)
    prefilled = begun(target, drafter)
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    frontier = drafter.grow(tree, np.array([ROOT]), 1, 4).candidates
    drafter.grow(tree, frontier, 2, 4)
    check_children(tree, drafter, [*PROMPT, prefilled.root], np.append(ROOT, frontier), 4)
    assert set(tree.token[1:].tolist()) <= set(ids.tolist())


def test_padding_rows_of_the_target_are_never_proposed(target):
    drafter = tiny_heads.drafter_of(tiny_heads.random_head(), "mistral", vocab=30)
    prefilled = begun(target, drafter)
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    drafter.grow(tree, np.array([ROOT]), 1, 40)
    assert sorted(tree.token[1:].tolist()) == list(range(30))
    assert np.isclose(np.exp(tree.score[1:] / 1e5).sum(), 1, atol=1e-3)


@pytest.mark.parametrize("parents", [[4], [4, 7], [2, 4, 6, 7], [7, 5, 3], [0, 4]], ids=str)
def test_ancestors_that_others_drafted_are_read_level_by_level(target, parents):
    """Two copied chains below the root, one with tokens that the head cannot propose, and a branch of the first."""
    ids = np.arange(3, 40)
    drafter = tiny_heads.drafter_of(tiny_heads.random_head(draft_vocab=37), "mistral", ids)
    prefilled = begun(target, drafter)
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    tree.append([0, 1, 2, 3, 0, 5, 2], [10, 11, 12, 13, 50, 60, 58], [0] * 7, 1)
    parents = np.array(parents)
    drafter.grow(tree, parents, 1, 3)
    check_children(tree, drafter, [*PROMPT, prefilled.root], parents, 3)
    levels = tree.depth[parents].max() + 1
    forwards = drafter.read_forwards()[1:]
    assert [forward.model for forward in forwards] == [drafter.id] * levels
    nodes = set().union(*(tree.path(parent).tolist() for parent in parents))
    assert sum(forward.tokens for forward in forwards) == len(nodes)


def test_what_was_read_is_not_read_again(target):
    drafter = tiny_heads.drafter_of(tiny_heads.random_head(), "mistral")
    prefilled = begun(target, drafter)
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    frontier = drafter.grow(tree, np.array([ROOT]), 1, 2).candidates
    tree.append([1, 3], [10, 11], [0, 0], 1)
    drafter.read_forwards()
    drafter.grow(tree, np.append(frontier, 4), 2, 3)
    assert [forward.tokens for forward in drafter.read_forwards()] == [2, 1, 1]
    drafter.grow(tree, np.array([ROOT, 3]), 3, 5)
    assert [forward.tokens for forward in drafter.read_forwards()] == []
    check_children(tree, drafter, [*PROMPT, prefilled.root], np.array([ROOT, 3]), 5)


@pytest.fixture(params=tiny.CONFIGS)
def family(request) -> str:
    return request.param


@pytest.mark.parametrize("pause", [1, 3])
@pytest.mark.parametrize("chunk", [4, 512])
def test_what_is_committed_is_read_from_the_targets_states(family, pause, chunk, monkeypatch):
    """After any rounds the head drafts as if it had begun with that text, even if it was not asked in all of them."""
    monkeypatch.setattr(module, "PREFILL_CHUNK", chunk)
    target, again = (Target(CachedModel(tiny.target(family), 512)) for _ in range(2))
    kept, fresh = (tiny_heads.drafter_of(tiny_heads.taught_head(family, tuple(PROMPT)), family) for _ in range(2))
    policy, text, accepted = Sparing(pause), list(PROMPT), 0
    prefilled = begun(target, kept)
    text.append(prefilled.root)
    for step in decode(target, policy, [kept], prefilled, Stop((), [], 40, 300, None), 400):
        tree = step.round.tree
        if step.round.events:
            begun(again, fresh, text[:-1])
            anew = Round(DraftTree(text[-1], len(text), 200), [fresh], 300)
            Eagle2.draft(policy, anew)
            assert anew.tree.token.tolist() == tree.token.tolist()
            assert np.allclose(anew.tree.score, tree.score, rtol=2e-5, atol=UNITS)
        accepted += len(step.path)
        text += step.tokens
        assert kept.cached <= len(text) - 1
    assert accepted > 3
    assert all(forward.tokens <= chunk for forward in kept.read_forwards())


class Sparing(Eagle2):
    """A small tree, every `pause`-th round; in between comes one token that nobody asked the head about."""

    def __init__(self, pause: int) -> None:
        super().__init__(budget=20, top_k=3, depth=3)
        self.pause, self.rounds = pause, 0

    def draft(self, round: Round) -> None:
        self.rounds += 1
        if self.rounds % self.pause:
            round.tree.append([ROOT], [7], [0], 1)
        else:
            super().draft(round)


def test_accepted_tokens_and_the_next_root_are_read_in_one_forward(target):
    drafter = tiny_heads.drafter_of(tiny_heads.taught_head("mistral", tuple(PROMPT)), "mistral")
    policy, committed = Eagle2(budget=20, top_k=3, depth=3), 1
    prefilled = begun(target, drafter)
    assert [forward.tokens for forward in drafter.read_forwards()] == [len(PROMPT) - 1]
    lengths = set()
    for step in decode(target, policy, [drafter], prefilled, Stop((), [], 40, 300, None), 400):
        assert [forward.tokens for forward in drafter.read_forwards()] == [committed, 3, 3]
        committed = len(step.path) + 1
        lengths.add(committed)
    assert len(lengths) > 1


@pytest.mark.parametrize("chunk", [1, 512])
def test_nothing_is_drafted_beyond_the_positions_that_the_head_was_made_for(target, chunk, monkeypatch):
    monkeypatch.setattr(module, "PREFILL_CHUNK", chunk)
    head = tiny_heads.random_head({"max_position_embeddings": 20})
    drafter = tiny_heads.drafter_of(head, "mistral", title="short")
    prefilled = begun(target, drafter)
    policy, stop = Eagle2(budget=6, top_k=2, depth=8), Stop((), [], 12, 300, None)
    for step in decode(target, policy, [drafter], prefilled, stop, 400):
        tree = step.round.tree
        assert tree.positions.max() <= max(20, tree.context - 1)
        if tree.context > 13:
            assert "short is at the end of its context of 20 tokens" in step.round.note
        if tree.context > 20:
            assert tree.size == 1
    assert tree.context > 20
    assert drafter.cached <= 20


def test_a_prompt_longer_than_the_heads_context_is_not_read(target):
    drafter = tiny_heads.drafter_of(tiny_heads.random_head({"max_position_embeddings": 8}), "mistral")
    prefilled = begun(target, drafter)
    assert drafter.cached == 0
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    growth = drafter.grow(tree, np.array([ROOT]), 1, 3)
    assert growth.final
    assert len(growth.created) == 0
    drafter.commit(tree, Committed(np.zeros(0, np.int64), [4],
                                   {layer: torch.zeros(1, 32) for layer in drafter.aux_layers}))
    assert drafter.cached == 0


def test_a_drafter_begins_anew_with_every_text(target):
    drafter = tiny_heads.drafter_of(tiny_heads.random_head(), "mistral")
    for prompt in (PROMPT, [4], PROMPT[:5] * 3):
        prefilled = begun(target, drafter, prompt)
        tree = DraftTree(prefilled.root, len(prompt) + 1, 200)
        growth = drafter.grow(tree, np.array([ROOT]), 1, 3)
        drafter.grow(tree, growth.candidates, 2, 3)
        check_children(tree, drafter, [*prompt, prefilled.root], np.append(ROOT, growth.candidates), 3)


def test_what_it_says_of_itself():
    head = tiny_heads.random_head()
    drafter = tiny_heads.drafter_of(head, "mistral", title="mine")
    assert drafter_class("eagle3") is Eagle3
    assert (drafter.name, drafter.label, drafter.state, drafter.scores_tokens) == ("eagle3", "mine", "context", True)
    assert drafter.parameters == sum(weight.numel() for weight in head.state_dict().values())
    assert drafter.aux_layers == (0, 1, 2)
    points = drafter.cost_points()
    assert [tokens for tokens, _ in points] == [1, 8, 16, 32, 64]
    assert all(microseconds > 0 for _, microseconds in points)
    assert drafter.cost_points() is points
    assert drafter.cached == 0
