"""The Scheduler page's value tree: what every call and skip is worth at one output position."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app_pages.scheduler.missing import lacking
from app_pages.scheduler.valued import Valued, valued
from app_pages.shared.charts import chart, origin_badge
from app_pages.shared.glossary import explain
from app_pages.shared.look import theme
from app_pages.shared.recording import Opened
from treegraft.analysis.decisions import Decision
from treegraft.analysis.regret import position
from treegraft.view.scheduler_words import around
from treegraft.view.value_tree import MOST_ENDS, reading, state_rows, value_tree


def value_part(opened: Opened, found: Sequence[Decision]) -> None:
    """The value tree of a position that is chosen."""
    known = valued(opened)
    if known.values is None:
        lacking(known.problem)
    elif known.values.places == 0:
        st.text("The text has one token, which the prompt's reading chose: there was nothing to decide.")
    else:
        one_position(opened, known)


def one_position(opened: Opened, known: Valued) -> None:
    place = choose(opened, known.values.places)
    with known.lock:
        here = position(known.values, place)
    st.text(around(opened.run, place))
    origin_badge("estimated")
    said = reading(here)
    if len(here.ends) > MOST_ENDS:
        st.text(said)
        st.dataframe(pd.DataFrame(state_rows(here)), hide_index=True)
        return
    chart(value_tree(here, theme()), key=f"value tree of {opened.key}", reading=said,
          table=pd.DataFrame(state_rows(here)))
    explain("From left to right: what was decided so far, a call above and a skip below. The number at a state is what "
            "a call saves there, in milliseconds to the end of the text, if all later decisions are the best ones; the "
            "number at an end is the tokens that the round brings. Times come from the measured cost of each forward.")


def choose(opened: Opened, places: int) -> int:
    """The output position, by a slider; round starts are marked in its name."""
    starts = {record.context - len(opened.run.header.prompt.tokens) - 1: number
              for number, record in enumerate(opened.run.records)}
    key = f"value position of {opened.key}"
    place = st.slider("Output position", 0, places - 1, key=key, width=420,
                      help="Tokens of the output before the one that the round drafts first, less one: 0 is behind the "
                           "first token.") if places > 1 else 0
    st.caption(f"Round {starts[place]} of the run began here." if place in starts else
               "No round of the run began here; the policy's choice is replayed.")
    return place
