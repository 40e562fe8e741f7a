"""Probes: what the drafters would have said at every position of a finished text, for exact what-ifs.

They are taken after the run, so they touch neither its times nor its caches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from treegraft.analysis.known import begin, output_best, output_logprobs
from treegraft.drafters import RETRIEVING
from treegraft.drafters.base import (
    BlockDrafter,
    Committed,
    Drafter,
    Growth,
    Prefilled,
    RankingDrafter,
    ScoringDrafter,
)
from treegraft.models.answers import WALK_TOP_K
from treegraft.models.target import Target
from treegraft.policies.base import MAX_NODES, Constants, Policy, Round
from treegraft.scheduler.choices import every_choice
from treegraft.trace.records import Decide, Probe
from treegraft.trace.runs import Run
from treegraft.tree import ROOT, DraftTree

UNASKED = 1
"""Stands for a log-prob that was not asked for; real ones are not above 0."""


class NotebookFull(Exception):
    """The places that a drafter was asked about at one position are more than one tree can hold."""


class Notebook(ScoringDrafter):
    """Asks a drafter about many trees at one position, everything once, and keeps its answers.

    All places that it was asked about form one tree, by which the drafter knows them. Errors: `NotebookFull` for places
    beyond its capacity; the answers until then stand.
    """

    name = "notebook"

    def __init__(self, drafter: ScoringDrafter, capacity: int) -> None:
        self.id = drafter.id
        self._drafter, self._capacity = drafter, capacity

    @property
    def aux_layers(self) -> tuple[int, ...]:
        return self._drafter.aux_layers

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._drafter.begin(prefilled, max_context, self._capacity)

    def open(self, root: int, context: int) -> None:
        """Turn to a position: `root` is the last of `context` tokens."""
        self._tree = DraftTree(root, context, self._capacity)
        self._logprob = np.full(self._capacity, UNASKED)
        self._unreachable = np.zeros(self._capacity, bool)
        self._best: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._drafter.commit(self._tree, committed)
        self._drafter.read_forwards()

    def limits(self, tree: DraftTree, nodes: np.ndarray) -> str:
        return self._drafter.limits(tree, nodes)

    def best(self, tree: DraftTree, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        places = self._places(tree)[nodes]
        new = np.array([place for place in np.unique(places).tolist() if place not in self._best], np.int64)
        if len(new):
            for place, *answer in zip(new.tolist(), *self._drafter.best(self._tree, new, k), strict=True):
                self._best[place] = tuple(answer)
        tokens, logprobs = zip(*(self._best[place] for place in places.tolist()), strict=True)
        return np.stack(tokens), np.stack(logprobs)

    def judge(self, tree: DraftTree, nodes: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        all_places = self._places(tree)
        places = all_places[nodes]
        new = places[self._logprob[places] == UNASKED]
        if len(new):
            self._logprob[new], self._unreachable[new] = self._drafter.judge(self._tree, new, all_places[ahead])
        return self._logprob[places], self._unreachable[places]

    def _places(self, tree: DraftTree) -> np.ndarray:
        """The node of the one tree for every node of `tree`."""
        places = np.zeros(tree.size, np.int64)
        for depth in range(1, int(tree.depth.max()) + 1):
            level = np.flatnonzero(tree.depth == depth)
            above = places[tree.parent[level]]
            places[level] = self._tree.add(above, tree.token[level], np.zeros(len(level), np.int64), self.id)
            if (places[level] < 0).any():
                raise NotebookFull
        return places

    def probe(self) -> Probe:
        """All answers at this position."""
        tree, expanded = self._tree, sorted(self._best)
        logprob = self._logprob[: tree.size].tolist()
        tables = [np.concatenate([self._best[place][part] for place in expanded]).tolist() if expanded else []
                  for part in (0, 1)]
        return Probe(
            drafter=self.id, context=tree.context, token=tree.token.tolist(), parent=tree.parent.tolist(),
            logprob=[None if one == UNASKED else one for one in logprob],
            unreachable=np.flatnonzero(self._unreachable[: tree.size]).tolist(), expanded=expanded,
            k=len(tables[0]) // len(expanded) if expanded else 0, best=tables[0], best_logprobs=tables[1])


class RowNotebook(RankingDrafter):
    """Asks a drafter that ranks about many tokens at one position, and keeps its rows."""

    name = "row notebook"

    def __init__(self, drafter: RankingDrafter) -> None:
        self.id, self.verify_k = drafter.id, drafter.verify_k
        self._drafter = drafter

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._drafter.begin(prefilled, max_context, capacity)

    def open(self, root: int, context: int) -> None:
        """Turn to a position: `root` is the last of `context` tokens."""
        self._root, self._context = root, context
        self._rows: dict[int, list[int]] = {}

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._drafter.commit(tree, committed)

    def successors(self, tokens: np.ndarray) -> np.ndarray:
        rows = self._drafter.successors(tokens)
        self._rows |= zip(tokens.tolist(), rows.tolist(), strict=True)
        return rows

    def probe(self) -> Probe:
        """All rows at this position: that of the root's token at node 0, each other one at a child of it."""
        asked = [self._root, *(token for token in self._rows if token != self._root)]
        expanded = [place for place, token in enumerate(asked) if token in self._rows]
        rows = [self._rows[asked[place]] for place in expanded]
        return Probe(drafter=self.id, context=self._context, token=asked, parent=[-1, *[ROOT] * (len(asked) - 1)],
                     logprob=[None] * len(asked), expanded=expanded, k=len(rows[0]) if rows else 0,
                     best=[token for row in rows for token in row])


