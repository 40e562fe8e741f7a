"""What a round's attention mask, positions and KV caches were, and whether they are as a correct decode leaves them.

The functions take records as they are, also such that a reader would refuse: to look at what is wrong with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from treegraft.trace.records import TARGET, Header, Prefill, Round
from treegraft.trace.replay import ending
from treegraft.trace.runs import Run

Verdict = Literal["holds", "broken", "unknown"]


@dataclass(frozen=True)
class Check:
    """One invariant: what must hold, whether it does (`unknown` where the recording does not tell), its numbers."""

    name: str
    verdict: Verdict
    numbers: str


@dataclass(frozen=True)
class Attention:
    """What the target read in one forward: the nodes in `order`, their `depth` (from 0, the root) and `position` in the
    text (from 0). `mask[row, column]`: the node of the row attends to that of the column. All of them attend to the
    `committed` tokens before the root, too."""

    order: list[int]
    depth: list[int]
    position: list[int]
    mask: np.ndarray
    committed: int


@dataclass(frozen=True)
class Cache:
    """Tokens in the KV cache of a model (-1: the target): `before` the round, `during` the verification (the target
    alone) and `after`; `expected` after it: exactly for the target, at most for a drafter. None where not recorded."""

    model: int
    before: int | None
    during: int | None
    after: int | None
    expected: int


def attention(record: Round) -> Attention:
    """Mask and positions of the verification: each node sees the root, its ancestors that were sent, and itself."""
    order, parent = ending(record)[0].order, record.nodes.parent
    lines = [lineage(parent, node) for node in order]
    column = {node: place for place, node in enumerate(order)}
    mask = np.zeros((len(order), len(order)), bool)
    for row, line in enumerate(lines):
        mask[row, [column[node] for node in line if node in column]] = True
    depth = [len(line) - 1 for line in lines]
    committed = record.context - 1
    return Attention(order, depth, [committed + one for one in depth], mask, committed)


def lineage(parent: Sequence[int], node: int) -> list[int]:
    """The node and its ancestors up to the root; where the parents go in a circle, once around it."""
    line: list[int] = []
    while 0 <= node < len(parent) and node not in line:
        line.append(node)
        node = parent[node]
    return line


def caches(record: Round, before: Round | None, header: Header, prefill: Prefill | None = None) -> list[Cache]:
    """The KV caches of the target and of the drafters that have one. Before the first round the target holds the
    prompt, if it was recorded how it read it."""
    verify, accept = ending(record)
    committed = record.context + len(accept.path)
    first = {TARGET: len(header.prompt.tokens)} if prefill else {}
    known = before.kv if before else first
    drafters = sorted({*record.kv, *(before.kv if before else {})} - {TARGET})
    return [Cache(TARGET, known.get(TARGET), record.context - 1 + len(verify.order), record.kv.get(TARGET), committed),
            *(Cache(model, known.get(model), None, record.kv.get(model), committed) for model in drafters)]


def checks(record: Round, after: Round | None, header: Header) -> list[Check]:
    """The invariants of a round; `after` is the next one, None where there is none."""
    seen = attention(record)
    return [_numbering(record), _siblings(record), _mask(seen, record), _positions(seen),
            _target_cache(record), *_drafter_caches(record, header), _follows(record, after)]


def broken(run: Run) -> list[tuple[int, Check]]:
    """Every invariant that does not hold, with its round, over a whole run."""
    found, records = [], iter(run.records)
    record = next(records, None)
    while record is not None:
        after = next(records, None)
        found += [(record.index, check) for check in checks(record, after, run.header) if check.verdict == "broken"]
        record = after
    return found


def _numbering(record: Round) -> Check:
    parent = record.nodes.parent
    wrong = [node for node in range(1, len(parent)) if not 0 <= parent[node] < node]
    return _check("Every parent comes before its children", not wrong,
                  f"node {wrong[0]} has parent {parent[wrong[0]]}; {_wrong(wrong, len(parent) - 1)}" if wrong else
                  f"{len(parent)} nodes, the root is node 0")


def _siblings(record: Round) -> Check:
    seen: dict[tuple[int, int], int] = {}
    wrong = []
    for node, key in enumerate(zip(record.nodes.parent, record.nodes.token, strict=True)):
        if key in seen:
            wrong.append((seen[key], node))
        seen.setdefault(key, node)
    return _check("No two children of a node hold the same token", not wrong,
                  f"nodes {wrong[0][0]} and {wrong[0][1]} hold token {record.nodes.token[wrong[0][1]]} below node "
                  f"{record.nodes.parent[wrong[0][1]]}; {_wrong(wrong, len(record.nodes.token) - 1)}" if wrong else
                  f"{len(record.nodes.token) - 1} drafted nodes")


def _mask(seen: Attention, record: Round) -> Check:
    """Each row has as many columns as the node has ancestors in the tree, itself included, and none comes later."""
    sees = seen.mask.sum(1).tolist()
    whole = [lineage(record.nodes.parent, node)[-1] == 0 for node in seen.order]
    later = np.triu(seen.mask, 1).any(1).tolist()
    wrong = [row for row, depth in enumerate(seen.depth) if sees[row] != depth + 1 or not whole[row] or later[row]]
    name = "Every node attends to itself and its ancestors alone"
    if not wrong:
        return _check(name, True, f"{sum(sees)} of {len(sees) ** 2} places of the mask are open")
    row = wrong[0]
    why = ("an ancestor of it stands later in the order" if later[row] else "its ancestors do not lead to the root"
           if not whole[row] else f"{seen.depth[row] + 1 - sees[row]} of its ancestors were not sent to the target")
    return _check(name, False, f"node {seen.order[row]}: {why}; {_wrong(wrong, len(sees))}")


def _positions(seen: Attention) -> Check:
    levels, deepest = sorted(set(seen.depth)), max(seen.depth)
    missing = sorted(set(range(deepest + 1)) - set(levels))
    return _check("Positions go on from the context without a gap", not missing and seen.depth[0] == 0,
                  f"{seen.committed} (the root) to {seen.committed + deepest}: context - 1 + depth" if not missing
                  else f"no node at depth {missing[0]}, so position {seen.committed + missing[0]} is empty")


def _target_cache(record: Round) -> Check:
    name = "The target's KV cache holds all committed tokens but the next root"
    after, expected = record.kv.get(TARGET), record.context + len(ending(record)[1].path)
    if after is None:
        return Check(name, "unknown", f"expected {expected}; the recording does not say what it held")
    if after == expected:
        return _check(name, True, f"{after} = context {record.context} + {expected - record.context} accepted")
    return _check(name, False, f"{after}, expected {expected} = context {record.context} + "
                               f"{expected - record.context} accepted{_guess(record, after)}")


def _guess(record: Round, after: int) -> str:
    """What a wrong length of the target's cache points at."""
    verified = len(ending(record)[0].order)
    if after == record.context - 1 + verified:
        return "; that is the whole verified tree: rejected nodes were not taken out"
    if after == record.context:
        return "; it went on by one token: the accepted path was not kept"
    return ""


