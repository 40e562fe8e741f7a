"""Policies that draft a block at once: what is kept of it, what continues it, and that the text stays the target's."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests import tiny, tiny_blocks
from tests.decoding import NEW_TOKENS, PROMPTS, assert_same_text, plain_generate, run
from treegraft.drafters.base import BlockDrafter, Committed, Prefilled, RankingDrafter
from treegraft.drafters.successors import Successors
from treegraft.models.cache import CachedModel
from treegraft.models.target import Target
from treegraft.policies import Block, GraftBlock
from treegraft.policies.base import Policy, Round
from treegraft.trace.records import NATS, Expand, Gate, Graft, Prune
from treegraft.tree import ROOT, DraftTree


class ScriptedBlock(BlockDrafter):
    """Fills the places with tokens and probabilities that the test names."""

    name = "block"

    def __init__(self, tokens: list[int], chances: list[float]) -> None:
        self.tokens, self.chances = np.array(tokens, np.int64), np.array(chances)

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        """There is nothing to read."""

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        """There is nothing to read."""

    def fill(self, tree: DraftTree) -> tuple[np.ndarray, np.ndarray]:
        return self.tokens, np.rint(np.log(self.chances) * NATS).astype(np.int64)


class ScriptedRows(RankingDrafter):
    """Knows the rows that the test names."""

    name = "successors"

    def __init__(self, rows: dict[int, list[int]]) -> None:
        self.id, self.rows = 1, rows

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        """There is nothing to read."""

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        """There is nothing to learn."""

    def successors(self, tokens: np.ndarray) -> np.ndarray:
        return np.array([self.rows.get(token, [-1, -1]) for token in tokens.tolist()])


def drafted(policy: Policy, tokens: list[int], chances: list[float], rows: dict[int, list[int]] | None = None,
            limit: int = 100) -> Round:
    """A round behind root token 1, by scripted drafters."""
    drafters = [ScriptedBlock(tokens, chances), ScriptedRows(rows or {})][: len(policy.roles)]
    round = Round(DraftTree(1, 10, policy.capacity), drafters, limit)
    policy.draft(round)
    return round


def paths(round: Round) -> set[tuple[int, ...]]:
    """The tokens of all root-to-leaf paths that are verified."""
    tree, kept = round.tree, round.kept.tolist()
    leaves = [node for node in kept if not set(tree.children(node).tolist()) & set(kept)]
    return {tuple(tree.token[tree.path(leaf)[1:]].tolist()) for leaf in leaves}


# --- the whole block ------------------------------------------------------------------------------------------------


def test_the_block_is_one_chain_with_the_places_own_probabilities():
    round = drafted(Block(length=3), [5, 6, 7, 8], [0.5, 0.25, 0.1, 0.9])
    assert paths(round) == {(5, 6, 7)}
    assert np.allclose(np.exp(round.tree.score / NATS), [1, 0.5, 0.125, 0.0125], atol=1e-5)
    expand, prune = round.events
    assert (expand.parents, expand.nodes, expand.layer, expand.drafter) == ([0], [1, 2, 3], 1, 0)
    assert prune.kept == [0, 1, 2, 3]


def test_a_block_that_is_clipped_keeps_its_beginning():
    round = drafted(Block(), [5, 6, 7, 8], [0.5, 0.25, 0.1, 0.9], limit=2)
    assert paths(round) == {(5, 6)}
    assert "clipped to 2" in round.note


# --- cut and continued ----------------------------------------------------------------------------------------------

CHAIN = {7: [20, 6], 6: [7, 8], 1: [2, 3], 20: [21, 5], 21: [22, 22], 22: [23, 5], 5: [30, 31], 2: [20, 4]}


@pytest.mark.parametrize(("chances", "wanted", "drafted_nodes"), [
    ([0.9, 0.8, 0.7, 0.6], {(5, 6, 7, 8)}, None),
    ([0.9, 0.8, 0.7, 0.29], {(5, 6, 7, 20)}, 3),
    ([0.9, 0.8, 0.1, 0.9], {(5, 6, 7, 20)}, 2),
    ([0.9, 0.29, 0.1, 0.9], {(5, 30), (5, 6, 7)}, 1),
    ([0.2, 0.8, 0.7, 0.9], {(2, 20, 21, 22)}, 0),
], ids=str)
def test_the_block_is_cut_before_its_first_improbable_token_and_continued(chances, wanted, drafted_nodes):
    round = drafted(GraftBlock(), [5, 6, 7, 8], chances, CHAIN)
    assert paths(round) == wanted
    assert len(round.kept) == 5
    gate = next(event for event in round.events if isinstance(event, Gate))
    assert (gate.layer, gate.measure, gate.threshold) == (1, "confidence", 0.3)
    assert (gate.stop, gate.stage) == ((True, "tail") if drafted_nodes is not None else (False, ""))
    first = next((chance for chance in chances if chance < 0.3), min(chances))
    assert np.isclose(gate.value, first, atol=1e-4)
    grafts = [event for event in round.events if isinstance(event, Graft)]
    assert [graft.drafted for graft in grafts] == ([] if drafted_nodes is None else [drafted_nodes])
    assert isinstance(round.events[-1], Prune)
    assert round.events[-1].kept == round.kept.tolist()


def test_a_retrieved_token_that_was_drafted_too_is_one_node():
    """Behind 5, 6 the rows say 7, which the block has, and then 20, which it has not."""
    round = drafted(GraftBlock(), [5, 6, 7, 8], [0.9, 0.8, 0.1, 0.9], CHAIN)
    graft = next(event for event in round.events if isinstance(event, Graft))
    assert (graft.drafted, graft.retrieved, graft.nodes, graft.merged) == (2, 2, [3, 5], [3])
    assert (graft.replaced, graft.shortfall, graft.stage, graft.drafter) == (0, 0, "tail", 1)
    expand = [event for event in round.events if isinstance(event, Expand)][1]
    assert (expand.parents, expand.nodes, expand.merged, expand.rank, expand.grafted) == ([2], [5], [3], [0], [5])
    assert round.tree.proposers.tolist() == [0, 1, 1, 3, 1, 2]
    assert round.kept.tolist() == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("rows", [{}, {5: [-1, -1]}, {5: [30, 31]}], ids=str)
def test_where_no_successor_is_known_the_block_keeps_its_places(rows):
    round = drafted(GraftBlock(), [5, 6, 7, 8], [0.9, 0.1, 0.1, 0.1], rows)
    graft = next(event for event in round.events if isinstance(event, Graft))
    found = len([token for token in rows.get(5, []) if token >= 0]) > 0
    assert len(round.kept) == 5
    assert paths(round) == ({(5, 30), (5, 6, 7)} if found else {(5, 6, 7, 8)})
    assert (graft.drafted, graft.retrieved, len(graft.nodes), graft.replaced) == (1, 3, int(found), 3 - found)


@pytest.mark.parametrize(("limit", "wanted"), [(0, set()), (1, {(5,)}), (2, {(5, 30)}), (3, {(5, 30), (5, 6)})])
def test_near_the_end_of_the_context_the_kept_beginning_comes_first(limit, wanted):
    round = drafted(GraftBlock(), [5, 6, 7, 8], [0.9, 0.1, 0.1, 0.1], CHAIN, limit=limit)
    assert paths(round) - {()} == wanted
    assert len(round.kept) == limit + 1


def test_nothing_drafted_is_nothing_grafted():
    round = drafted(GraftBlock(), [], [], CHAIN)
    assert round.kept.tolist() == [ROOT]
    assert "is at the end of its context" in round.note
    assert not any(isinstance(event, (Gate, Graft)) for event in round.events)


@pytest.mark.parametrize(("tau", "wanted"), [(0.0, {(5, 6, 7, 8)}), (1.0, {(2, 20, 21, 22)})])
def test_the_ends_of_tau(tau, wanted):
    assert paths(drafted(GraftBlock(tau=tau), [5, 6, 7, 8], [0.9, 0.1, 0.1, 0.1], CHAIN)) == wanted


# --- live -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["llama", "gemma3"])
def family(request) -> str:
    return request.param


@functools.cache
def target_of(family: str) -> Target:
    return Target(CachedModel(tiny.target(family), 600))


@functools.cache
def expected(family: str, prompt: tuple[int, ...]) -> list[int]:
    return plain_generate(tiny.target(family), list(prompt), NEW_TOKENS)


POLICIES = [Block(), Block(length=1), GraftBlock(), GraftBlock(length=2, tau=0.9), GraftBlock(tau=1.0)]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: f"{policy.name}-{policy.capacity}")
def test_the_text_is_that_of_plain_decoding(family, policy):
    block = tiny_blocks.drafter_of(tiny_blocks.random_net(block=4), family,
                                   head=tiny_blocks.taught_head(family, 4, tuple(PROMPTS[2])))
    retriever = Successors()
    retriever.id = 1
    accepted = 0
    for prompt in PROMPTS[::2]:
        output, steps, _ = run(target_of(family), policy, [block, retriever][: len(policy.roles)], prompt)
        assert_same_text(tiny.target(family), prompt, output, expected(family, tuple(prompt)))
        accepted += sum(len(step.path) for step in steps)
        for step in steps:
            verified = min(policy.length, 3)
            assert len(step.round.kept) == 1 + verified
    assert accepted > 0
