"""The question at the end of a lesson, checked against the recording."""

from __future__ import annotations

import streamlit as st

from app_pages.learn.where import finish
from app_pages.record.words import plain
from app_pages.shared.glossary import text_with_terms
from app_pages.shared.look import emphasis
from treegraft.view.lessons import Lesson, Question
from treegraft.view.player import Place

GIVEN = "learn given"
"""The last answer that was checked, by lesson."""


def ask(lesson: Lesson, question: Question, place: Place | None) -> None:
    """The field for an answer, the button, and what was made of the answer that was checked, until it is changed."""
    given = st.session_state.setdefault(GIVEN, {})
    answer = _field(lesson, question, place)
    if st.button("Check", key=f"check {lesson.number}", type=emphasis(), disabled=answer is None):
        given[lesson.number] = answer
        if answer == question.answer:
            finish(lesson.number)
            st.rerun()
    if lesson.number not in given or answer not in (None, given[lesson.number]):
        return
    if given[lesson.number] == question.answer:
        st.success("Right", icon=":material/check:")
        text_with_terms(question.right)
    else:
        st.error("Not so", icon=":material/close:")
        text_with_terms(question.wrong)


def _field(lesson: Lesson, question: Question, place: Place | None) -> int | str | None:
    """The answer as it stands, None while there is none."""
    key = f"answer {lesson.number}"
    if question.kind == "number":
        return st.number_input("Your answer", min_value=0, value=None, step=1, key=key, placeholder="A whole number")
    if question.kind == "choice":
        return st.radio("Your answer", question.options, index=None, key=key, format_func=plain)
    if place is None or place.node in (None, 0) or place.round != question.spot.round:
        st.info("Click a node of the tree. With the keyboard: put the focus on the tree and press the arrow keys up"
                " and down.")
        return None
    st.caption("The bonus is chosen." if place.node == "bonus" else f"Node {place.node} is chosen.")
    return place.node
