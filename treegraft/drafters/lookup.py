"""Copying from the context: TreeGraft's training-free n-gram drafter (arXiv 2608.26112).

Where the last n tokens before a place in the tree occur in the context, what followed them there is copied below that
place. Scores come from the target's pass over the prompt; text that was generated since counts as certain, unless its
log-probs are kept too (`score_generated`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from treegraft.drafters.base import Committed, Drafter, Growth, Prefilled
from treegraft.settings import setting
from treegraft.trace.records import NATS
from treegraft.tree import NEG_INF, ROOT, DraftTree

UNLISTED = 5 * NATS
"""How far below the last of the target's best tokens a token counts that is not among them."""

EMPTY, ABSENT = 0, 1
"""Trie nodes of the n-gram without tokens, and of all n-grams that do not occur."""


class ContextIndex:
    """A growing text with all its n-grams up to `longest` tokens, and its tokens by frequency.

    The n-grams form a trie: a node stands for an n-gram, its children for the tokens that followed it somewhere. So the
    paths below a match are what can be copied after it, each once, however often it occurs. `append` takes `longest`
    steps, whatever the length of the text.
    """

    def __init__(self, longest: int) -> None:
        self.tokens: list[int] = []
        self._longest = longest
        self._below: list[dict[int, int]] = [{}, {}]
        self._first_end = [-1, -1]
        self._endings = [EMPTY]
        self._count: dict[int, int] = {}
        self._by_count: list[dict[int, int]] = [{}]

    def append(self, token: int) -> None:
        place = len(self.tokens)
        self.tokens.append(token)
        endings = [EMPTY]
        for node in self._endings[: self._longest]:
            longer = self._below[node].get(token)
            if longer is None:
                longer = self._below[node][token] = len(self._below)
                self._below.append({})
                self._first_end.append(place)
            endings.append(longer)
        self._endings = endings
        self._recount(token, place)

    def _recount(self, token: int, place: int) -> None:
        """Move the token on to the next count, which keeps the tokens of a count in the order of their last place."""
        count = self._count.get(token, 0)
        self._count[token] = count + 1
        self._by_count[count].pop(token, None)
        if len(self._by_count) == count + 1:
            self._by_count.append({})
        self._by_count[count + 1][token] = place

    def matches(self, tail: Sequence[int], longest: int) -> list[int]:
        """The trie nodes of the last 0, 1, ... `longest` tokens of text + `tail`; `ABSENT` if not in the text."""
        nodes = self._endings[: longest + 1]
        for token in tail:
            nodes = [EMPTY, *(self._below[node].get(token, ABSENT) for node in nodes[:longest])]
        return nodes

    def continuations(self, match: int, length: int) -> list[int]:
        """Where the different runs of `length` tokens that follow a match begin, each at its first place."""
        nodes = [match]
        for _ in range(length):
            nodes = [below for node in nodes for below in self._below[node].values()]
        return [self._first_end[node] - length + 1 for node in nodes]

    def frequent(self) -> Iterator[tuple[int, int]]:
        """(token, its last place) for all tokens of the text, by (more often, later)."""
        for same_count in reversed(self._by_count):
            yield from reversed(same_count.items())


class Sketch:
    """What one `grow` adds to a tree: gathered node by node in plain Python, then written to the tree at once.

    `origins` says for every new node which run it belongs to (its place in the context), how deep in the run it lies,
    and the length of the match before the run.
    """

    def __init__(self, tree: DraftTree) -> None:
        self._tree = tree
        self._token, self._parent, self._score = tree.token.tolist(), tree.parent.tolist(), tree.score.tolist()
        self._below: dict[int, dict[int, int]] = {}
        for node, (parent, token) in enumerate(zip(self._parent, self._token, strict=True)):
            self._below.setdefault(parent, {})[token] = node
        self.full = tree.room == 0
        self.origins: list[tuple[int, int, int]] = []
        self.merged: set[int] = set()
        self.raised: set[int] = set()

    def children(self, node: int) -> dict[int, int]:
        """Token to node of the children."""
        return self._below.get(node, {})

    def path(self, node: int) -> list[int]:
        """The tokens from the root (left out) to `node`."""
        tokens = []
        while node != ROOT:
            tokens.append(self._token[node])
            node = self._parent[node]
        return tokens[::-1]

    def has(self, parent: int, run: Sequence[int]) -> bool:
        """Whether the whole run lies below `parent` already; if so, its nodes count as merged."""
        nodes = []
        for token in run:
            parent = self.children(parent).get(token)
            if parent is None:
                return False
            nodes.append(parent)
        self.merged.update(node for node in nodes if node < self._tree.size)
        return True

    def insert(self, parent: int, run: Sequence[int], logprob: int, place: int, match: int) -> None:
        """Copy a run below `parent`, as far as there is room; only its first token is scored."""
        score = NEG_INF if self._score[parent] <= NEG_INF else self._score[parent] + logprob
        for step, token in enumerate(run):
            below = self._below.setdefault(parent, {})
            if token in below:
                node = below[token]
                if node < self._tree.size:
                    self.merged.add(node)
            elif self.full:
                return
            else:
                node = below[token] = len(self._token)
                self._token.append(token)
                self._parent.append(parent)
                self._score.append(NEG_INF)
                self.origins.append((place, step, match))
                self.full = len(self._token) == self._tree.capacity
            if score > self._score[node]:
                self._score[node] = score
                if node < self._tree.size:
                    self.raised.add(node)
            parent, score = node, NEG_INF

    def write(self, drafter: int) -> np.ndarray:
        """Change the tree; returns the ids of the new nodes."""
        tree, new = self._tree, slice(self._tree.size, None)
        raised = sorted(self.raised)
        tree.score[raised] = [self._score[node] for node in raised]
        tree.proposers[sorted(self.merged)] |= 1 << drafter
        return tree.append(self._parent[new], self._token[new], self._score[new], drafter)


