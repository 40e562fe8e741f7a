"""A DFlash drafter fills blocks as if it had read the whole text anew, and knows nothing but the target's states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests import tiny, tiny_blocks
from treegraft.drafters import drafter_class
from treegraft.drafters.base import Committed, Prefilled
from treegraft.drafters.block import Block
from treegraft.engine import decode, prefill
from treegraft.models import cached_block
from treegraft.models.cache import CachedModel
from treegraft.models.target import Target
from treegraft.policies import Block as BlockPolicy
from treegraft.policies.base import Policy, Round
from treegraft.stop import Stop
from treegraft.tree import ROOT, DraftTree

PROMPT = [9, 8, 7, 6, 9, 8, 7, 6, 9, 8, 7, 20, 33, 5, 18]
UNITS = 12
"""Scores are log-probs in 1e-5 nats; a sum of rounded ones may be this far off."""

NETS = {
    "plain": {},
    "one layer": {"layer": {"num_hidden_layers": 1}},
    "one state": {"aux_layers": (1,)},
    "from anchor": {"from_anchor": True},
    "causal": {"causal": (True, True)},
    "windows": {"windows": (4, None), "causal": (True, False)},
    "windows, free": {"windows": (3, 9)},
    "long block": {"block": 40},
}


@pytest.fixture(scope="module")
def target() -> Target:
    return Target(CachedModel(tiny.target("mistral"), 512))


def begun(target: Target, drafter: Block, prompt: list[int] = PROMPT, capacity: int = 200) -> Prefilled:
    return prefill(target, [drafter], prompt, 400, capacity)


def expected(drafter: Block, family: str, text: list[int], size: int) -> tuple[np.ndarray, np.ndarray]:
    """The tokens of the block after `text` and their log-probs in 1e-5 nats, everything computed anew."""
    config = drafter.net.config
    aux = tiny_blocks.states_of(family, text[:-1], config.aux_layers)
    seen = tiny_blocks.readings(drafter.net, drafter.embeddings, aux, text[-1], size)
    with torch.inference_mode():
        logprobs = drafter.head(seen[0 if config.from_anchor else 1:]).log_softmax(-1)
    best = logprobs.max(-1)
    return drafter.ids[best.indices.numpy()], best.values.numpy() * 1e5


def check_chain(drafter: Block, family: str, text: list[int], tree: DraftTree, size: int) -> None:
    tokens, logprobs = expected(drafter, family, text, size)
    assert tree.token[1:].tolist() == tokens.tolist()
    assert tree.parent[1:].tolist() == list(range(len(tokens)))
    assert np.allclose(np.diff(tree.score), logprobs, rtol=2e-5, atol=UNITS)


@pytest.mark.parametrize("name", NETS)
def test_a_block_is_what_the_network_says_written_out_plainly(target, name):
    drafter = tiny_blocks.drafter_of(tiny_blocks.random_net(**NETS[name]), "mistral")
    prefilled = begun(target, drafter)
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    growth = drafter.grow(tree, np.array([ROOT]), 1, 100)
    check_chain(drafter, "mistral", [*PROMPT, prefilled.root], tree, drafter.net.config.block)
    assert growth.final
    assert growth.created.tolist() == growth.candidates.tolist() == list(range(1, tree.size))
    assert [forward.tokens for forward in drafter.read_forwards()] == [len(PROMPT), drafter.net.config.block]


def test_a_block_is_cut_to_what_is_asked_for_and_what_the_tree_holds(target):
    drafter = tiny_blocks.drafter_of(tiny_blocks.random_net(), "mistral")
    prefilled = begun(target, drafter)
    whole, short, small = (DraftTree(prefilled.root, len(PROMPT) + 1, capacity) for capacity in (200, 200, 3))
    for tree, k in ((whole, 9), (short, 3), (small, 9)):
        drafter.grow(tree, np.array([ROOT]), 1, k)
    assert (whole.size, short.size, small.size) == (5, 4, 3)
    assert short.token.tolist() == whole.token[:4].tolist()


def test_only_tokens_that_the_head_scores_and_the_target_has_are_proposed(target):
    ids = np.array([3, 5, 6, 20, 33, 40, 41, 59])
    head = torch.nn.Linear(32, len(ids), bias=False)
    drafter = tiny_blocks.drafter_of(tiny_blocks.random_net(block=40), "mistral", ids, head=head, vocab=41)
    prefilled = begun(target, drafter)
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    drafter.grow(tree, np.array([ROOT]), 1, 100)
    assert tree.size == 40
    assert set(tree.token[1:].tolist()) <= set(ids[:6].tolist())
    assert drafter.proposes == 8


@pytest.fixture(params=tiny.CONFIGS)
def family(request) -> str:
    return request.param


@pytest.mark.parametrize("pause", [1, 3])
@pytest.mark.parametrize("chunk", [4, 512])
def test_after_any_rounds_it_drafts_as_if_it_had_begun_with_that_text(family, pause, chunk, monkeypatch):
    """What the target accepts is read from the target's states, even after rounds in which nobody asked."""
    monkeypatch.setattr(cached_block, "PREFILL_CHUNK", chunk)
    target = Target(CachedModel(tiny.target(family), 512))
    drafter = tiny_blocks.drafter_of(tiny_blocks.random_net(block=4), family,
                                     head=tiny_blocks.taught_head(family, 4, tuple(PROMPT)))
    policy, text, lengths = Sparing(pause), list(PROMPT), []
    prefilled = begun(target, drafter)
    text.append(prefilled.root)
    for step in decode(target, policy, [drafter], prefilled, Stop((), [], 28, 300, None), 400):
        if step.round.events:
            check_chain(drafter, family, text, step.round.tree, 4)
            assert drafter.cached == len(text) - 1
        lengths.append(len(step.path))
        text += step.tokens
    assert sum(lengths) > 3
    assert len(set(lengths)) > 1 or family == "gemma3"  # whose text repeats itself at once


