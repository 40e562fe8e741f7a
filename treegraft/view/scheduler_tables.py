"""What the command line prints on a scheduler: how its decisions compare with the oracle's on held-out prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from treegraft.analysis.text import visible
from treegraft.scheduler.endpoints import Speed, gain
from treegraft.scheduler.report import Report
from treegraft.view.tables import add_row, number, percent, table

NOTES = (
    "agreement: decisions that are the oracle's, who knows what a call saves. of ms at stake: the same, every decision "
    "weighted by the milliseconds that it decides on.",
    "regret: milliseconds that a decision loses against the oracle's, averaged over all states, each counted once.",
    "calibration: states by predicted margin, in groups of equal size; a calibrated scheduler has equal columns.",
)


def scheduler_report(report: Report) -> Iterator[RenderableType]:
    """The tables of a report, and what their columns mean."""
    yield Text(visible(f"{report.name}: {report.overall.states} decisions on {report.prompts} held-out prompts, called "
                       f"where the margin is above {report.threshold:g} ms"), "bold")
    yield _decisions(report)
    yield _regret(report)
    yield _calibration(report)
    for note in NOTES:
        yield Text(note, "dim")


def _decisions(report: Report) -> Table:
    made = table("Decisions", "layer", "states", "agreement", "of ms at stake", "calls", "oracle's calls")
    for row in (*report.layers, report.overall):
        add_row(made, "all" if row.layer is None else row.layer, row.states, percent(row.agreement),
                percent(row.share), percent(row.calls), percent(row.oracle_calls))
    return made


def _regret(report: Report) -> Table:
    made = table("Regret", "schedule", "ms a decision", "of ms at stake")
    regret = report.regret
    for name, lost in (("scheduler", regret.scheduler), ("always", regret.always), ("never", regret.never)):
        add_row(made, name, number(lost, 3), percent(regret.share(lost)))
    return made


def _calibration(report: Report) -> Table:
    made = table("Calibration of the margin", "group", "states", "predicted ms", "actual ms")
    for place, group in enumerate(report.calibration, 1):
        add_row(made, place, group.states, number(group.predicted), number(group.actual))
    return made


def speed_table(speeds: Mapping[str, Sequence[Speed]]) -> Table:
    """Estimated speeds of the schedules on held-out prompts, by category, against the better of never and always."""
    made = table("Tokens/s on held-out prompts (estimated from measured forwards)", "prompts", "schedule", "tokens/s",
                 "tau", "calls a round", "over the better endpoint")
    for group, rows in speeds.items():
        for row in rows:
            add_row(made, group if row is rows[0] else "", row.name, f"{row.tokens_per_second:.1f}", f"{row.tau:.2f}",
                    f"{row.calls:.2f}", f"{gain(rows, row.name):+.1%}")
    return made