@dataclass
class Lookup(Drafter):
    """Copies what followed the longest matches in the context.

    A parent with fewer than k known next tokens (children and matches) is stopped: what was copied below it stays, but
    is not expanded. With `relax` the context's frequent tokens fill it up instead. Where the first layer finds nothing
    at all, the context's most frequent token is drafted alone and the round's drafting ends.
    """

    name = "lookup"
    state = "context"
    prefill_k = 10

    ngram: int = setting(5, "Longest match, and longest run copied, in tokens.", low=1, high=10)
    relax: bool = setting(False, "Fill up with frequent tokens where matches give too few next tokens.")
    score_generated: bool = setting(False, "Score copies of generated text by the target's log-probs, too.")

    _index: ContextIndex = field(init=False, repr=False)
    _logprobs: list[int] = field(init=False, repr=False)
    _anchor: list[int] = field(init=False, repr=False)

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        self._index = ContextIndex(longest=2 * self.ngram)
        for token in prefilled.prompt:
            self._index.append(token)
        _, place = next(self._index.frequent())
        self._anchor = prefilled.tokens[place].tolist() if len(prefilled.tokens) else []
        self._index.append(prefilled.root)
        self._logprobs = place_logprobs(self._index.tokens, prefilled)

    @property
    def reads_logprobs(self) -> bool:
        return self.score_generated

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        for token in committed.tokens:
            self._index.append(token)
        if self.score_generated and self._logprobs:
            self._logprobs += committed.logprobs.tolist()

    def grow(self, tree: DraftTree, parents: np.ndarray, layer: int, k: int) -> Growth:
        sketch = Sketch(tree)
        length = max(1, self.ngram - layer + 1)
        candidates, match, stopped = [], [], []
        for parent in parents.tolist():
            matched, known = self._copy(sketch, parent, length, k)
            if known < k and not self.relax:
                stopped.append(parent)
                continue
            for token, child in sketch.children(parent).items():
                candidates.append(child)
                match.append(matched.get(token, 0))
        final = layer == 1 and len(stopped) == len(parents) and not sketch.children(ROOT)
        if final:
            token, place = next(self._index.frequent())
            sketch.insert(ROOT, [token], 0, place, 0)
        return Growth(
            created=sketch.write(self.id), candidates=np.array(candidates, np.int64), match=np.array(match, np.int64),
            merged=np.array(sorted(sketch.merged), np.int64),
            source=[self._source(place, step) for place, step, _ in sketch.origins],
            span=[size for _, _, size in sketch.origins], stopped=stopped, raised=sorted(sketch.raised), final=final)

    def _copy(self, sketch: Sketch, parent: int, length: int, k: int) -> tuple[dict[int, int], int]:
        """Copy runs of `length` tokens below one parent.

        Returns the longest match of each next token found, and how many next tokens are known, children included.
        """
        tokens = self._index.tokens
        matches = self._index.matches(sketch.path(parent), self.ngram)
        children = sketch.children(parent)
        known = set(children)
        longest: dict[int, int] = {}
        seen, runs = set(), []
        for size in range(len(matches) - 1, 0, -1):
            for place in self._index.continuations(matches[size], length):
                longest.setdefault(tokens[place], size)
                if sketch.full and tokens[place] not in children:
                    continue
                run = tuple(tokens[place : place + length])
                if run not in seen:
                    seen.add(run)
                    if not sketch.has(parent, run):
                        runs.append((-size, -place, run))
            known.update(longest)
            if len(known) >= k:
                break
        if self.relax:
            for run, place in self._fillers(length):
                if len(known) >= k:
                    break
                if run[0] not in known:
                    known.add(run[0])
                    runs.append((0, -place, run))
        for size, place, run in sorted(runs):
            sketch.insert(parent, run, self._logprob(-place), -place, -size)
        return longest, len(known)

    def _fillers(self, length: int) -> Iterator[tuple[tuple[int, ...], int]]:
        """Runs without a match and their places: from the context's frequent tokens on, then the target's best tokens
        after the prompt's most frequent one, without a place (-1)."""
        tokens = self._index.tokens
        for token, last in self._index.frequent():
            run = tokens[last : last + length]
            yield (*run, *[token] * (length - len(run))), last
        for token in self._anchor:
            yield (token,) * length, -1

    def _source(self, place: int, step: int) -> int | None:
        """Where a token of a run comes from; past the end of the context a run repeats its first token."""
        if place < 0:
            return None
        return place + step if place + step < len(self._index.tokens) else place

    def _logprob(self, place: int) -> int:
        """The target's log-prob of the context's token at `place`; 0 where it is not kept."""
        return self._logprobs[place] if 0 <= place < len(self._logprobs) else 0


def place_logprobs(text: Sequence[int], prefilled: Prefilled) -> list[int]:
    """Log-prob (1e-5 nats) of each token of the prompt and the first root, given those before it; 0 for the first."""
    if prefilled.tokens.size == 0:
        return []
    listed = prefilled.tokens == np.array(text[1:])[:, None]
    rows = np.arange(len(listed))
    best = prefilled.logprobs[rows, listed.argmax(1)]
    return [0, *np.where(listed.any(1), best, prefilled.logprobs.min(1) - UNLISTED).tolist()]
