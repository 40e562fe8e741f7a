"""The list of prompts for a talk: edited here, and stepped through while runs are on the screen. It lasts as long as
the session."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app_pages.record.prompt import examples
from app_pages.record.start import begin
from app_pages.record.words import one_line, plain
from treegraft.live import Request, with_prompt
from treegraft.playlist import FILE_MEGABYTES, MOST_PROMPTS, opening_list, read_list
from treegraft.prompts import Prompt, PromptError
from treegraft.public import shown

LABEL_LENGTH = 140


def listed() -> list[Prompt]:
    if "playlist" not in st.session_state:
        st.session_state.playlist = opening_list()
    return st.session_state.playlist


def title(prompt: Prompt) -> str:
    return one_line(prompt.turns[0], LABEL_LENGTH)


def edit_list(prompt: str) -> None:
    """What is in the list, and what may be added to it. `prompt` is what the user has written."""
    with st.expander(f"Prompt list for a talk: {len(listed())} prompts", icon=":material/format_list_numbered:",
                     key="prompt list"):
        if listed():
            st.dataframe(pd.DataFrame({"prompt": [title(one) for one in listed()]}), height=220, hide_index=True,
                         alt="The prompts of the list, in order")
        else:
            st.caption("The list is empty. Add a prompt or examples, or drop a file in.")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            st.button("Add the prompt above", on_click=add, args=([as_listed(prompt)],), disabled=not prompt.strip())
            st.button("Empty the list", on_click=put, args=([],), disabled=not listed())
            st.selectbox("Add examples", sorted({one.category for one in examples().values()}), None, width=240,
                         key="listed category", format_func=str.capitalize, on_change=add_category,
                         placeholder="Add examples", label_visibility="collapsed")
        st.file_uploader("Replace it by a file: .txt with a prompt on each line, .json or .jsonl",
                         type=["txt", "json", "jsonl"], key="playlist file", on_change=take_file,
                         max_upload_size=FILE_MEGABYTES)
        if problem := st.session_state.pop("playlist problem", ""):
            st.error(plain(problem))


def as_listed(text: str) -> Prompt:
    """The prompt with this text; an example brings what goes before it."""
    return next((one for one in examples().values() if one.turns[0] == text), Prompt(id="own", turns=(text,)))


def put(prompts: list[Prompt]) -> None:
    st.session_state.playlist, st.session_state.listed_place = prompts[:MOST_PROMPTS], None


def add(prompts: list[Prompt]) -> None:
    st.session_state.playlist = [*listed(), *prompts][:MOST_PROMPTS]


def add_category() -> None:
    """Add the examples of the chosen category that are not in the list yet."""
    category, st.session_state["listed category"] = st.session_state["listed category"], None
    add([one for one in examples().values() if one.category == category and one not in listed()])


def take_file() -> None:
    if file := st.session_state["playlist file"]:
        try:
            put(read_list(file.name, file.getvalue()))
        except PromptError as error:
            st.session_state["playlist problem"] = shown(str(error))


def step_buttons(request: Request | None, busy: bool = False) -> None:
    """The previous and the next prompt of the list; either starts at once, with the settings of `request`."""
    place, count = st.session_state.get("listed_place"), len(listed())
    following = 0 if place is None else place + 1
    back = place is not None and place > 0
    if st.button("Previous prompt", icon=":material/skip_previous:", shortcut="p", disabled=busy or not back):
        begin_listed(request, place - 1)
    if st.button("Next prompt", icon=":material/skip_next:", shortcut="n", disabled=busy or following >= count,
                 help=f"{min(following + 1, count)} of {count} in the prompt list"):
        begin_listed(request, following)


def choose_listed(request: Request | None) -> None:
    """The list as buttons, each of which starts its prompt."""
    for place, prompt in enumerate(listed()):
        if st.button(plain(title(prompt)), key=f"listed {place}", width="stretch", disabled=request is None):
            begin_listed(request, place)


def begin_listed(request: Request | None, place: int) -> None:
    if request:
        st.session_state.listed_place = place
        begin(with_prompt(request, listed()[place]))