class BlockNotebook(BlockDrafter):
    """Asks a drafter that fills blocks once at one position, and keeps the block."""

    name = "block notebook"

    def __init__(self, drafter: BlockDrafter) -> None:
        self.id, self._drafter = drafter.id, drafter

    @property
    def label(self) -> str:
        return self._drafter.label

    @property
    def aux_layers(self) -> tuple[int, ...]:
        return self._drafter.aux_layers

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._drafter.begin(prefilled, max_context, capacity)

    def open(self, root: int, context: int) -> None:
        """Turn to a position: `root` is the last of `context` tokens."""
        self._tree = DraftTree(root, context, 1)
        self._block: tuple[np.ndarray, np.ndarray] | None = None

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._drafter.commit(tree, committed)
        self._drafter.read_forwards()

    def fill(self, tree: DraftTree) -> tuple[np.ndarray, np.ndarray]:
        if self._block is None:
            self._block = self._drafter.fill(self._tree)
        return self._block

    def probe(self) -> Probe:
        """The whole block at this position, as a chain."""
        tokens, logprobs = self.fill(self._tree)
        return Probe(drafter=self.id, context=self._tree.context, token=[int(self._tree.token[ROOT]), *tokens.tolist()],
                     parent=[-1, *range(len(tokens))], logprob=[None, *logprobs.tolist()])


class TreeNotebook(Drafter):
    """Lets a drafter that grows its whole tree at once do so at one position, and keeps the tree."""

    name = "tree notebook"

    def __init__(self, drafter: Drafter) -> None:
        self.id, self._drafter = drafter.id, drafter

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._drafter.begin(prefilled, max_context, capacity)

    def open(self, root: int, context: int) -> None:
        """Turn to a position: `root` is the last of `context` tokens."""
        self._tree = DraftTree(root, context, 1)

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._drafter.commit(tree, committed)

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        self._tree = tree
        return self._drafter.grow(tree, parents, layer, k)

    def probe(self) -> Probe:
        """The tree that was grown at this position."""
        tree = self._tree
        logprob = (tree.score[1:] - tree.score[tree.parent[1:]]).tolist()
        return Probe(drafter=self.id, context=tree.context, token=tree.token.tolist(), parent=tree.parent.tolist(),
                     logprob=[None, *logprob])


NOTEBOOKS = (Notebook, RowNotebook, BlockNotebook, TreeNotebook)


def notebook_for(drafter: Drafter) -> Drafter:
    """A notebook that asks the drafter, or the drafter itself where a replay does without its answers."""
    if drafter.scores_tokens:
        return Notebook(drafter, MAX_NODES)
    if isinstance(drafter, RankingDrafter) and drafter.state == "context":
        return RowNotebook(drafter)
    if isinstance(drafter, BlockDrafter):
        return BlockNotebook(drafter)
    if drafter.name in RETRIEVING:
        return TreeNotebook(drafter)
    return drafter


def take_probes(target: Target, policy: Policy, drafters: Sequence[Drafter], constants: Constants,
                run: Run) -> Iterator[tuple[int, int, Probe]]:
    """Probes at every position of the output of `run`, in order: each with the number of its position, from 1, and how
    many there are.

    They are of the drafters whose answers a replay needs, and of those that ask for more of the target's best tokens
    than the rounds hold: these have one row, the target's where it chose the root.
    """
    drafters = [notebook_for(drafter) for drafter in drafters]
    notebooks = [drafter for drafter in drafters if isinstance(drafter, NOTEBOOKS)]
    prompt, output, max_context = run.header.prompt.tokens, run.output, run.header.decoding.max_context
    layers = sorted({layer for notebook in notebooks for layer in notebook.aux_layers})
    verify_k = max((drafter.verify_k for drafter in drafters), default=0)
    asking = [drafter for drafter in drafters if drafter.rivals_k > WALK_TOP_K]
    k = max(verify_k if verify_k > WALK_TOP_K else 0, *(drafter.rivals_k for drafter in asking), 0)
    whole = target.prefill(prompt + output[:-1], k, layers)
    states = whole.states
    begin(drafters, run, {layer: every[: len(prompt)] for layer, every in states.items()})
    logprobs = output_logprobs(run)
    best = whole.tokens[len(prompt):, :verify_k] if verify_k > WALK_TOP_K else output_best(run)[:, :verify_k]
    for place in range(len(output) - 1):
        root, context = output[place], len(prompt) + place + 1
        for notebook in notebooks:
            notebook.open(root, context)

        def draft(forced: Sequence[bool], policy: Policy = policy, root: int = root, context: int = context) -> int:
            round = Round(DraftTree(root, context, policy.capacity), drafters, max_context - context, constants, forced)
            policy.draft(round)
            return sum(isinstance(event, Decide) for event in round.events)

        with suppress(NotebookFull):  # the choices left are not recorded, and a replay that needs them says so
            if run.header.level == "exhaustive" and policy.decides:
                every_choice(draft)
            else:
                for variant in policy.variants():
                    draft((), variant)
        probes = [*(notebook.probe() for notebook in notebooks),
                  *(row_probe(one, root, context, whole.tokens[context - 2, :one.rivals_k]) for one in asking)]
        yield from ((place + 1, len(output) - 1, probe) for probe in probes)
        here = {layer: every[context - 1: context] for layer, every in states.items()}
        committed = Committed(np.zeros(0, np.int64), output[place + 1: place + 2], here, logprobs[place: place + 1],
                              verified=np.array([ROOT]), best=best[place: place + 1])
        for drafter in drafters:
            drafter.commit(DraftTree(root, context, 1), committed)


def row_probe(drafter: Drafter, root: int, context: int, best: np.ndarray) -> Probe:
    """The target's best tokens [k] where it chose the root, the last of `context` tokens."""
    return Probe(drafter=drafter.id, context=context, token=[root], parent=[-1], logprob=[None], expanded=[ROOT],
                 k=len(best), best=best.tolist())
