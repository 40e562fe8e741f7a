"""What target and drafter say at a node, beside what the tree holds, as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treegraft.branch import BONUS, Choice
from treegraft.trace.runs import TracedRound
from treegraft.view.labels import label
from treegraft.view.words import chance, prob


def choice_table(round: TracedRound, node: int | str, choices: Sequence[Choice], drafter: str) -> list[dict[str, Any]]:
    """One row a token, the target's favourite first; ranks start at 1, an empty one is beyond the best."""
    nodes = round.record.nodes
    children = {} if node == BONUS else {nodes.token[child]: child for child in range(1, len(nodes.token))
                                         if nodes.parent[child] == node}
    rows = []
    for choice in choices:
        child = children.get(choice.token)
        rows.append({
            "token": label(choice.piece), "id": choice.token, "p of the target": chance(choice.target),
            "rank": choice.target_rank + 1,
            f"p of {drafter}": chance(choice.drafter) if choice.reachable else None,
            f"rank of {drafter}": _rank(choice),
            "in the tree": "no" if child is None else f"node {child}, {round.fates[child]}"})
    return rows


def _rank(choice: Choice) -> str:
    if not choice.reachable:
        return "cannot propose it"
    return "" if choice.drafter_rank is None else str(choice.drafter_rank + 1)


def choice_title(token: int, piece: bytes | None, choice: Choice | None) -> str:
    """A token to choose: its text, id, and what the target gives it where that was asked."""
    asked = f", target\u2019s p {prob(choice.target)}" if choice else ""
    return f"{label(piece)} (#{token}{asked})"
