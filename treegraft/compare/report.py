"""A comparison as tables for the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.text import Text

from treegraft.analysis.text import visible
from treegraft.compare.table import Comparison, Row, Session
from treegraft.view.export import harmless
from treegraft.view.grids import Grid, figures, plain
from treegraft.view.tables import number, percent

JSON, CSV, MARKDOWN = "table.json", "table.csv", "table.md"
PHASES = ("draft", "verify", "accept", "commit", "other")
MOST_DIFFERENCES = 20
"""Texts that differ which a table names; all are in the JSON."""

LARGEST_RESULT = 4 << 20
"""Bytes of a result that is read: a result may come from anyone."""

MOST_POLICIES, MOST_CATEGORIES, MOST_PARTS = 200, 100, 40
"""In a result that can be shown; parts are the drafters and the phases of one row."""

ALL, NONE = "(all)", "(none)"
"""What stands in place of a category for all prompts together, and for prompts without one."""


# --- tables ---------------------------------------------------------------------------------------------------------


def grids(comparison: Comparison) -> Iterator[Grid]:
    """All policies over all prompts; where the time goes; whose tokens were accepted; then by category."""
    rows = comparison.total
    yield main_grid("All prompts", rows)
    yield time_grid(rows)
    yield origin_grid(rows)
    for category in comparison.categories:
        yield short_grid(f"Category {category or NONE}", comparison.of_category(category))


COLUMNS = ("tau", "without bonus", "node yield", "draft forwards", "tokens/s", "x plain")


def numbers(row: Row) -> tuple[str, ...]:
    """The cells below `COLUMNS`."""
    return (number(row.tau), number(row.mean_accepted), percent(row.node_yield), number(row.draft_forwards),
            number(row.tokens_per_second, 1), figures(row.over_plain))


def main_grid(title: str, rows: Sequence[Row]) -> Grid:
    return Grid(
        title, ("policy", *COLUMNS, "x on the whole set", "same text", "near ties", "differ"),
        [(row.policy, *numbers(row), number(row.set_over_plain), str(row.same), str(row.near_ties), str(row.differing))
         for row in rows],
        ("tau: 1 + accepted tokens / rounds, the bonus token counted; without bonus: accepted tokens / rounds. node "
         "yield: accepted / verified nodes. draft forwards: forwards of all drafters a round.",
         "tokens/s: new tokens over time, reading the prompt included, recording left out. x plain: ratio of tokens/s "
         "to plain decoding of the same prompt by the same worker in the same job; median (quartiles) over the prompts."
         " x on the whole set: the same ratio of all prompts together.",
         "same text, near ties, differ: answers that equal those of plain decoding, differ first where the target's "
         "two best tokens are so close that rounding decides, and differ otherwise."))


def short_grid(title: str, rows: Sequence[Row]) -> Grid:
    return Grid(title, ("policy", "prompts", *COLUMNS, "differ"),
                [(row.policy, str(row.prompts), *numbers(row), str(row.differing)) for row in rows])


def time_grid(rows: Sequence[Row]) -> Grid:
    return Grid(
        "Milliseconds", ("policy", *PHASES, "a round", "prefill"),
        [(row.policy, *(number(row.phases.get(phase, 0), 1) for phase in PHASES), number(sum(row.phases.values()), 1),
          number(row.prefill, 1)) for row in rows],
        ("Means over all rounds; prefill: mean over the answers.",))


def origin_grid(rows: Sequence[Row]) -> Grid:
    names = list(dict.fromkeys(name for row in rows for name in row.origins))
    return Grid(
        "Accepted tokens by origin", ("policy", *names, "accepted"),
        [(row.policy, *(str(row.origins.get(name, 0)) for name in names), str(sum(row.origins.values())))
         for row in rows],
        ("By the drafter that alone proposed them; both: several drafters did.",))


# --- how it was measured --------------------------------------------------------------------------------------------


def conditions(comparison: Comparison) -> list[str]:
    """The models, the prompts and the machines, a line each, then what makes the numbers doubtful."""
    setup = comparison.setup
    dates = setup.first_date if setup.first_date == setup.last_date else f"{setup.first_date} to {setup.last_date}"
    lines = [
        f"{setup.target} ({setup.parameters / 1e6:.1f} M parameters), {setup.dtype} on {setup.device}; {dates}",
        f"prompts: {setup.prompts} ({setup.turns} turns, {setup.prompt_tokens} tokens), new tokens: up to "
        f"{setup.max_new_tokens} each, greedy, batch size 1; plain decoding and the policies alternating on each "
        "prompt, warm-up dropped",
        *(f"decoded on {host}" for host in setup.hosts), *dict.fromkeys(map(session_line, setup.sessions))]
    lines += dict.fromkeys(busy_line(session) for session in setup.sessions if session.busy)
    if setup.left_out:
        lines.append(f"left out, as they cannot be asked: {len(setup.left_out)} prompts "
                     f"({', '.join(setup.left_out[:MOST_DIFFERENCES])})")
    return lines


def session_line(session: Session) -> str:
    machine = session.machine
    return (f"started on {session.date} from {machine['cpu']}, {machine['system']}, cores: {machine['cores']}; engine "
            f"{session.engine}, workers: {session.workers or 'as many as the cluster takes'}; Python "
            f"{machine['python']}, torch {machine['torch']}, transformers {machine['transformers']}, treegraft "
            f"{machine['treegraft']}")


def busy_line(session: Session) -> str:
    return (f"The machine was busy on {session.date}: load {session.machine['load']:.1f} on {session.machine['cores']} "
            "cores before the start. Ratios to plain decoding are fair all the same, tokens/s are too low.")


def difference_lines(comparison: Comparison) -> list[str]:
    """The texts that rounding does not explain, and what that means."""
    found = [one for one in comparison.differences if not one.near_tie]
    lines = [f"{one.policy} differs from plain decoding on prompt {one.id}, turn {one.turn + 1}, from new token "
             f"{one.place} on; margin of the target there: {number(one.margin, 3)} nats" for one in found]
    more = len(lines) - MOST_DIFFERENCES
    return lines[:MOST_DIFFERENCES] + ([f"and {more} more, see {JSON}"] if more > 0 else [])


# --- forms ----------------------------------------------------------------------------------------------------------


def on_terminal(comparison: Comparison) -> Iterator[RenderableType]:
    """What the command prints."""
    for line in conditions(comparison):
        yield Text(visible(line))
    for grid in grids(comparison):
        yield ""
        yield from grid.on_terminal()
    for line in difference_lines(comparison):
        yield Text(visible(line), "bold red")


def as_markdown(comparison: Comparison) -> str:
    """The comparison as a piece of a Markdown document."""
    parts = ["\n".join(f"- {plain(line)}" for line in lines)
             for lines in (conditions(comparison), difference_lines(comparison)) if lines]
    return "\n\n".join([parts[0], *(grid.as_markdown() for grid in grids(comparison)), *parts[1:]]) + "\n"


def as_csv(comparison: Comparison) -> str:
    """A line for each policy and category, that of all prompts first."""
    out = io.StringIO()
    records = list(map(flat, comparison.rows))
    columns = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.DictWriter(out, columns, restval=0, lineterminator="\n")
    writer.writerow({name: harmless(name) for name in columns})
    writer.writerows({name: harmless(value) for name, value in record.items()} for record in records)
    return out.getvalue()


def flat(row: Row) -> dict[str, Any]:
    """A row with one value a column; what has no value is None."""
    ratio = row.over_plain
    return {
        "policy": row.policy, "category": ALL if row.category is None else row.category or NONE,
        "prompts": row.prompts, "turns": row.turns, "rounds": row.rounds, "tokens": row.tokens, "tau": row.tau,
        "mean_accepted": row.mean_accepted, "node_yield": row.node_yield, "draft_forwards": row.draft_forwards,
        "tokens_per_second": row.tokens_per_second, "over_plain_median": ratio and ratio.median,
        "over_plain_low": ratio and ratio.low, "over_plain_high": ratio and ratio.high,
        "set_over_plain": row.set_over_plain, "same": row.same, "near_ties": row.near_ties,
        "differing": row.differing, "prefill_ms": row.prefill,
        **{f"{phase}_ms": row.phases.get(phase, 0.0) for phase in PHASES},
        **{f"forwards of {name}": value for name, value in row.forwards.items()},
        **{f"accepted from {name}": value for name, value in row.origins.items()}}


def as_json(comparison: Comparison) -> bytes:
    return msgspec.json.format(msgspec.json.encode(comparison)) + b"\n"


def read_comparison(folder: str | Path) -> Comparison:
    """The result of a finished comparison, from its folder.

    Errors: `ValueError` for a folder without one, and for a result that is damaged or too large to be shown.
    """
    path = Path(folder, JSON)
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_RESULT + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ValueError(f"{path}: {reason}; `treegraft compare --out {folder}` writes it.") from None
    if len(content) > LARGEST_RESULT:
        raise ValueError(f"{path} is larger than {LARGEST_RESULT >> 20} MiB, which no result is; give another folder.")
    try:
        comparison = msgspec.json.decode(content, type=Comparison)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path} is damaged ({error}); run the comparison again, its traces are kept.") from None
    check_result(comparison, path)
    return comparison


def check_result(comparison: Comparison, path: Path) -> None:
    """Whether a result has rows, and not too many of them. Errors: `ValueError`."""
    rows = comparison.total
    parts = max((len(part) for row in comparison.rows for part in (row.origins, row.phases, row.forwards)), default=0)
    policies = [row.policy for row in rows]
    if not rows:
        raise ValueError(f"{path} holds no policies; run the comparison again, its traces are kept.")
    if len(set(policies)) < len(policies):
        raise ValueError(f"{path} holds a policy twice; run the comparison again, its traces are kept.")
    for count, most, what in ((len(rows), MOST_POLICIES, "policies"), (parts, MOST_PARTS, "drafters or phases"),
                              (len(comparison.categories), MOST_CATEGORIES, "categories")):
        if count > most:
            raise ValueError(f"{path} holds {count} {what}; at most {most} can be shown. Compare fewer at once.")
