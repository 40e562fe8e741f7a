"""Which lesson is open and which step of each; kept for the session, and in the address."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from treegraft.view.lessons import Lesson

LESSON = "learn lesson"
LIST = "learn list"
STEPS = "learn steps"
DONE = "learn done"
LINKED = "learn linked"
WISH = "learn wish"
CHANGED = "learn changed"
"""The open lesson or the finished ones have changed, so that the list of lessons must be drawn anew."""


def begin(lessons: Sequence[Lesson]) -> None:
    """Start at the place that the address names when one comes to the page, else where one has left."""
    state = st.session_state
    for key, empty in ((STEPS, {}), (DONE, set()), (LESSON, 1), (WISH, 0)):
        state.setdefault(key, empty)
    linked = st.query_params.get("lesson"), st.query_params.get("step")
    if linked[0] and linked != state.get(LINKED):
        state[LESSON] = _number(linked[0], len(lessons))
        state[STEPS][state[LESSON]] = _number(linked[1] or "1", places(lessons[state[LESSON] - 1]))


def put_in_address() -> None:
    """The address names the open step."""
    place = str(st.session_state[LESSON]), str(step_of(st.session_state[LESSON]))
    st.query_params["lesson"], st.query_params["step"] = place
    st.session_state[LINKED] = place


def _number(text: str, last: int) -> int:
    return min(max(int(text), 1), last) if text.isdecimal() and len(text) < 6 else 1


def places(lesson: Lesson) -> int:
    """Steps of a lesson, the question included."""
    return len(lesson.steps) + 1


def step_of(lesson: int) -> int:
    """The step of a lesson that is open or was left, from 1."""
    return st.session_state[STEPS].get(lesson, 1)


def go(lesson: int, step: int) -> None:
    """Open a step; the player goes there."""
    state = st.session_state
    state[CHANGED] = lesson != state[LESSON]
    state[LESSON] = lesson
    state[STEPS][lesson] = step
    state[WISH] += 1


def choose() -> None:
    """Open the lesson that was chosen in the list, at the step where it was left."""
    number = st.session_state[LIST]
    go(number, step_of(number))


def finish(lesson: int) -> None:
    """The question of a lesson was answered."""
    done().add(lesson)
    st.session_state[CHANGED] = True


def done() -> set[int]:
    """The lessons whose question was answered."""
    return st.session_state[DONE]
