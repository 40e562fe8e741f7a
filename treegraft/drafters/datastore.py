"""REST's drafter: the most frequent continuations of the longest match in a datastore (arXiv 2311.08252)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from treegraft.datastore.store import Store, frequent
from treegraft.drafters.base import Committed, Drafter, Growth, Prefilled
from treegraft.settings import SettingError, setting
from treegraft.trace.records import NATS
from treegraft.tree import DraftTree, path_scores


@dataclass
class Datastore(Drafter):
    """Fills the tree with what followed the end of the text, and the path of each parent, in other texts.

    Runs that begin alike form a trie; its most frequent nodes are drafted, as many as the tree has room for. A node's
    score is the log of its share of all runs. That ends the round's drafting.
    """

    name = "datastore"

    longest: int = setting(16, "Longest match, in tokens.", low=1, high=64)
    shortest: int = setting(2, "Shortest match, in tokens.", low=1, high=64)
    matches: int = setting(5000, "Most places of a match that are looked at.", low=1, high=100_000)
    length: int = setting(10, "Most tokens that are copied from a place.", low=1, high=64)

    store: Store = field(default=None, repr=False, kw_only=True)
    title: str = field(default="datastore", kw_only=True)
    vocab: int = field(default=0, kw_only=True)
    """How many tokens the target has."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shortest > self.longest:
            raise SettingError(f"shortest was {self.shortest}, longer than the longest match of {self.longest} tokens. "
                               "Lower it, or raise longest.")
        self._tail: list[int] = []

    @property
    def label(self) -> str:
        return self.title

    @property
    def memory(self) -> str:
        return self.store.identity

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._tail = [*prefilled.prompt, prefilled.root][-self.longest:]

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        self._tail = [*self._tail, *committed.tokens][-self.longest:]

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        before, merged, span = tree.size, [np.zeros(0, np.int64)], []
        for parent in parents.tolist():
            nodes, size = self._copy(tree, parent)
            merged.append(nodes[nodes < before])
            span += [size] * (tree.size - before - len(span))
        created = np.arange(before, tree.size)
        return Growth(created=created, candidates=created, merged=np.unique(np.concatenate(merged)),
                      match=np.array(span, np.int64), source=[None] * len(span), span=span, final=True)

    def _copy(self, tree: DraftTree, parent: int) -> tuple[np.ndarray, int]:
        """Add the trie of what followed in the datastore below one parent; its nodes, and the size of the match."""
        tail = [*self._tail, *tree.token[tree.path(parent)[1:]].tolist()]
        match = self.store.longest(tail, self.shortest, self.longest)
        if match is None or tree.room == 0:
            return np.zeros(0, np.int64), 0
        runs = self.store.continuations(match, self.length, self.matches, self.vocab)
        trie = frequent(runs, tree.room)
        shares = np.rint(np.log(trie.count / len(runs)) * NATS).astype(np.int64)
        scores, nodes = path_scores(tree.score[parent], shares), np.full(len(trie.token), parent)
        for depth in range(int(trie.depth.max(initial=-1)) + 1):
            level = np.flatnonzero(trie.depth == depth)
            above = nodes[trie.parent[level]] if depth else nodes[level]
            nodes[level] = tree.add(above, trie.token[level], scores[level], self.id)
        return nodes, match.size
