"""Small worlds with a known law, in which all drafts and all random verdicts can be enumerated."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from treegraft.tree import ROOT, DraftTree
from treegraft.verify import Draws, Outcome, accept_sampled

Path = tuple[int, ...]


@dataclass(frozen=True)
class World:
    """A target and a drafter over a tiny vocabulary, whose distributions depend on the tokens since the root."""

    p: list[np.ndarray]
    q: list[np.ndarray]
    laws: dict = field(default_factory=dict)

    @property
    def vocab(self) -> int:
        return len(self.p[0])

    def target(self, path: Path) -> np.ndarray:
        return self.p[place(path) % len(self.p)]

    def drafter(self, path: Path) -> np.ndarray:
        return self.q[place(path) % len(self.q)]

    def law(self, length: int, path: Path = ()) -> np.ndarray:
        """Joint law of the next `length` tokens after `path`, as the target alone writes them."""
        if (length, path) not in self.laws:
            p = self.target(path).reshape(-1, *[1] * (length - 1))
            rest = [self.law(length - 1, (*path, token)) for token in range(self.vocab)] if length > 1 else 1.0
            self.laws[length, path] = p * np.array(rest)
        return self.laws[length, path]


def place(path: Path) -> int:
    return sum((index + 2) * (token + 1) for index, token in enumerate(path))


def world(vocab: int, seed: int = 0, impossible: float = 0.0) -> World:
    """Eleven random distributions of the target and as many of the drafter; a share of their tokens is `impossible`."""
    rng = np.random.default_rng(seed)

    def rows(count: int) -> list[np.ndarray]:
        weights = rng.dirichlet(np.full(vocab, 0.7), count) + 0.01
        barred = rng.random((count, vocab)) < impossible
        barred[np.arange(count), weights.argmax(1)] = False
        weights[barred] = 0.0
        return list(weights / weights.sum(1, keepdims=True))

    return World(rows(11), rows(11))


@dataclass(frozen=True)
class Siblings:
    """The children of one node: how likely this choice was, the draws, and the tokens chosen without chance."""

    chance: float
    draws: Draws | None
    points: list[int]


def siblings(q: np.ndarray, count: int, drafting: str) -> Iterator[Siblings]:
    """All that drafting `count` children from `q` can give. `mixed-iid` and `mixed-distinct` put one child without
    chance, the best of those that were not drawn, beside `count` drawn ones."""
    if drafting == "best":
        yield Siblings(1.0, None, np.argsort(-q, kind="stable")[:count].tolist())
        return
    replacement = drafting.removeprefix("mixed-") != "distinct"
    support = np.flatnonzero(q).tolist()
    if replacement:
        draws = itertools.product(support, repeat=count)
    else:
        draws = itertools.permutations(support, min(count, len(support)))
    for tokens in draws:
        chance, left = 1.0, 1.0
        for token in tokens:
            chance *= q[token] / left
            left -= 0.0 if replacement else q[token]
        others = [token for token in np.argsort(-q, kind="stable").tolist() if token not in tokens]
        yield Siblings(chance, Draws(list(tokens), q, replacement), others[:1] if "mixed" in drafting else [])


def drafts(world: World, shape: list[int], drafting: str) -> Iterator[tuple[float, dict[Path, Siblings]]]:
    """All drafts of a tree with `shape[d]` children after each node of depth d, with their probabilities."""

    def grow(pending: list[Path], grown: dict[Path, Siblings], chance: float) -> Iterator:
        if not pending:
            yield chance, grown
            return
        path, *rest = pending
        for choice in siblings(world.drafter(path), shape[len(path)], drafting):
            tokens = dict.fromkeys([*(choice.draws.tokens if choice.draws else []), *choice.points])
            below = [(*path, token) for token in tokens] if len(path) + 1 < len(shape) else []
            yield from grow(rest + below, {**grown, path: choice}, chance * choice.chance)

    return grow([()], {}, 1.0)


@dataclass
class Draft:
    """One drafted tree, ready for a rule."""

    tree: DraftTree
    draws: dict[int, Draws]
    paths: list[Path]
    world: World

    def accept(self, rule: str, uniform: Callable) -> Outcome:
        return accept_sampled(self.tree, np.arange(self.tree.size), self.distribution, self.draws, rule, uniform)

    def distribution(self, node: int) -> np.ndarray:
        return self.world.target(self.paths[node])


def build(world: World, grown: dict[Path, Siblings]) -> Draft:
    tree, draws, paths, nodes = DraftTree(0, 1, 400), {}, [()], {(): ROOT}
    for path, choice in grown.items():
        if choice.draws:
            draws[nodes[path]] = choice.draws
        for token in dict.fromkeys([*(choice.draws.tokens if choice.draws else []), *choice.points]):
            nodes[*path, token] = int(tree.append([nodes[path]], [token], [0], 0)[0])
            paths.append((*path, token))
    return Draft(tree, draws, paths, world)


class Coin:
    """Stands in for a random number: takes the verdicts of a script, then always loses, and notes other scripts.

    `weight` is the probability of the verdicts that it gave."""

    def __init__(self, script: list[bool]) -> None:
        self.script, self.given, self.weight, self.others = script, [], 1.0, []

    def __call__(self) -> Coin:
        return self

    def __lt__(self, chance: float) -> bool:
        step = len(self.given)
        win = self.script[step] if step < len(self.script) else chance >= 1
        if step >= len(self.script) and 0 < chance < 1:
            self.others.append([*self.given, True])
        self.given.append(win)
        self.weight *= chance if win else 1 - chance
        return win

    def __mul__(self, total: float) -> float:
        return 0.0  # the bonus is not drawn here: `outcomes` leaves its whole distribution to the caller


def outcomes(draft: Draft, rule: str) -> Iterator[tuple[float, Outcome]]:
    """All verdicts on one tree, with their probabilities."""
    scripts: list[list[bool]] = [[]]
    while scripts:
        coin = Coin(scripts.pop())
        outcome = draft.accept(rule, coin)
        scripts += coin.others
        yield coin.weight, outcome


def exact_law(world: World, shape: list[int], drafting: str, rule: str, length: int) -> np.ndarray:
    """Joint law of the first `length` tokens: one round of drafting and acceptance, then the target alone."""
    law = np.zeros((world.vocab,) * length)
    for chance, grown in drafts(world, shape, drafting):
        draft = build(world, grown)
        for weight, outcome in outcomes(draft, rule):
            path = draft.paths[outcome.path[-1]] if len(outcome.path) else ()
            left = chance * weight * outcome.left
            for token in np.flatnonzero(left).tolist():
                more = length - len(path) - 1
                law[*path, token] += left[token] * (world.law(more, (*path, token)) if more else 1.0)
    return law


def sampled_counts(world: World, shape: list[int], drafting: str, rule: str, length: int, runs: int,
                   seed: int) -> np.ndarray:
    """How often each text of `length` tokens came out of `runs` rounds with real random numbers."""
    rng, counts = np.random.default_rng(seed), np.zeros((world.vocab,) * length)
    known = [(chance, build(world, grown)) for chance, grown in drafts(world, shape, drafting)]
    cumulative = np.cumsum([chance for chance, _ in known])
    for _ in range(runs):
        _, draft = known[int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))]
        outcome = draft.accept(rule, rng.random)
        text = [*draft.tree.token[outcome.path].tolist(), outcome.bonus]
        while len(text) < length:
            text.append(int(rng.choice(world.vocab, p=world.target(tuple(text)))))
        counts[tuple(text[:length])] += 1
    return counts


def chi_square(counts: np.ndarray, law: np.ndarray) -> float:
    """Probability of counts at least this far from the law; cells that expect fewer than five runs are merged."""
    counts, expected = counts.ravel(), law.ravel() * counts.sum()
    if counts[expected == 0].any():
        return 0.0
    small = expected < 5
    counts = np.append(counts[~small], counts[small].sum())
    expected = np.append(expected[~small], expected[small].sum())
    kept = expected > 0
    statistic = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
    freedom = kept.sum() - 1
    return float(torch.special.gammaincc(torch.tensor(freedom / 2.0), torch.tensor(statistic / 2.0)))
