"""Learn page: short lessons that lead through real recordings, and the glossary."""

from __future__ import annotations

import streamlit as st

from app_pages.learn.show import show
from app_pages.learn.where import LESSON, LIST, begin, choose, done
from app_pages.shared.glossary import glossary_button
from treegraft.view.lessons import Lesson, lessons


@st.cache_resource
def all_lessons() -> list[Lesson]:
    return lessons()


def choose_lesson(found: list[Lesson]) -> None:
    """The list of lessons, how many are done, and the glossary."""
    titles = {one.number: f"{one.number}. {one.title}" + " (done)" * (one.number in done()) for one in found}
    st.session_state[LIST] = st.session_state[LESSON]
    with st.container(horizontal=True, vertical_alignment="center"):
        st.selectbox("Lesson", list(titles), format_func=titles.__getitem__, key=LIST, on_change=choose,
                     label_visibility="collapsed", width=420)
        glossary_button()
        st.caption(f"{len(done())} of {len(found)} lessons done", width="content")


found = all_lessons()
begin(found)
choose_lesson(found)
show(found)