def _drafter_caches(record: Round, header: Header) -> list[Check]:
    """A drafter may be behind, as it reads what it lacks before it drafts; ahead, it holds tokens that are not true."""
    names = {drafter.id: drafter.name or drafter.kind for drafter in header.drafters}
    most = record.context + len(ending(record)[1].path)
    return [_check(f"The KV cache of {names.get(model, f'drafter {model}')} holds committed tokens alone",
                   length <= most, f"{length}, at most {most}" + (
                       f"; {most - length} behind, to be read before it drafts again" if length < most else
                       "" if length == most else f": {length - most} more than were committed before the next root"))
            for model, length in sorted(record.kv.items()) if model != TARGET]


def _follows(record: Round, after: Round | None) -> Check:
    accept = ending(record)[1]
    context = record.context + len(accept.path) + 1
    name = "The next round goes on where this one ended"
    if after is None:
        return Check(name, "unknown", f"there is no next round; its context would be {context}, its root token "
                                      f"{accept.bonus}")
    return _check(name, (after.context, after.root) == (context, accept.bonus),
                  f"context {after.context}, expected {context} = {record.context} + {len(accept.path)} accepted + 1; "
                  f"root token {after.root}, bonus {accept.bonus}")


def _check(name: str, holds: bool, numbers: str) -> Check:
    return Check(name, "holds" if holds else "broken", numbers)


def _wrong(wrong: Sequence[object], total: int) -> str:
    return f"{len(wrong)} of {total} are wrong"
