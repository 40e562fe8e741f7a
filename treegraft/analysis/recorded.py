"""A drafter that answers from the probes of a trace, and knows which forwards its model would have run."""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np

from treegraft.drafters.base import (
    BlockDrafter,
    Committed,
    Drafter,
    Growth,
    Prefilled,
    RankingDrafter,
    ScoringDrafter,
)
from treegraft.trace.records import DrafterInfo, Probe
from treegraft.tree import ROOT, DraftTree

OTHER_SETTINGS = ("record with these settings or larger ones and --level dense; for other calls of the strong drafter, "
                  "with --level exhaustive")
"""What makes a trace hold what a dense one lacks."""


class NotRecorded(LookupError):
    """A replay asked for something that the trace does not hold; the text says what, and how to record it."""


class Answers:
    """The answers of one probe, by the places in its tree."""

    def __init__(self, probe: Probe) -> None:
        self.child = {(parent, token): place for place, (parent, token)
                      in enumerate(zip(probe.parent, probe.token, strict=True))}
        self.logprob = np.array([1 if one is None else one for one in probe.logprob], np.int64)
        self.unreachable = np.zeros(len(probe.token), bool)
        self.unreachable[probe.unreachable] = True
        self.row = {place: row for row, place in enumerate(probe.expanded)}
        self.k = probe.k
        self.best = np.array(probe.best, np.int64).reshape(-1, max(1, probe.k))
        self.best_logprobs = np.array(probe.best_logprobs, np.int64).reshape(-1, max(1, probe.k))