class Sparing(BlockPolicy):
    """Every `pause`-th round has a block; in between comes one token that nobody asked the drafter about."""

    def __init__(self, pause: int) -> None:
        super().__init__()
        self.pause, self.rounds = pause, 0

    def draft(self, round: Round) -> None:
        self.rounds += 1
        if self.rounds % self.pause:
            round.tree.append([ROOT], [7], [0], 0)
        else:
            super().draft(round)


def test_a_round_is_one_forward_over_the_block(target):
    drafter = tiny_blocks.drafter_of(tiny_blocks.random_net(), "mistral")
    prefilled = begun(target, drafter)
    assert [forward.tokens for forward in drafter.read_forwards()] == [len(PROMPT)]
    for _ in decode(target, BlockPolicy(), [drafter], prefilled, Stop((), [], 12, 300, None), 400):
        assert [forward.tokens for forward in drafter.read_forwards()] == [5]


def test_near_the_end_of_its_positions_the_block_is_shorter_and_then_there_is_none(target):
    drafter = tiny_blocks.drafter_of(tiny_blocks.random_net({"max_position_embeddings": 20}), "mistral", title="short")
    prefilled = begun(target, drafter)
    text, sizes = [*PROMPT, prefilled.root], {}
    for step in decode(target, BlockPolicy(), [drafter], prefilled, Stop((), [], 9, 300, None), 400):
        tree = step.round.tree
        sizes[tree.context] = tree.size
        if tree.size > 1:
            check_chain(drafter, "mistral", text, tree, min(5, 21 - tree.context))
        else:
            assert "short is at the end of its context of 20 tokens" in step.round.note
        text += step.tokens
    assert all(size == max(1, min(5, 21 - context)) for context, size in sizes.items())
    assert {1, 5} < set(sizes.values())


def test_a_prompt_longer_than_its_positions_is_not_read(target):
    drafter = tiny_blocks.drafter_of(tiny_blocks.random_net({"max_position_embeddings": 8}), "mistral")
    prefilled = begun(target, drafter)
    tree = DraftTree(prefilled.root, len(PROMPT) + 1, 200)
    assert drafter.cached == 0
    assert len(drafter.grow(tree, np.array([ROOT]), 1, 3).created) == 0
    drafter.commit(tree, Committed(np.zeros(0, np.int64), [4],
                                   {layer: torch.zeros(1, 32) for layer in drafter.aux_layers}))
    assert drafter.cached == 0


def test_a_drafter_begins_anew_with_every_text(target):
    drafter = tiny_blocks.drafter_of(tiny_blocks.random_net(), "mistral")
    for prompt in (PROMPT, [4], PROMPT[:5] * 3):
        prefilled = begun(target, drafter, prompt)
        tree = DraftTree(prefilled.root, len(prompt) + 1, 200)
        drafter.grow(tree, np.array([ROOT]), 1, 9)
        check_chain(drafter, "mistral", [*prompt, prefilled.root], tree, 5)


def test_what_it_says_of_itself():
    net = tiny_blocks.random_net()
    drafter = tiny_blocks.drafter_of(net, "mistral", title="mine")
    assert drafter_class("block") is Block
    assert (drafter.name, drafter.label, drafter.state, drafter.scores_tokens) == ("block", "mine", "context", False)
    assert drafter.parameters == sum(weight.numel() for weight in net.state_dict().values())
    assert (drafter.aux_layers, drafter.context_limit, drafter.proposes) == ((0, 2, 1), 512, None)
    points = drafter.cost_points()
    assert [tokens for tokens, _ in points] == [5]
    assert points[0][1] > 0
    assert drafter.cost_points() is points
    assert drafter.cached == 0


def test_only_block_policies_take_it():
    from treegraft.policies import POLICIES

    def takes(policy: type[Policy]) -> bool:
        return any(role.fits("block", Block.scores_tokens) for role in policy.roles)

    assert {name for name, policy in POLICIES.items() if takes(policy)} == {"block", "graft-block"}
