"""What the command line prints on what-ifs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from treegraft.analysis.sweep import Outcome
from treegraft.analysis.text import visible
from treegraft.view.tables import add_row, number, table


def sweep_table(outcomes: Sequence[Outcome]) -> Table:
    """What replays under several settings come to: counts are exact, times estimated."""
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.settings))
    made = table("What if", *(names or ["settings"]), "tau", "rounds", "nodes", "calls", "draft forwards",
                 "ms (estimated)", "tokens/s (estimated)")
    for outcome in outcomes:
        cells = [outcome.settings.get(name, "recorded") for name in names] or ["recorded"]
        if outcome.problem:
            add_row(made, *cells, f"not recorded: {visible(outcome.problem)}")
            continue
        counts = [outcome.total(name) for name in ("nodes", "calls", "draft_forwards")]
        times = [number(outcome.milliseconds, 0), number(outcome.tokens_per_second, 1)]
        add_row(made, *cells, number(outcome.tau, 3), outcome.rounds, *counts, *times)
    return made