class RecordedDrafter(ScoringDrafter):
    """Stands in for the drafter that `info` describes: the same proposals, to the last bit, or `NotRecorded`.

    `passes` are the forwards that its model would have run for the round, as numbers of nodes; committed text that it
    has to catch up with comes on top of the first. `read` are the nodes that it would have read.
    """

    name = "recorded"

    def __init__(self, info: DrafterInfo, probes: Iterable[Probe], max_context: int) -> None:
        self.id = info.id
        self._label = info.name
        self.kind = info.kind
        self._limit = min(max_context, info.context_limit or max_context)
        self._probes = {probe.context: probe for probe in probes if probe.drafter == info.id}
        self._answers: dict[int, Answers] = {}

    @property
    def label(self) -> str:
        return self._label

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        """There is nothing to read."""

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        """There is nothing to read."""

    def open(self, context: int) -> None:
        """Turn to the position whose root is the last of `context` tokens."""
        if context not in self._answers:
            if context not in self._probes:
                raise NotRecorded(f"the trace has no probe of {self.label} behind {context} tokens; record it with "
                                  "--level dense or exhaustive")
            self._answers[context] = Answers(self._probes[context])
        self._here = self._answers[context]
        self.passes: list[int] = []
        self.read: set[int] = set()
        self._places = [0]

    def fork(self) -> RecordedDrafter:
        """The same at this point of the round, going on on its own."""
        other = copy.copy(self)
        other.passes, other.read, other._places = [*self.passes], {*self.read}, [*self._places]
        return other

    def best(self, tree: DraftTree, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        self._read(tree, nodes)
        here = self._here
        rows = [here.row.get(place, -1) for place in self._places_of(tree, nodes)]
        if min(rows) < 0 or k > here.k:
            wanted = f"more than {here.k} next tokens" if k > here.k > 0 else "the proposals in some branch"
            raise NotRecorded(f"the trace lacks {wanted} of {self.label} behind {tree.context} tokens: "
                              f"{OTHER_SETTINGS}")
        return here.best[rows, :k], here.best_logprobs[rows, :k]

    def judge(self, tree: DraftTree, nodes: np.ndarray, ahead: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parents = tree.parent[nodes]
        if not self.read.issuperset(parents.tolist()):
            self._read(tree, np.union1d(parents, ahead))
        places = self._places_of(tree, nodes)
        logprob = self._here.logprob[places]
        if (logprob > 0).any():
            raise NotRecorded(f"the trace lacks the score of some token under {self.label} behind {tree.context} "
                              f"tokens: {OTHER_SETTINGS}")
        return logprob, self._here.unreachable[places]

    def _places_of(self, tree: DraftTree, nodes: np.ndarray) -> list[int]:
        """The probe's places of nodes. Errors: `NotRecorded`."""
        known, child = self._places, self._here.child
        new = slice(len(known), tree.size)
        for above, token in zip(tree.parent[new].tolist(), tree.token[new].tolist(), strict=True):
            known.append(child.get((known[above], token), -1))
        places = [known[node] for node in nodes.tolist()]
        if min(places, default=0) < 0:
            raise NotRecorded(f"a branch of the tree behind {tree.context} tokens was not shown to {self.label}: "
                              f"{OTHER_SETTINGS}")
        return places

    def _read(self, tree: DraftTree, nodes: np.ndarray) -> None:
        """Note the forwards over those of `nodes` and the nodes above them that were not read before.

        An EAGLE-3 head needs one forward a level, other models one for all.
        """
        lacking = [node for node in np.flatnonzero(tree.mask[nodes].any(0)).tolist() if node not in self.read]
        if not lacking:
            return
        self.read.update(lacking)
        if self.kind == "eagle3":
            _, sizes = np.unique(tree.depth[lacking], return_counts=True)
            self.passes += sizes.tolist()
        else:
            self.passes.append(len(lacking))


class StandIn:
    """What the stand-ins below share: they answer for the drafter that `info` describes, from its probes alone."""

    def __init__(self, info: DrafterInfo, probes: Iterable[Probe]) -> None:
        self.id, self._info = info.id, info
        self._probes = {probe.context: probe for probe in probes if probe.drafter == info.id}

    @property
    def label(self) -> str:
        return self._info.name

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        """There is nothing to read."""

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        """There is nothing to learn."""

    def _probe(self, context: int) -> Probe:
        """The probe behind `context` tokens. Errors: `NotRecorded`."""
        if context not in self._probes:
            raise NotRecorded(f"the trace has no probe of {self.label} behind {context} tokens; record it with "
                              "--level dense")
        return self._probes[context]


class RecordedRows(StandIn, RankingDrafter):
    """Stands in for the drafter that `info` describes and that ranks: the same rows, or `NotRecorded`."""

    name = "recorded rows"

    def open(self, context: int) -> None:
        """Turn to the position whose root is the last of `context` tokens."""
        probe = self._probe(context)
        self._context = context
        self._row = {probe.token[place]: row for row, place in enumerate(probe.expanded)}
        self._rows = np.array(probe.best, np.int64).reshape(-1, max(1, probe.k))

    def successors(self, tokens: np.ndarray) -> np.ndarray:
        rows = [self._row.get(token, -1) for token in tokens.tolist()]
        if min(rows) < 0:
            raise NotRecorded(f"the trace lacks what {self.label} knew after some token behind {self._context} tokens: "
                              "record with a larger budget")
        return self._rows[rows]


class RecordedTree(StandIn, Drafter):
    """Stands in for the drafter that `info` describes and that grows its whole tree at once: the same tree, cut to its
    best nodes where there is less room than the `capacity` that it was recorded with, or `NotRecorded`."""

    name = "recorded tree"

    def __init__(self, info: DrafterInfo, probes: Iterable[Probe], capacity: int) -> None:
        super().__init__(info, probes)
        self._capacity = capacity

    def open(self, context: int) -> None:
        """Turn to the position whose root is the last of `context` tokens."""
        probe, scores = self._probe(context), [0]
        for parent, logprob in zip(probe.parent[1:], probe.logprob[1:], strict=True):
            scores.append(scores[parent] + (logprob or 0))
        self._whole = DraftTree(probe.token[ROOT], context, len(scores))
        self._whole.append(*(np.array(column[1:], np.int64) for column in (probe.parent, probe.token, scores)), self.id)

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        whole = self._whole
        if tree.capacity > self._capacity == whole.size:
            raise NotRecorded(f"the trace holds the {whole.size - 1} best nodes of {self.label} behind {tree.context} "
                              "tokens: record with a larger budget")
        kept = whole.best(tree.room)[1:]
        above = np.searchsorted(kept, whole.parent[kept]) + 1
        above[whole.parent[kept] == ROOT] = ROOT
        created = tree.append(above, whole.token[kept], whole.score[kept], self.id)
        return Growth(created=created, candidates=created, merged=created[:0], match=np.zeros(len(created), np.int64),
                      final=True)


class RecordedBlock(StandIn, BlockDrafter):
    """Stands in for the drafter that `info` describes and that fills blocks: the same block, or `NotRecorded`.

    `passes` and `read` as in `RecordedDrafter`: one forward over the block, and no nodes.
    """

    name = "recorded block"

    def __init__(self, info: DrafterInfo, probes: Iterable[Probe]) -> None:
        super().__init__(info, probes)
        self.kind = info.kind

    @property
    def context_limit(self) -> int:
        return self._info.context_limit

    def open(self, context: int) -> None:
        """Turn to the position whose root is the last of `context` tokens."""
        self._here = self._probe(context)
        self.passes: list[int] = []
        self.read: set[int] = set()

    def fill(self, tree: DraftTree) -> tuple[np.ndarray, np.ndarray]:
        tokens, logprobs = self._here.token[1:], self._here.logprob[1:]
        if None in logprobs:
            raise NotRecorded(f"the trace lacks probabilities in the block of {self.label} behind {tree.context} "
                              "tokens; record it anew with --level dense")
        self.passes = [len(tokens) + 1] if tokens else []
        return np.array(tokens, np.int64), np.array(logprobs, np.int64)


def caught_up(kind: str, cached: int, context: int, read: set[int], path: Iterable[int]) -> tuple[int, int]:
    """Tokens of committed text that a model reads before the round's nodes, and how many it has cached after the round.

    `cached` are those before it, `context` counts the tokens up to the root. A causal LM keeps what it read of the
    accepted path; an EAGLE-3 head reads it again from the target's states.
    """
    if ROOT not in read:
        return 0, cached
    behind = context - 1 - cached
    if kind == "eagle3":
        return max(0, behind - 1), context - 1
    return behind, context - 1 + sum(node in read for node in (ROOT, *path))
