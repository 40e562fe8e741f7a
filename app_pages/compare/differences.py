"""Where runs differ: their texts, their numbers, their settings, their progress, and the rounds."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app_pages.compare.trees import Side, go
from app_pages.record.words import plain
from app_pages.shared.charts import chart, origin_badge
from app_pages.shared.look import theme
from treegraft.analysis.align import (
    Parting,
    Progress,
    branched,
    other_tokens,
    parting,
    progress,
    same_for,
    stretches,
    widest,
)
from treegraft.analysis.metrics import Summary, summary
from treegraft.trace import Run
from treegraft.view.compare_charts import growth_chart, growth_table
from treegraft.view.compare_tables import HELP, differing, numbers, settings, stretch_table
from treegraft.view.compare_words import VERDICTS, other_target, parting_lines

MOST_STRETCHES = 12


@st.cache_resource(max_entries=32, show_spinner=False)
def summary_of(_run: Run, key: str) -> Summary:
    return summary(_run)


@st.cache_resource(max_entries=32, show_spinner=False)
def progress_of(_run: Run, key: str) -> Progress:
    return progress(_run)


@st.cache_resource(max_entries=32, show_spinner=False)
def parting_of(_one: Run, _other: Run, keys: tuple[str, str]) -> Parting | None:
    return parting(_one, _other)


def heading(title: str) -> None:
    """A part's name, and where its numbers come from."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.subheader(title, width="content", anchor=False)
        origin_badge("measured")


def show_texts(sides: Sequence[Side]) -> None:
    """Where each text parts from the first one, and whether that is all right."""
    heading("Are the texts the same?")
    first, others = sides[0], sides[1:]
    for place, side in enumerate(others):
        found = parting_of(first.run, side.run, (first.opened.key, side.opened.key))
        branch = branched(first.run, side.run)
        if branch is not None:
            held, common = branch
            st.info(f"{plain(side.title)} is a branch of {plain(first.title)}: it goes its own way from position "
                    f"{common} on. Its prompt holds the first {held} tokens of the answer, so its position 0 is "
                    f"position {held} there.")
        elif side.run.header.prompt.tokens != first.run.header.prompt.tokens:
            st.warning(f"{plain(side.title)} answers another prompt: other texts are to be expected, and positions say "
                       "little.")
        elif other_tokens(first.run, side.run):
            st.warning(f"{plain(side.title)} and {plain(first.title)} name their tokens in another way: the same "
                       "numbers stand for other texts, so they are of targets that cannot be compared token by token.")
        elif found is None:
            st.success(f"{plain(side.title)}: the same text as {plain(first.title)}, all {len(first.written)} tokens."
                       + other_target(first.run, side.run))
        else:
            show_parting(found, (first, side), f"go to parting {place}")


def show_parting(found: Parting, sides: tuple[Side, Side], key: str) -> None:
    name, meaning = VERDICTS[found.verdict]
    look = st.error if found.verdict == "unexplained" else st.info
    look(f"**{plain(sides[1].title)} parts from {plain(sides[0].title)} at position {found.position}: "
         f"{name.lower()}.** {meaning}")
    st.text("\n".join(parting_lines(found, tuple(side.run for side in sides), tuple(side.title for side in sides))))
    st.button(f"Go to position {found.position}", key=key, on_click=go, args=(found.position,))


def show_numbers(sides: Sequence[Side]) -> None:
    heading("Numbers")
    titles = [side.title for side in sides]
    table = numbers([summary_of(side.run, side.opened.key) for side in sides], titles)
    formats = {"tau": "%.2f", "tokens/s": "%.2f", "against plain": "%.2f"}
    st.dataframe(table, hide_index=True, column_config={
        name: st.column_config.NumberColumn(help=text, format=formats.get(name)) for name, text in HELP.items()})
    if table["against plain"].isna().any():
        st.caption("No ratio where plain decoding was not measured together with the run, as `treegraft compare` does. "
                   "A recording of the same prompt with the policy plain, chosen above, shows its tokens/s here.")
    apart = differing([settings(side.run) for side in sides], titles)
    st.markdown("**Settings that differ**")
    if len(apart):
        st.dataframe(apart, hide_index=True)
    else:
        st.caption("None: these runs were made alike, so what differs is chance or the machine.")


def show_progress(sides: Sequence[Side]) -> None:
    heading("How the texts grew")
    titles = [side.title for side in sides]
    found = [progress_of(side.run, side.opened.key) for side in sides]
    table = growth_table(found, titles)
    left, right = st.columns(2)
    timed = [one for one in found if one.milliseconds]
    with left:
        if timed:
            fastest = min(zip(found, titles, strict=True), key=lambda pair: speed(pair[0]))[1]
            chart(growth_chart(found, titles, theme(), "milliseconds"), key="growth by time", table=table,
                  reading=f"{fastest} took the least time a token; reading the prompt is included.")
        else:
            st.caption("These recordings hold no times, so there is no chart against milliseconds.")
    with right:
        fewest = min(zip(found, titles, strict=True), key=lambda one: len(one[0].tokens) / max(one[0].tokens[-1], 1))
        chart(growth_chart(found, titles, theme(), "rounds"), key="growth by rounds", table=table,
              reading=f"{fewest[1]} needed the fewest rounds a token: {len(fewest[0].tokens) - 1} for "
                      f"{fewest[0].tokens[-1]} tokens.")


def speed(found: Progress) -> float:
    """Milliseconds a token; infinite where it is not known."""
    return found.milliseconds[-1] / max(found.tokens[-1], 1) if found.milliseconds else float("inf")


def show_stretches(sides: Sequence[Side]) -> None:
    """Where one run's round was accepted much further than another's."""
    heading("Where accepted lengths differ most")
    alike = [side for side in sides if same_for([sides[0].written, side.written]) > 1]
    left_out = [side.title for side in sides if side not in alike]
    if left_out:
        st.caption(f"Left out, as the text differs from the first one's from the start: {plain(', '.join(left_out))}.")
    found = widest(stretches([side.written for side in alike]), MOST_STRETCHES)
    if len(alike) > 1 and not found:
        st.caption("Nowhere: as long as the texts are the same, their rounds had equally many tokens accepted.")
    if not found:
        return
    st.dataframe(stretch_table(found, alike[0].run, [side.title for side in alike]), hide_index=True)

    def chosen() -> None:
        if (place := st.session_state["go to stretch"]) is not None:
            go(place)

    st.pills("Go to position", [one.start for one in found], key="go to stretch", on_change=chosen)

