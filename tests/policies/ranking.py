"""A retriever whose rows are written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from treegraft.drafters.base import Committed, Prefilled, RankingDrafter
from treegraft.tree import DraftTree

WIDTH = 8


class ScriptedRows(RankingDrafter):
    """Knows `rows[token]`, the next tokens after a token, best first; other rows are empty. `asked` counts its rows."""

    name = "successors"

    def __init__(self, rows: Mapping[int, Sequence[int]], id: int = 1) -> None:
        self.id, self._rows, self.asked = id, rows, []

    def begin(self, prefilled: Prefilled, max_context: int, capacity: int) -> None:
        """It knows all from the start."""

    def commit(self, tree: DraftTree, committed: Committed) -> None:
        """It learns nothing."""

    def successors(self, tokens: np.ndarray) -> np.ndarray:
        self.asked.append(len(tokens))
        found = np.full((len(tokens), WIDTH), -1)
        for place, token in enumerate(tokens.tolist()):
            row = self._rows.get(token, ())
            found[place, : len(row)] = row
        return found


def after(*steps: int, tokens: int = 10) -> dict[int, list[int]]:
    """Rows that are a function of the token: what follows t is t + step, modulo `tokens`."""
    return {token: [(token + step) % tokens for step in steps] for token in range(tokens)}
