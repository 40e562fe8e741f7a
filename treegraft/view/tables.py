"""What the command line prints as tables: statistics, policies and drafters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from treegraft.analysis.metrics import DEFINITIONS, Summary
from treegraft.analysis.text import visible
from treegraft.settings import Setting
from treegraft.trace.reader import Run
from treegraft.trace.records import DrafterInfo
from treegraft.view.acceptance import decoding_line, rule_view

BAR = 30
"""Columns of the longest bar of a histogram."""


def table(title: str, *columns: str) -> Table:
    """An empty table: the first column is text, the others are numbers."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        made.add_column(column, justify="left" if place == 0 else "right")
    return made


def text_table(*columns: str) -> Table:
    """An empty table of texts, of which the last may wrap."""
    made = Table(header_style="dim", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, no_wrap=column != columns[-1])
    return made


def add_row(made: Table, *cells: object) -> None:
    """Add a row of plain texts, in which brackets are no markup."""
    made.add_row(*(Text(str(cell)) for cell in cells))


def statistics(total: Summary, groups: Mapping[str, Summary]) -> Iterator[RenderableType]:
    """The tables of `treegraft stats`: acceptance by group, then by depth, the histogram, drafters, and time."""
    yield _acceptance(total, groups)
    if total.rounds:
        yield _depths(total)
        yield _histogram(total)
    if total.origins:
        yield _origins(total)
    yield _phases(total)
    if total.models:
        yield _models(total)
    yield _status(total)


def run_title(run: Run) -> Text:
    """One line on how a run was made."""
    header = run.header
    settings = " ".join(f"{name}={value}" for name, value in header.policy.settings.items())
    drafters = ", ".join(drafter_title(drafter, header.target.vocab_size) for drafter in header.drafters)
    return Text(visible(f"{header.target.name} ({header.target.dtype} on {header.target.device}), {header.policy.name} "
                        f"{settings}, {drafters or 'no drafter'}; {decoding_line(header.decoding)}"), "bold")


def drafter_title(drafter: DrafterInfo, vocab_size: int) -> str:
    """A drafter's name, and where it cannot propose all of the target's tokens, how many it can."""
    if drafter.proposes is None or drafter.proposes >= vocab_size:
        return drafter.name
    return f"{drafter.name} (proposes {drafter.proposes:,} of {vocab_size:,} tokens)"


def settings_table(settings: Iterable[Setting]) -> Table:
    """Settings with their defaults, allowed values and help."""
    made = text_table("  setting", "default", "allowed", "help")
    for item in settings:
        default = "(empty)" if item.default == "" else item.default
        add_row(made, f"  {item.name}", default, item.allowed, item.help)
    return made


def definitions() -> Table:
    """What each number means."""
    made = table("Definitions", "number", "")
    made.columns[1].justify = "left"
    for name, meaning in DEFINITIONS.items():
        made.add_row(Text(name, "bold"), Text(meaning))
    return made


def number(value: float | None, digits: int = 2) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _acceptance(total: Summary, groups: Mapping[str, Summary]) -> Table:
    expects = ["expected"] if total.expected is not None else []
    made = table("Acceptance and speed", "group", "runs", "rounds", "tokens", "tau", "mean accepted", *expects,
                 "node yield", "rejected rounds", "tokens/s", "speedup")
    named = list(groups.items()) if len(groups) > 1 else []
    for group, counts in [*named, ("all", total)]:
        add_row(made, visible(group) or "(none)", counts.runs, counts.rounds, counts.tokens,
                     number(counts.tau), number(counts.mean_accepted), *[number(counts.expected)] * len(expects),
                     percent(counts.node_yield), counts.rejected_rounds,
                     number(counts.speed.tokens_per_second, 1), number(counts.speedup))
    return made


def _depths(total: Summary) -> Table:
    made = table("Acceptance by depth", "depth", "accepted", "marginal", "of rounds", "conditional", "of reached",
                 "proposed")
    for row in total.depths:
        add_row(made, row.depth, row.accepted, percent(row.marginal), row.rounds, percent(row.conditional),
                     row.reached, row.proposed)
    return made


def _histogram(total: Summary) -> Table:
    made = table("Rounds by accepted tokens", "accepted", "rounds", "share")
    made.add_column("")
    for accepted, rounds in enumerate(total.histogram):
        bar = "█" * round(BAR * rounds / max(total.histogram))
        add_row(made, accepted, rounds, percent(rounds / total.rounds), bar)
    return made


def _origins(total: Summary) -> Table:
    made = table("Nodes by origin", "drafter", "drafted", "verified", "accepted", "of accepted")
    for origin in total.origins:
        share = origin.accepted / total.accepted if total.accepted else None
        add_row(made, visible(origin.name), origin.grown, origin.verified, origin.accepted, percent(share))
    return made


def _phases(total: Summary) -> Table:
    made = table("Time by phase", "phase", "ms", "share")
    whole = sum(total.phases.values())
    for name, time in total.phases.items():
        add_row(made, visible(name), number(time / 1000, 1), percent(time / whole))
    return made


def _models(total: Summary) -> Table:
    made = table("Forwards in rounds", "model", "forwards", "tokens", "ms", "ms a forward")
    for model in total.models:
        add_row(made, visible(model.name), model.forwards, model.tokens, number(model.microseconds / 1000, 1),
                     number(model.microseconds / 1000 / model.forwards, 1))
    return made


def _status(total: Summary) -> Text:
    counted = (("Status", total.statuses), ("Ended by", total.reasons), ("Notes", total.notes))
    lines = [_rule(rule, rounds) for rule, rounds in total.rules.items()]
    if total.expected is not None:
        lines.append(Text("Expected: mean accepted length, computed from the recorded probabilities."))
    lines += [Text(f"{title}: " + "; ".join(f"{visible(text)} ({count})" for text, count in counts.items()))
             for title, counts in counted if counts]
    lines += [Text(f"This trace contradicts itself: {visible(problem)}.", "bold red") for problem in total.broken]
    return Text("\n").join(lines)


def _rule(rule: str, rounds: int) -> Text:
    """A rule with its meaning, and whether it is lossy."""
    view = rule_view(rule)
    meaning = f": {view['help']}" if view["help"] else ""
    line = Text(f"Rule: {view['name']} ({rounds} round{'s' * (rounds != 1)}){meaning}")
    return line.append(f". {view['lossy'].capitalize()}", "bold yellow") if view["lossy"] else line
