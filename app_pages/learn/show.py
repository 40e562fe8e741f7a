"""A lesson beside the recording that it is about."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

import treegraft
from app_pages.learn.question import ask
from app_pages.learn.where import CHANGED, LESSON, WISH, done, go, places, put_in_address, step_of
from app_pages.record.words import plain
from app_pages.shared.charts import origin_badge
from app_pages.shared.glossary import text_with_terms
from app_pages.shared.look import emphasis
from app_pages.shared.recording import TREE_PAGE, go_to
from treegraft.trace import Run, TraceError
from treegraft.view import library
from treegraft.view.lesson_places import LessonError
from treegraft.view.lessons import Lesson, Question, Step, filled
from treegraft.view.model import WINDOW_ROUNDS, run_view
from treegraft.view.player import Place, player


@st.cache_resource(max_entries=16, show_spinner="Opening the recording …")
def demo(name: str) -> Run:
    """A bundled recording. Errors: `LessonError` where it is not there."""
    path = library.DEMOS / f"{name}.jsonl.zst"
    if not path.is_file():
        raise LessonError(f"the recording “{name}” that it is about is not among the bundled ones.")
    return treegraft.open(path).runs[0]


@st.cache_resource(max_entries=16, show_spinner="Reading the lesson …")
def read(_lesson: Lesson, number: int) -> tuple[list[Step], Question]:
    return filled(_lesson, demo)


@st.cache_resource(max_entries=16, show_spinner="Drawing the trees …")
def view_of(recording: str, first: int) -> dict:
    return run_view(demo(recording), first)


@st.fragment
def show(lessons: Sequence[Lesson]) -> None:
    """The open step, its buttons and the player; only this part runs again while one goes along."""
    if st.session_state.pop(CHANGED, False):
        st.rerun()
    lesson = lessons[st.session_state[LESSON] - 1]
    try:
        steps, question = read(lesson, lesson.number)
        put_in_address()
        show_step(lessons, lesson, [*steps, question][step_of(lesson.number) - 1])
    except LessonError as error:
        st.info(plain(f"This lesson cannot be shown: {error} Choose another lesson, or install treegraft again."))
    except TraceError as error:
        st.error(plain(f"The recording of this lesson cannot be read: {error}"))


def show_step(lessons: Sequence[Lesson], lesson: Lesson, step: Step) -> None:
    """Text and buttons beside the player, above it on a phone."""
    number = step_of(lesson.number)
    text, tree = st.columns([2, 3], gap="large")
    with tree:
        place = show_tree(step, f"{lesson.number}/{number}/{st.session_state[WISH]}")
    with text:
        st.caption(f"Step {number} of {places(lesson)}")
        st.subheader(step.title, anchor=False)
        text_with_terms(step.text)
        if isinstance(step, Question):
            ask(lesson, step, place)
        buttons(lessons, lesson, step)
        with st.container(horizontal=True, vertical_alignment="center"):
            origin_badge("measured")
            st.caption(f"Numbers and tokens come from the bundled recording “{library.title_of(step.recording)}”.")


def show_tree(step: Step, wish: str) -> Place | None:
    """The player, led to the step's place whenever `wish` is a new one. Returns what the user chose, if that is
    asked."""
    long = len(demo(step.recording).rounds) > WINDOW_ROUNDS
    asks = isinstance(step, Question) and step.kind == "node"
    place = player(view_of(step.recording, max(step.spot.round - 8, 0) if long else 0), name=step.recording,
                   follow=asks, go=Place(*step.spot), wish=wish, compact=True, key="lesson player")
    return place if asks else None


def buttons(lessons: Sequence[Lesson], lesson: Lesson, step: Step) -> None:
    """Back, on, to the step's place again, and to the Tree page."""
    here, number = lesson.number, step_of(lesson.number)
    with st.container(horizontal=True):
        st.button("Back", icon=":material/arrow_back:", key="step back", disabled=number == 1, on_click=go,
                  args=(here, number - 1), shortcut="Left")
        if number < places(lesson):
            st.button("Next step", icon=":material/arrow_forward:", key="step on", type=emphasis(), on_click=go,
                      args=(here, number + 1), shortcut="Right")
        elif here < len(lessons):
            st.button("Next lesson", icon=":material/arrow_forward:", key="lesson on", on_click=go,
                      type=emphasis() if here in done() else "secondary", args=(here + 1, 1))
    with st.container(horizontal=True):
        st.button("Show this place again", icon=":material/my_location:", key="step again", type="tertiary",
                  on_click=go, args=(here, number))
        if st.button("Open in Tree", icon=":material/account_tree:", key="step tree", type="tertiary"):
            place = zip(("round", "event", "node"), step.spot, strict=True)
            go_to(TREE_PAGE, {"trace": step.recording} | {name: str(one) for name, one in place if one is not None})
