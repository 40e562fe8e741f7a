"""Tables of numbers that go to the terminal and into Markdown alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import RenderableType
from rich.text import Text

from treegraft.analysis.spread import Spread
from treegraft.analysis.text import visible
from treegraft.view.tables import add_row, table


@dataclass(frozen=True)
class Grid:
    """A table before it takes a form: the first column is text, the others are numbers; `notes` explain the columns."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def on_terminal(self) -> Iterator[RenderableType]:
        """The table, then its notes."""
        made = table(self.title, *map(visible, self.columns))
        for row in self.rows:
            add_row(made, *(visible(cell) for cell in row))
        yield made
        for note in self.notes:
            yield Text(note, "dim")

    def as_markdown(self) -> str:
        """The table under a heading, then its notes."""
        rule = ("---", *["---:"] * (len(self.columns) - 1))
        body = "\n".join(f"| {' | '.join(map(plain, row))} |" for row in (self.columns, rule, *self.rows))
        notes = "\n".join(f"- {note}" for note in self.notes)
        return "\n\n".join(filter(None, (f"### {plain(self.title)}", body, notes)))


def plain(text: str) -> str:
    """Text that Markdown shows as it is; names may be anybody's."""
    return visible(text).replace("|", "\\|").replace("<", "&lt;")


def figures(values: Spread | None, digits: int = 2) -> str:
    """Median (quartiles)."""
    return f"{values.median:.{digits}f} ({values.low:.{digits}f} to {values.high:.{digits}f})" if values else "-"
