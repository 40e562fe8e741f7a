"""The glossary on a page: a window with search, and texts that explain their terms to pointer, finger and keyboard."""

from __future__ import annotations

import streamlit as st

from treegraft.view.glossary import search
from treegraft.view.lesson_html import glossary_html, lesson_html, reading_html

LONGEST = 80
"""Letters of a search."""


def text_with_terms(text: str) -> None:
    """A text of the program as paragraphs, its terms with their meanings."""
    st.html(lesson_html(text, st.context.theme.type or "light"))


def explain(text: str) -> None:
    """A sentence about what is to be seen, its terms with their meanings."""
    st.html(reading_html(text, st.context.theme.type or "light"))


@st.dialog("Glossary", width="medium")
def glossary() -> None:
    """The window; it works by itself, the page behind it stays as it is."""
    wanted = st.text_input("Search the glossary", key="glossary search", placeholder="A word", max_chars=LONGEST)
    found = search(wanted)
    if found:
        st.html(glossary_html(found, st.context.theme.type or "light"))
    else:
        st.info("No term and no meaning holds these words. Try a shorter word, or clear the search.")


def glossary_button() -> None:
    """A button that opens the glossary."""
    if st.button("Glossary", icon=":material/menu_book:", key="glossary", help="What the words of the pages mean"):
        glossary()
