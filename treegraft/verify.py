"""Acceptance rules: which drafted tokens the target's answers confirm.

A rule for sampled decoding is a generator of trials. A trial is one child of the node that the walk has reached; it is
won with some chance, and if it is lost the next trial starts from what is `left` of the target's distribution. So the
same few lines serve to decide (with random numbers) and to compute the chance of every node (without).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from treegraft.trace.records import NATS, Tried
from treegraft.tree import ROOT, DraftTree

EPSILON, DELTA = 0.09, 0.3
"""Medusa's bounds of a typical token: its probability is above min(EPSILON, DELTA * exp(-entropy))."""

RESIDUAL_SHOWN = 8
"""Tokens of what is left that a record of a trial names."""


@dataclass(frozen=True)
class Draws:
    """Children of one node that were drawn at random, whatever their values.

    `tokens` are in the order of the draws and repeat where a draw did, though equal tokens are one node of the tree.
    `q` [vocab] is the distribution that they were drawn from; without `replacement` a drawn token leaves it for the
    next draw. How many are drawn must not depend on their values: that would change the law of the output.
    """

    tokens: list[int]
    q: np.ndarray
    replacement: bool

    def __post_init__(self) -> None:
        if any(self.q[token] <= 0 for token in self.tokens):
            raise ValueError(f"drawn tokens were {self.tokens}; allowed: tokens with a probability above 0 in q")
        if not self.replacement and len(set(self.tokens)) < len(self.tokens):
            raise ValueError(f"drawn tokens were {self.tokens}; without replacement they must differ")


@dataclass(frozen=True)
class Rule:
    """What an acceptance rule needs and keeps.

    `drafting` names the ways of drafting whose trees it takes (see `DRAFTINGS`). A `lossless` rule writes what the
    target alone would write: the same text when greedy, the same distribution of texts when sampled."""

    name: str
    lossless: bool
    drafting: tuple[str, ...]
    help: str


DRAFTINGS = {
    "best": "children chosen without chance: best tokens, copies, retrieved tokens",
    "one": "at most one child after a node, drawn from the drafter's distribution",
    "iid": "several children after a node, drawn independently; a token may be drawn twice",
    "distinct": "several children after a node, drawn one after the other without replacement",
    "mixed": "some children after a node drawn, others chosen without chance",
}
"""Ways of drafting, which decide the rules that fit."""

RULES = {rule.name: rule for rule in (
    Rule("greedy", True, tuple(DRAFTINGS), "a child must be the target's favourite (temperature 0)"),
    Rule("points", True, ("best",), "accept with p; else take the token out of p (EAGLE-2)"),
    Rule("chain", True, ("one",), "accept with min(1, p/q); else go on with max(0, p - q) (Leviathan, Chen)"),
    Rule("specinfer", True, ("one", "iid"), "the rule `chain` for one draw after the other (SpecInfer)"),
    Rule("sequoia", True, ("one", "distinct"), "as `specinfer`, and a tried token leaves q, too (Sequoia)"),
    Rule("mixed", True, ("best", "one", "iid", "distinct", "mixed"), "drawn children first, then the others"),
    Rule("traversal", True, ("one", "iid", "distinct"), "from the leaves up, whole paths at a time (Traversal)"),
    Rule("typical", False, tuple(DRAFTINGS), "any child that is likely enough (Medusa); changes the distribution"),
)}
"""All acceptance rules."""

RULE_OF = {"best": "points", "one": "chain", "iid": "specinfer", "distinct": "sequoia", "mixed": "mixed"}
"""The rule of each way of drafting, unless the user asks for another."""


def accept_greedy(tree: DraftTree, order: np.ndarray, argmax: np.ndarray) -> tuple[np.ndarray, int]:
    """Walk down while a verified child holds the target's favourite token (SpecInfer, arXiv 2305.09781, greedy case).

    `order` are the verified nodes and `argmax` the target's favourite next token after each. Returns the accepted path
    (node ids, root left out) and the bonus token: the favourite after the last accepted node.
    """
    parent, token = tree.parent[order], tree.token[order]
    favourite = dict(zip(order.tolist(), argmax.tolist(), strict=True))
    path = []
    node = ROOT
    while True:
        bonus = favourite[node]
        confirmed = order[(parent == node) & (token == bonus)]
        if len(confirmed) == 0:
            return np.array(path, np.int64), bonus
        node = int(confirmed[0])
        path.append(node)


