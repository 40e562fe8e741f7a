"""How drafted tokens were accepted, for the views: the rule in a line, and sentences about sampled verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treegraft.trace.replay import ending
from treegraft.verify import RESIDUAL_SHOWN, RULES
from treegraft.view.labels import name
from treegraft.view.words import Sentence, chance, say

if TYPE_CHECKING:
    from collections.abc import Mapping

    from treegraft.trace.records import Accept, Decoding, Logprob, Round, Tried, Walked

LOSSY = "lossy: the text is not distributed as the target\u2019s own"


def is_lossy(rule: str) -> bool:
    """Whether the rule is known to change what the target would write."""
    return rule in RULES and not RULES[rule].lossless


def rule_view(rule: str) -> dict[str, Any]:
    """The name of a rule, what it does in one line (empty for one that this version does not know), and a warning."""
    return {"name": name(rule), "help": RULES[rule].help if rule in RULES else "",
            "lossy": LOSSY if is_lossy(rule) else ""}


def decoding_line(decoding: Decoding) -> str:
    """How the output was chosen, in one line: the rule, the settings of sampling, and whether it is lossy."""
    if decoding.rule == "greedy":
        return "greedy"
    parts = [f"rule {name(decoding.rule)}", f"temperature {decoding.temperature:g}"]
    parts += [f"{label} {value:g}" for label, value, off in (
        ("top-k", decoding.top_k, 0), ("top-p", decoding.top_p, 1), ("min-p", decoding.min_p, 0)) if value != off]
    parts += [] if decoding.seed is None else [f"seed {decoding.seed}"]
    return ", ".join(parts) + (f" ({LOSSY})" if is_lossy(decoding.rule) else "")


def acceptance(accept: Accept) -> dict[str, Any]:
    """What the player replays of a sampled acceptance: the rule, and the children that it tried, in order.

    A child is its node, p, q, u, whether it was accepted, and the best tokens of what was left of the target's
    distribution if it was not. Nothing for a greedy acceptance."""
    if accept.rule == "greedy":
        return {}
    return {"rule": rule_view(accept.rule), "tried": [
        [child.node, child.p, child.q, child.u, child.accepted, child.residual[:RESIDUAL_SHOWN]]
        for child in accept.tried]}


class Verdicts:
    """Sentences about the nodes and the bonus of a round in which a rule other than greedy accepted.

    Methods return None where the trace holds no verdict with its numbers."""

    def __init__(self, record: Round, walk: Mapping[int, Walked]) -> None:
        self.accept = ending(record)[1]
        self.token, self.parent, self.walk = record.nodes.token, record.nodes.parent, walk
        self.path = [0, *self.accept.path]
        self.last: dict[int, Tried] = {tried.node: tried for tried in self.accept.tried}
        first: dict[int, int] = {}
        for tried in self.accept.tried:
            first.setdefault(self.parent[tried.node], tried.node)
        self.first = set(first.values())

    def node(self, node: int, fate: str) -> Sentence | None:
        """Why a node was accepted, rejected or not reached, by the numbers of its verdict."""
        tried = self.last.get(node)
        if tried is None or tried.u is None:
            return self._untried(node, fate)
        rule = self.accept.rule
        if rule == "traversal" and fate in ("accepted", "rejected", "unreached"):
            return say(f"{fate} path", chance=chance(_ratio(tried)), u=tried.u)
        if fate == "unreached":
            return None
        if rule == "typical":
            beside = fate == "rejected" and tried.accepted
            return say("rejected beside" if beside else f"{fate} typical", was=tried.p, u=tried.u)
        order = "" if node in self.first else " later"
        values = {"parent": self.token[self.parent[node]], "was": tried.p, "u": tried.u}
        if tried.q is None:
            return say(f"{fate} by p{order}", **values)
        return say(f"{fate} by q{order}", **values, q=tried.q)

    def _untried(self, node: int, fate: str) -> Sentence | None:
        parent = self.parent[node]
        if fate == "accepted" and self.accept.rule == "traversal":
            return say("accepted within")
        if fate == "rejected" and self.accept.tried and parent in self.path[:-1]:
            return say("rejected untried", chosen=self.token[self.path[self.path.index(parent) + 1]])
        return None

    def bonus(self) -> Sentence:
        """Where the bonus token was drawn from."""
        tip, bonus = self.path[-1], self.accept.bonus
        left, rejected = self.left(tip)
        key, p = "bonus drawn left" if rejected else "bonus drawn", left.get(bonus)
        parent = self.token[tip]
        return say(key + " unknown", parent=parent) if p is None else say(key, parent=parent, p=p)

    def left(self, node: int) -> tuple[dict[int, Logprob], bool]:
        """The best tokens of what its rejected children left of the target's distribution after `node`, with their
        log-probabilities, and whether there were any."""
        losses = [tried.residual for tried in self.accept.tried if self.parent[tried.node] == node]
        if losses and self.accept.rule != "typical":
            return dict(losses[-1]), True
        walked = self.walk.get(node)
        return dict(zip(walked.tokens, walked.logprobs, strict=True)) if walked else {}, False


def _ratio(tried: Tried) -> Logprob:
    """The logarithm of p / q."""
    return None if tried.p is None else tried.p - (tried.q or 0)
