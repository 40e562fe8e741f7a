"""What the command line prints of Graft's ledger."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from treegraft.analysis.ledger import Ledger
from treegraft.view.tables import add_row, number, percent, table

COLUMNS = ("stopped", "A dense", "A base", "A pruned", "A grafted", "regret", "gain", "gain needed", "pays")


def ledger_table(ledgers: Sequence[Ledger], unit: str) -> Table:
    """One row a run, and one for all; a row is a mean over rounds, or over positions (`unit`).

    The gain needed is estimated from the measured cost curves.
    """
    made = table("Ledger", "run", unit, *COLUMNS)
    for name, book in enumerate(ledgers):
        ledger_row(made, str(name), book)
    if len(ledgers) > 1:
        ledger_row(made, "all", Ledger([entry for book in ledgers for entry in book.entries]))
    return made


def ledger_row(made: Table, name: str, book: Ledger) -> None:
    lengths = (number(book.mean(column)) for column in ("dense", "base", "pruned", "grafted"))
    stopped = sum(bool(entry.stage) for entry in book.entries) / len(book.entries)
    pays = {True: "yes", False: "no", None: "-"}[book.pays]
    add_row(made, name, len(book.entries), percent(stopped), *lengths, number(book.regret), number(book.gain),
            number(book.needed_gain), pays)
