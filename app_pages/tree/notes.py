"""Panel: bookmarks with notes on places of the recording."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from app_pages.shared.recording import Opened
from app_pages.tree.shown import Shown, lead_to
from treegraft.notes import (
    TEXT_LENGTH,
    Edit,
    Note,
    Notebook,
    NotesError,
    NotesFile,
    SessionNotes,
    adding,
    changing,
    deleting,
    new_note,
    notes_path,
)
from treegraft.public import is_public
from treegraft.view.player import Place

ON_PAGE = 20
"""Notes that are shown at a time: each takes a while to draw."""
PAGE = "notes page"


def notebook(opened: Opened) -> Notebook:
    """The notes on a recording; in public mode those of this session alone. Errors: `NotesError`."""
    if is_public():
        return SessionNotes(st.session_state.setdefault("notes", {}).setdefault(opened.name, []))
    try:
        return NotesFile(path_of(str(opened.path), opened.changed), opened.name)
    except OSError as error:
        raise NotesError(f"The recording cannot be read: {error.strerror}.") from None


@st.cache_data(max_entries=64, show_spinner=False)
def path_of(path: str, changed: float) -> Path:
    """Where the notes are kept: found by what a file holds, which takes a moment."""
    return notes_path(Path(path))


def show_notes(shown: Shown) -> None:
    number = shown.opened.number
    try:
        notes = notebook(shown.opened).read()
    except NotesError as error:
        st.error("The notes cannot be shown:")
        st.text(str(error))
        return
    write_note(shown)
    if problem := st.session_state.pop("notes_problem", ""):
        st.error("The note was not kept:")
        st.text(problem)
    here = [note for note in notes if note.run == number]
    for note in page_of(here):
        show_note(shown, note)
    if not here:
        st.caption("No notes on this run yet. A note remembers the place that the player shows; a click leads back to "
                   "it.")
    if elsewhere := len(notes) - len(here):
        st.caption(f"{elsewhere} more on other runs of this recording.")
    st.caption("Notes live as long as this browser session." if is_public() else
               "Notes are kept in a small file beside your recordings, or by the content of a demo or an opened file.")


def page_of(notes: Sequence[Note]) -> Sequence[Note]:
    """The notes on the chosen page; at first the last page, which has what was written last."""
    count = -(-len(notes) // ON_PAGE)
    if count < 2:
        return notes
    st.session_state[PAGE] = min(st.session_state.get(PAGE, count), count)
    first = ON_PAGE * (st.pagination(count, key=PAGE) - 1)
    st.caption(f"Notes {first + 1} to {min(first + ON_PAGE, len(notes))} of {len(notes)} on this run")
    return notes[first : first + ON_PAGE]


def write_note(shown: Shown) -> None:
    """A form for a note on the place where the player stands."""
    with st.form("note", clear_on_submit=True, border=False):
        st.text_area(f"Note on {words_of(shown.round.index, shown.event, shown.node)}", key="note_text",
                     max_chars=TEXT_LENGTH, height=80, placeholder="What is to be seen here?")
        st.form_submit_button("Keep this place", icon=":material/bookmark_add:", on_click=keep, args=(shown,))


def keep(shown: Shown) -> None:
    """Keep the place where the player stood when the form was drawn, and show the page that has the note."""
    st.session_state.pop(PAGE, None)
    text = (st.session_state.note_text or "").strip()
    change(shown.opened, adding(new_note(text, run=shown.opened.number, round=shown.round.index, event=shown.event,
                                         node=shown.node)))


def show_note(shown: Shown, note: Note) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center"):
        lead_to(shown, words_of(note.round, note.event, note.node).capitalize(),
                Place(note.round, note.event, note.node), key=f"note {note.id}", icon=":material/bookmark:",
                type="tertiary")
        st.text(note.text or "(no text)", width="stretch")
        with st.popover("Edit", icon=":material/edit:"):
            st.text_area("Text", note.text, key=f"text {note.id}", max_chars=TEXT_LENGTH)
            st.button("Save", key=f"save {note.id}", on_click=save, args=(shown.opened, note.id))
        st.button("Delete", key=f"delete {note.id}", icon=":material/delete:", type="tertiary", on_click=change,
                  args=(shown.opened, deleting(note.id)))


def save(opened: Opened, id: str) -> None:
    """Give a note the text that was typed."""
    change(opened, changing(id, (st.session_state[f"text {id}"] or "").strip()))


def change(opened: Opened, edit: Edit) -> None:
    """Change the notes; what goes wrong is shown when the panel is drawn next."""
    try:
        notebook(opened).edit(edit)
    except NotesError as error:
        st.session_state.notes_problem = str(error)


def words_of(round: int, event: int | None, node: int | str | None) -> str:
    """A place in words."""
    parts = [f"round {round}", f"event {event}" if event is not None else "",
             f"node {node}" if isinstance(node, int) else node or ""]
    return ", ".join(filter(None, parts))
