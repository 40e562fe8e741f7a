"""Results of `treegraft compare`: policies on many prompts, as tables and plots. The address holds which: `comparison`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import streamlit as st

from app_pages.shared.charts import chart, origin_badge
from app_pages.shared.look import theme
from treegraft.analysis.text import visible
from treegraft.compare.report import conditions, difference_lines, flat, read_comparison
from treegraft.compare.table import Comparison, Row
from treegraft.public import shown
from treegraft.sessions import is_public
from treegraft.view import compare_charts, compare_words
from treegraft.view.charts import Figure, Theme
from treegraft.view.comparisons import comparisons
from treegraft.view.library import title_of

KEY = "comparison"
ELSEWHERE = "A folder of my own …"
ALL = "All prompts"
SHOWN = ("policy", "prompts", "tau", "mean_accepted", "node_yield", "draft_forwards", "tokens_per_second",
         "over_plain_median", "over_plain_low", "over_plain_high", "same", "near_ties", "differing")
COLUMNS = {
    "policy": ("policy", "The policy as `treegraft compare` names it.", None),
    "tau": ("tau", "1 + accepted tokens / rounds, the bonus token counted.", "%.2f"),
    "mean_accepted": ("without bonus", "Accepted tokens / rounds.", "%.2f"),
    "node_yield": ("node yield", "Accepted / verified nodes.", "percent"),
    "draft_forwards": ("draft forwards", "Forwards of all drafters a round.", "%.2f"),
    "tokens_per_second": ("tokens/s", "New tokens over time, reading the prompt included.", "%.1f"),
    "over_plain_median": ("against plain", "Tokens/s, in times plain decoding of the same prompt; median.", "%.2f"),
    "over_plain_low": ("lower quartile", "Against plain, the lower quartile over the prompts.", "%.2f"),
    "over_plain_high": ("upper quartile", "Against plain, the upper quartile over the prompts.", "%.2f"),
    "same": ("same text", "Answers that equal those of plain decoding.", None),
    "near_ties": ("near ties", "Answers that differ where rounding decides.", None),
    "differing": ("differ", "Answers that differ otherwise.", None),
}


def show_many() -> None:
    """Choose a result and show it, or say what is wrong with it."""
    folder = choose_folder()
    if folder is None:
        return
    try:
        found = read(folder, changed(folder))
    except ValueError as error:
        st.error("This comparison cannot be shown:")
        st.text(visible(shown(str(error))))
        return
    show_result(found)


@st.cache_resource(max_entries=8, show_spinner="Reading the comparison …")
def read(folder: Path, changed: float) -> Comparison:
    return read_comparison(folder)


def changed(folder: Path) -> float:
    try:
        return (folder / "table.json").stat().st_mtime
    except (OSError, ValueError):
        return 0.0


def choose_folder() -> Path | None:
    """The folder of a result: a listed one, or (in private) one that the user types."""
    found = comparisons()
    names = [*found] if is_public() else [*found, ELSEWHERE]
    if st.query_params.get("comparison") in names:
        st.session_state.setdefault(KEY, st.query_params["comparison"])
    name = st.selectbox("Comparison", names, format_func=lambda name: name if name == ELSEWHERE else title_of(name),
                        key=KEY, width=420, persist_state="session",
                        help="Listed are the bundled one and the folders in `comparisons` below the treegraft home.")
    if name in found:
        st.query_params["comparison"] = name
        return found[name]
    typed = st.text_input("Folder that `treegraft compare --out` wrote", key="comparison folder") if name else ""
    if typed.strip():
        return Path(typed.strip()).expanduser()
    st.info("There is no comparison to show yet. Make one in a terminal, then give its folder here:\n\n"
            "`treegraft compare --out FOLDER`")
    return None


# --- one result -----------------------------------------------------------------------------------------------------


def show_result(found: Comparison) -> None:
    rows = choose_rows(found)
    origin_badge("measured")
    show_table(rows)
    with st.expander("How it was measured"):
        st.text("\n".join(map(visible, conditions(found))))
    show_differences(found)
    table = frame(rows)
    show_charts(found, rows, table)


def choose_rows(found: Comparison) -> list[Row]:
    if not found.categories:
        return found.total
    category = st.selectbox("Prompts", [None, *found.categories], key="comparison category", width=420,
                            format_func=lambda one: ALL if one is None else visible(one) or "(no category)")
    return found.total if category is None else found.of_category(category)


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    made = pd.DataFrame([flat(row) for row in rows]).reindex(columns=SHOWN)
    return made.assign(policy=[visible(row.policy) for row in rows])


def show_table(rows: Sequence[Row]) -> None:
    made = {name: st.column_config.NumberColumn(title, help=text, format=form)
            for name, (title, text, form) in COLUMNS.items() if name != "policy"}
    made["policy"] = st.column_config.TextColumn("policy", help=COLUMNS["policy"][1])
    st.dataframe(frame(rows), hide_index=True, column_config=made)


def show_differences(found: Comparison) -> None:
    if lines := difference_lines(found):
        st.warning("Texts that differ from plain decoding, and rounding does not explain it: a bug, or another model.")
        st.text("\n".join(map(visible, lines)))


def show_charts(found: Comparison, rows: Sequence[Row], table: pd.DataFrame) -> None:
    """Speed, tau and time by policy, then speed by category."""
    drawn = [row for row in rows if row.over_plain]
    if drawn:
        part("Against plain", compare_charts.speed_chart, rows, compare_words.speed_reading(drawn), table)
    drafted = [row for row in rows if row.tau]
    if drafted:
        best = max(drafted, key=lambda row: row.tau)
        part("Tokens a round", compare_charts.tau_chart, rows,
             f"{best.policy} adds most tokens a round: {best.tau:.2f}.", table)
    timed = [row for row in rows if row.phases]
    if timed:
        part("Time of a round", compare_charts.time_chart, rows, compare_words.time_reading(timed), table)
    if found.categories:
        st.subheader("Against plain, by category")
        chart(compare_charts.map_chart(found, theme()), key="comparison map", table=frame(found.rows),
              reading=compare_words.map_reading([row for row in found.rows if row.category is not None]))


def part(title: str, draw: Callable[[Sequence[Row], Theme], Figure], rows: Sequence[Row], reading: str,
         table: pd.DataFrame) -> None:
    st.subheader(title)
    chart(draw(rows, theme()), key=f"comparison {title}", reading=reading, table=table)
