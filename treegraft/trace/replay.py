"""Replay of a round: the state of its tree after every event, and what became of every node.

Both are pure functions of the record. They trust it: records from a `Trace` or checked by a `Writer` are sound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from treegraft.trace.records import Accept, Event, Expand, Logprob, Prune, Rescore, Round, Verify

FATES = ("root", "accepted", "rejected", "unreached", "pruned", "discarded")


@dataclass(frozen=True)
class TreeState:
    """The tree between two events. All columns have one entry for each node of the finished round.

    `born`: the node exists. `scores`: cumulative log-prob in 1e-5 nats, `None` for minus infinity and for nodes to
    come. `kept`: the node exists and was not pruned.
    """

    born: tuple[bool, ...]
    scores: tuple[Logprob, ...]
    kept: tuple[bool, ...]

    @property
    def size(self) -> int:
        """How many nodes exist; they are the first ones, as nodes are numbered in order of birth."""
        return sum(self.born)


def states(record: Round) -> list[TreeState]:
    """The tree before all events, and after each."""
    later = len(record.nodes.token) - 1
    root = (True,) + (False,) * later
    found = [TreeState(root, (record.nodes.score[0],) + (None,) * later, root)]
    for event in record.events:
        found.append(after(found[-1], event))
    return found


def after(state: TreeState, event: Event) -> TreeState:
    """The state that `event` leaves."""
    if isinstance(event, Prune):
        chosen = set(event.kept)
        return TreeState(state.born, state.scores, tuple(node in chosen for node in range(len(state.born))))
    if isinstance(event, Rescore):
        return TreeState(state.born, _rescored(state, event.nodes, event.after), state.kept)
    if not isinstance(event, Expand):
        return state
    scores = _rescored(state, event.nodes + event.raised, event.scores + event.raised_scores)
    return TreeState(_with(state.born, event.nodes), scores, _with(state.kept, event.nodes))


def _rescored(state: TreeState, nodes: list[int], values: list[Logprob]) -> tuple[Logprob, ...]:
    """The scores with new ones for `nodes`."""
    scores = list(state.scores)
    for node, score in zip(nodes, values, strict=True):
        scores[node] = score
    return tuple(scores)


def _with(column: tuple[bool, ...], nodes: list[int]) -> tuple[bool, ...]:
    """`column` with `nodes` set."""
    changed = list(column)
    for node in nodes:
        changed[node] = True
    return tuple(changed)


def fates(record: Round) -> list[str]:
    """What became of each node (one of `FATES`).

    `accepted` and `discarded` nodes are the accepted path, the latter after the end of the text. Off the path, a
    verified node is `rejected` where its parent is on the path (the target chose otherwise), else `unreached`. What was
    not verified is `pruned`.
    """
    verify, accept = ending(record)
    verified, reached = set(verify.order), {0, *accept.path}
    parent = record.nodes.parent
    found = ["pruned" if node not in verified else "rejected" if parent[node] in reached else "unreached"
             for node in range(len(parent))]
    found[0] = "root"
    taken = accepted(accept)
    for place, node in enumerate(accept.path):
        found[node] = "accepted" if place < taken else "discarded"
    return found


def accepted(accept: Accept) -> int:
    """Accepted draft tokens that belong to the text: the bonus is the first to fall off the end, then the path's."""
    return len(accept.path) - max(0, accept.discarded - 1)


def expected(record: Round) -> list[float]:
    """How many tokens more the rule accepts on average once it has reached a node, aligned with the `order` of the
    verify event: computed from the recorded chances. The root's is the expected accepted length of the round; where no
    chances were recorded the list is empty."""
    verify, accept = ending(record)
    found = dict.fromkeys(verify.order if accept.chances else (), 0.0)
    for node, chance in zip(reversed(verify.order[1:]), reversed(accept.chances[1:]), strict=False):
        found[record.nodes.parent[node]] += chance * (1 + found[node])
    return list(found.values())


def ending(record: Round) -> tuple[Verify, Accept]:
    """What the target answered in a round, and what was accepted; only what was learned from it comes later."""
    place = next(place for place in range(len(record.events) - 1, 0, -1) if isinstance(record.events[place], Accept))
    verify, accept = record.events[place - 1: place + 1]
    assert isinstance(verify, Verify)
    assert isinstance(accept, Accept)
    return verify, accept


class Outcome(NamedTuple):
    """What a round added to the text: `tokens` are the accepted path's and the bonus; the first `taken` of them belong
    to the text, the others lie after its end. `root` and `context` are those of the round."""

    root: int
    context: int
    tokens: list[int]
    taken: int


def outcome(record: Round) -> Outcome:
    """What the round added to the text."""
    _, accept = ending(record)
    tokens = [*(record.nodes.token[node] for node in accept.path), accept.bonus]
    return Outcome(record.root, record.context, tokens, len(tokens) - accept.discarded)
