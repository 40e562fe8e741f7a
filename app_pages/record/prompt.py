"""The prompt: a text of the user's own, or one of the bundled ones to start from."""

from __future__ import annotations

import streamlit as st

from app_pages.record.settings import KEEP
from app_pages.record.words import one_line
from treegraft import public
from treegraft.prompts import Prompt, bundled

EXAMPLE_LENGTH = 110


@st.cache_data
def examples() -> dict[str, Prompt]:
    """The bundled prompts by their id."""
    return {prompt.id: prompt for prompt in bundled()}


def choose_prompt() -> str:
    """A text of the user's own, or one of the bundled prompts to start from."""
    prompt = st.text_area("Prompt", key="prompt", height=132, placeholder="Ask something …", **KEEP,
                          max_chars=public.LONGEST_PROMPT if public.is_public() else None)
    categories = list(dict.fromkeys(example.category for example in examples().values()))
    category = st.pills("Or take an example", categories, key="category", format_func=str.capitalize,
                        on_change=take_first, **KEEP)
    if category:
        names = [name for name, example in examples().items() if example.category == category]
        st.selectbox("Example", names, key="example", on_change=take, label_visibility="collapsed", **KEEP,
                     format_func=lambda name: one_line(examples()[name].turns[0], EXAMPLE_LENGTH))
    return prompt or ""


def take_first() -> None:
    """Take the first example of the category that was chosen."""
    if category := st.session_state.category:
        st.session_state.example = next(name for name, one in examples().items() if one.category == category)
        take()


def take() -> None:
    """Put the chosen example into the prompt."""
    st.session_state.prompt = examples()[st.session_state.example].turns[0]
