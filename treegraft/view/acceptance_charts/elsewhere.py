"""The tables of numbers in other engines' words."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from treegraft.analysis.aliases import Alias, Value
from treegraft.view.acceptance_charts.say import percent
from treegraft.view.charts import Theme
from treegraft.view.palette import COLORS

SHARES = ("rate", "n-alpha")
"""Ends of names whose values are shares."""

STYLE = """<style>
.tg-words table {{ width: 100%; table-layout: fixed; border-collapse: collapse; font-size: 0.9rem; line-height: 1.45; }}
.tg-words :is(th, td) {{ padding: 0.45em 0.8em 0.45em 0; text-align: left; vertical-align: top; overflow-wrap: anywhere;
  border-bottom: 1px solid color-mix(in srgb, {quiet} 35%, transparent); }}
.tg-words thead th {{ font-weight: 400; color: {quiet}; }}
.tg-words tbody th {{ font-weight: 600; }}
.tg-words :is(th, td):nth-child(2) {{ width: 15%; }}
.tg-words :is(th, td):nth-child(4) {{ width: 14%; }}
.tg-words :is(th, td):last-child {{ width: 31%; padding-right: 0; }}
@media (max-width: 640px) {{
  .tg-words :is(table, tbody, tr, th, td) {{ display: block; }}
  .tg-words :is(th, td):nth-child(n) {{ width: auto; border: 0; padding: 0.1em 0; }}
  .tg-words thead {{ position: absolute; clip-path: inset(50%); height: 1px; overflow: hidden; }}
  .tg-words tbody tr {{ padding: 0.6em 0; border-bottom: 1px solid color-mix(in srgb, {quiet} 35%, transparent); }}
  .tg-words td::before {{ content: attr(data-name) ": "; color: {quiet}; }}
}}
</style>"""
"""On a phone each row becomes a list of its own: five columns would leave a word for each line."""


def tables(found: Iterable[Alias]) -> dict[str, list[dict[str, str]]]:
    """Rows by system."""
    made: dict[str, list[dict[str, str]]] = {}
    for alias in found:
        made.setdefault(alias.system, []).append({
            "Its name": alias.name, "Value here": shown(alias.value, alias.name.endswith(SHARES)),
            "It computes": alias.computed, "Ours": alias.like, "What differs": alias.differs or "Nothing."})
    return made


def table_html(rows: Sequence[Mapping[str, str]], theme: Theme) -> str:
    """Rows of `tables` as HTML. The roles say that it is a table where it is not laid out as one, too."""
    head = "".join(f'<th role="columnheader" scope="col">{html.escape(name)}</th>' for name in rows[0])
    body = "".join(f'<tr role="row">{"".join(map(_cell, range(len(row)), row.items()))}</tr>' for row in rows)
    return (STYLE.format(quiet=COLORS[theme]["neutral"]) + '<div class="tg-words"><table role="table">'
            f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table>'
            '</div>')


def _cell(place: int, item: tuple[str, str]) -> str:
    """A cell; the first one of a row names it."""
    name, value = map(html.escape, item)
    return (f'<td role="cell" data-name="{name}">{value}</td>' if place else
            f'<th role="rowheader" scope="row">{value}</th>')


def shown(value: Value, share: bool) -> str:
    """A value as text; a dash where its denominator is 0."""
    if isinstance(value, list):
        return ", ".join(shown(one, share) for one in value) or "-"
    if value is None or isinstance(value, int):
        return "-" if value is None else f"{value:,}"
    return percent(value, 1) if share else f"{value:.2f}"