@dataclass(frozen=True)
class Trial:
    """One test of a child, won with probability `chance`.

    `p` and `q` are its token's probabilities in what is left of the target's and the drafter's distribution (`q` is
    None for a token that was not drawn), `left` [vocab] is what a defeat leaves of the target's."""

    token: int
    p: float
    q: float | None
    chance: float
    left: np.ndarray


Trials = Iterator[Trial]


def without(p: np.ndarray, token: int) -> np.ndarray:
    """`p` without one token, summing to 1 again; `p` itself if no other token has any probability."""
    rest = p.copy()
    rest[token] = 0.0
    return normalised(rest, p)


def residual(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """norm(max(0, p - q)); `p` itself if rounding leaves nothing, where p = q and a defeat has no chance."""
    rest = p - q
    return normalised(np.maximum(rest, 0.0, out=rest), p)


def normalised(rest: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """`rest`, scaled in place to sum to 1, or the fallback if it is all 0."""
    total = rest.sum()
    if total <= 0:
        return fallback
    rest /= total
    return rest


def points(p: np.ndarray, tokens: Sequence[int]) -> Trials:
    """Children chosen without chance: accept x with p(x), else p(x) = 0 and renormalise (EAGLE-2, arXiv 2406.16858)."""
    for token in tokens:
        left = without(p, token)
        yield Trial(token, p[token], None, p[token], left)
        p = left


def chain(p: np.ndarray, drawn: Draws) -> Trials:
    """One draw x from q: accept with min(1, p(x) / q(x)), else p = norm(max(0, p - q)) (Leviathan et al.,
    arXiv 2211.17192; Chen et al., arXiv 2302.01318)."""
    for token in drawn.tokens:
        yield Trial(token, p[token], drawn.q[token], ratio(p[token], drawn.q[token]), residual(p, drawn.q))


def specinfer(p: np.ndarray, drawn: Draws) -> Trials:
    """Independent draws from q: the rule `chain` for one after the other, always with q (multi-step speculative
    sampling, SpecInfer, arXiv 2305.09781). A repeated draw has no chance, but q is taken from p once more."""
    q = drawn.q
    for token in drawn.tokens:
        left = residual(p, q)
        yield Trial(token, p[token], q[token], ratio(p[token], q[token]), left)
        p = left


def sequoia(p: np.ndarray, drawn: Draws) -> Trials:
    """Draws without replacement: as `specinfer`, and a tried token leaves q, too (Sequoia, arXiv 2402.12374)."""
    q = drawn.q
    for token in drawn.tokens:
        left = residual(p, q)
        yield Trial(token, p[token], q[token], ratio(p[token], q[token]), left)
        p, q = left, without(q, token)


def mixed(p: np.ndarray, drawn: Draws | None, tokens: Sequence[int]) -> Trials:
    """Drawn children first, by the rule for their kind of draws, then the others as points of what is left. The points
    may be any, even chosen with the draws in view."""
    if drawn is not None:
        for trial in (specinfer if drawn.replacement else sequoia)(p, drawn):
            yield trial
            p = trial.left
    yield from points(p, tokens)


WALKS = {"chain": chain, "specinfer": specinfer, "sequoia": sequoia}
"""Rules that walk down along drawn children only."""


def siblings(rule: str, p: np.ndarray, drawn: Draws | None, tokens: Sequence[int]) -> Trials:
    """The trials of one node's children under a rule that walks down from the root.

    `drawn` are those that were drawn at random, `tokens` the others. Raises ValueError if the rule cannot take them."""
    if rule == "mixed":
        return mixed(p, drawn, tokens)
    if drawn is None and (rule == "points" or not tokens):
        return points(p, tokens)
    if drawn is not None and not tokens and rule in WALKS and kind(drawn) in RULES[rule].drafting:
        return WALKS[rule](p, drawn)
    raise ValueError(misfit(rule, "mixed" if tokens and drawn else kind(drawn)))


def kind(drawn: Draws | None) -> str:
    """The way of drafting that these children show."""
    if drawn is None:
        return "best"
    return "one" if len(drawn.tokens) <= 1 else "iid" if drawn.replacement else "distinct"


def ratio(p: float, q: float) -> float:
    return min(1.0, float(p) / float(q))


Children = Mapping[int, Mapping[int, int]]
"""Of every verified node: its verified children, by token."""

Distribution = Callable[[int], np.ndarray]
"""The target's probabilities [vocab], float64, after a verified node."""


def traversal(node: int, chance: float, children: Children, distribution: Distribution, draws: Mapping[int, Draws],
              ) -> Generator[tuple[int, Trial, np.ndarray | None], None, tuple[float, np.ndarray | None]]:
    """Trials of all nodes below `node`, from the leaves up: the last one before the node itself (traversal
    verification, arXiv 2505.12398).

    `chance` is that of the whole path to the node: min(1, chance of its parent * p(x) / q(x)). A lost child takes q
    from chance * p, of which a share R is left, and the chance becomes R / (R + 1 - chance). Yields the child, its
    trial and what is left for the bonus if the text goes on after the child (None: all of the target's distribution);
    returns the node's own chance after all its children, and what is left for the bonus after it. In the trials, p / q
    is the chance of the whole path.
    """
    if not children[node]:
        return chance, None
    drawn = draws[node]
    p, q, seen = distribution(node), drawn.q, set()
    for token in drawn.tokens:
        child, wins, bonus = children[node][token], ratio(chance * p[token], q[token]), None
        if token not in seen:
            wins, bonus = yield from traversal(child, wins, children, distribution, draws)
        seen.add(token)
        rest = np.maximum(0.0, chance * p - q)
        share = rest.sum()
        p = normalised(rest, p)
        yield child, Trial(token, wins * q[token], q[token], wins, p), bonus
        chance = share / (share + 1 - chance) if share > 0 else 0.0
        q = q if drawn.replacement else without(q, token)
    return chance, p


@dataclass(frozen=True)
class Verdict:
    """A trial of `node` and how it ended. `u` is the random number, or the threshold under the rule `typical`."""

    node: int
    trial: Trial
    u: float
    accepted: bool

    def record(self) -> Tried:
        trial = self.trial
        return Tried(node=self.node, p=units(trial.p), accepted=self.accepted, u=self.u,
                     q=None if trial.q is None else units(trial.q),
                     residual=[] if self.accepted else best(trial.left, RESIDUAL_SHOWN))


def judge(node: int, trial: Trial, u: float) -> Verdict:
    """Won if the random number `u` in [0, 1) is below the chance, so that a chance of 0 never wins."""
    return Verdict(node, trial, u, bool(u < trial.chance))


@dataclass
class Outcome:
    """What a rule made of one tree: the accepted `path` (node ids, root left out), the `bonus` token, drawn from what
    was `left` [vocab] of the target's distribution, and all verdicts in their order."""

    path: np.ndarray
    bonus: int
    left: np.ndarray
    verdicts: list[Verdict]

    @cached_property
    def tried(self) -> list[Tried]:
        """The verdicts as records (only made when asked for: finding the best tokens takes longer than deciding)."""
        return [verdict.record() for verdict in self.verdicts]


def units(probability: float) -> int | None:
    """Log-probability in 1e-5 nats, None for minus infinity."""
    return round(math.log(probability) * NATS) if probability > 0 else None


def best(p: np.ndarray, k: int) -> list[tuple[int, int]]:
    """The k likeliest tokens with their log-probabilities, equal ones by token, impossible ones left out."""
    among = np.argpartition(p, -k)[-k:] if k < len(p) else np.arange(len(p))
    among = among[np.lexsort((among, -p[among]))]
    return [(token, units(p[token])) for token in among.tolist() if p[token] > 0]


def accept_sampled(tree: DraftTree, order: np.ndarray, distribution: Distribution, draws: Mapping[int, Draws],
                   rule: str, uniform: Callable[[], float]) -> Outcome:
    """Let `rule` choose the accepted path and the bonus token, at a temperature above 0.

    `order` are the verified nodes, parents first. `draws` holds the draws of the parents whose children were drawn at
    random; other children are taken as chosen without chance, in the order of their ids. `uniform()` is the next random
    number in [0, 1). Raises ValueError if the tree does not suit the rule or a drawn token was not verified.
    """
    children = verified_children(tree, order, draws)
    if rule == "typical":
        node, verdicts = typical(order, children, distribution)
        left = distribution(node)
    elif rule == "traversal":
        node, left, verdicts = climb(children, distribution, draws, uniform)
    else:
        node, left, verdicts = descend(rule, children, distribution, draws, uniform)
    return Outcome(tree.path(node)[1:], pick(left, uniform()), left, verdicts)


def verified_children(tree: DraftTree, order: np.ndarray, draws: Mapping[int, Draws]) -> Children:
    children: dict[int, dict[int, int]] = {node: {} for node in order.tolist()}
    for node, parent, token in zip(order.tolist(), tree.parent[order].tolist(), tree.token[order].tolist(),
                                   strict=True):
        if parent >= 0:
            children[parent][token] = node
    for parent, drawn in draws.items():
        if parent in children and not children[parent].keys() >= set(drawn.tokens):
            raise ValueError(f"tokens {drawn.tokens} were drawn after node {parent}, not all of them verified: "
                             "leaving some out would change the distribution of the output")
    return children


def others(children: Mapping[int, int], drawn: Draws | None) -> list[int]:
    """Tokens of children that were not drawn, in the order of their node ids."""
    chosen = [token for token in children if drawn is None or token not in drawn.tokens]
    return sorted(chosen, key=children.__getitem__)


def descend(rule: str, children: Children, distribution: Distribution, draws: Mapping[int, Draws],
            uniform: Callable[[], float]) -> tuple[int, np.ndarray, list[Verdict]]:
    """Walk down from the root while a child is accepted: the last node, what is left after it, and the verdicts."""
    node, verdicts = ROOT, []
    while True:
        left, winner = distribution(node), None
        for trial in siblings(rule, left, draws.get(node), others(children[node], draws.get(node))):
            verdicts.append(judge(children[node][trial.token], trial, uniform()))
            if verdicts[-1].accepted:
                winner = verdicts[-1].node
                break
            left = trial.left
        if winner is None:
            return node, left, verdicts
        node = winner


def climb(children: Children, distribution: Distribution, draws: Mapping[int, Draws], uniform: Callable[[], float],
          ) -> tuple[int, np.ndarray, list[Verdict]]:
    """Try whole paths from the leaves up: the last node of the accepted one, what is left after it, the verdicts."""
    verdicts, left = [], None
    for child, trial, bonus in climbing(children, distribution, draws):
        verdicts.append(judge(child, trial, uniform()))
        if verdicts[-1].accepted:
            return child, distribution(child) if bonus is None else bonus, verdicts
        left = trial.left
    return ROOT, distribution(ROOT) if left is None else left, verdicts


def climbing(children: Children, distribution: Distribution, draws: Mapping[int, Draws],
             ) -> Generator[tuple[int, Trial, np.ndarray | None], None, tuple[float, np.ndarray | None]]:
    """All trials of `traversal`, from the root's sure place in the text; ValueError if a child was not drawn."""
    for node, below in children.items():
        if others(below, draws.get(node)):
            raise ValueError(misfit("traversal", "mixed" if node in draws else "best"))
    return traversal(ROOT, 1.0, children, distribution, draws)


def typical(order: np.ndarray, children: Children, distribution: Distribution) -> tuple[int, list[Verdict]]:
    """Accept x with p(x) > min(EPSILON, DELTA * exp(-entropy of p)); the longest path of such nodes wins, ties by its
    summed log-probability (Medusa, arXiv 2401.10774). Lossy: it prefers likely tokens to rare ones.

    Medusa takes the first token of a round as the target draws it; here that is the bonus of the round before.
    Returns the path's last node and the verdicts.
    """
    length, verdicts = {ROOT: (0, 0.0)}, []
    for parent in order.tolist():
        if parent not in length or not children[parent]:
            continue
        p, (above, total) = distribution(parent), length[parent]
        threshold = min(EPSILON, DELTA * math.exp(-entropy(p)))
        for token, node in children[parent].items():
            passes = bool(p[token] > threshold)
            verdicts.append(Verdict(node, Trial(token, p[token], None, float(passes), p), threshold, passes))
            if passes:
                length[node] = (above + 1, total + math.log(p[token]))
    return max(length, key=length.__getitem__), verdicts


def entropy(p: np.ndarray) -> float:
    """In nats."""
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def pick(p: np.ndarray, u: float) -> int:
    """The token that the random number `u` in [0, 1) draws from `p`, by the inverse of its cumulative sums."""
    sums = np.cumsum(p)
    return int(np.searchsorted(sums, u * sums[-1], side="right"))


def chances(p: np.ndarray, drawn: Draws | None, tokens: Sequence[int], rule: str) -> dict[int, float]:
    """How likely each child of a node is to be accepted, by token: those `drawn` at random, and the other `tokens`."""
    if rule == "points" and drawn is None:
        return {token: float(p[token]) for token in tokens}  # what the trials below would multiply up to
    found, undecided = {}, 1.0
    for trial in siblings(rule, p, drawn, tokens):
        found[trial.token] = found.get(trial.token, 0.0) + undecided * float(trial.chance)
        undecided *= 1 - float(trial.chance)
    return found


def node_chances(tree: DraftTree, order: np.ndarray, distribution: Distribution, draws: Mapping[int, Draws],
                 rule: str) -> np.ndarray:
    """How likely the rule is to accept each verified node once it has accepted its parent (1 for the root), aligned
    with `order`; empty for `typical`, which leaves nothing to chance."""
    children = verified_children(tree, order, draws)
    if rule == "typical":
        return np.zeros(0)
    found = {ROOT: 1.0}
    if rule == "traversal":
        found |= climbing_chances(tree, children, distribution, draws)
    else:
        for node, below in children.items():
            if below:
                drawn = draws.get(node)
                by_token = chances(distribution(node), drawn, others(below, drawn), rule)
                found |= {below[token]: chance for token, chance in by_token.items()}
    return np.array([found[node] for node in order.tolist()])


def climbing_chances(tree: DraftTree, children: Children, distribution: Distribution, draws: Mapping[int, Draws],
                     ) -> dict[int, float]:
    """`node_chances` of traversal: the accepted path ends at a node if all trials before its own are lost."""
    through, undecided = np.zeros(tree.size), 1.0
    for child, trial, _ in climbing(children, distribution, draws):
        through[tree.path(child)] += undecided * trial.chance
        undecided *= 1 - trial.chance
    through[ROOT] = 1.0
    above = through[tree.parent]
    shares = np.divide(through, above, out=np.zeros(tree.size), where=above > 0)
    return {node: float(min(1.0, shares[node])) for node in children if node != ROOT}


def misfit(rule: str, drafting: str) -> str:
    """What to tell somebody whose rule does not suit the way of drafting."""
    return (f"the acceptance rule {rule} does not take children drafted as {drafting!r} ({DRAFTINGS[drafting]}); "
            f"allowed there: {', '.join(rules_for(drafting))}")


def rules_for(drafting: str) -> list[str]:
    """Names of the rules that take trees drafted so, at a temperature above 0."""
    return [rule.name for rule in RULES.values() if drafting in rule.drafting and rule.name != "greedy"]
