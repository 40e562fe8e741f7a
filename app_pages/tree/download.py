"""The menu of files that a run can leave the app as."""

from __future__ import annotations

import io
import zipfile

import streamlit as st

from app_pages.shared.recording import fragment
from app_pages.tree.notes import notebook
from app_pages.tree.shown import Shown
from treegraft.notes import Note, NotesError, encoded
from treegraft.view.export import nodes_csv, replay_html
from treegraft.view.library import name_of
from treegraft.view.report import markdown_summary, round_graphml, rounds_csv, statistics_json


def download_menu(shown: Shown) -> None:
    with st.container(width="content"):  # a fragment takes all the width that it is given
        menu(shown)


@fragment
def menu(shown: Shown) -> None:
    """The menu, whose entries are drawn when it is opened: only then is it known which files are still there."""
    popover = st.popover("Download", icon=":material/download:", key="downloads", on_change="rerun")
    if popover.open:
        with popover:
            entries(shown)


def entries(shown: Shown) -> None:
    run, name, notes = shown.run, name_of(shown.opened.path), kept_notes(shown)
    entry("Replay page", lambda: replay_html(run), f"{name}.html", "text/html",
          "One HTML file that plays this run in any browser, offline.")
    trace_entries(shown, name, notes)
    summary_entry(shown, name, notes)
    entry("Statistics as JSON", lambda: statistics_json(run), f"{name}-statistics.json", "application/json",
          "The numbers of `treegraft stats --json`.")
    if run.rounds:
        entry("Rounds as CSV", lambda: rounds_csv(run), f"{name}-rounds.csv", "text/csv", "One row a round.")
        entry("Nodes as CSV", lambda: nodes_csv(run), f"{name}-nodes.csv", "text/csv", "One row a node.")
        round = shown.round
        entry("This tree as GraphML", lambda: round_graphml(round), f"{name}-round-{round.index}.graphml",
              "application/xml", "The draft tree of the round, for networkx, Gephi and others.")


def trace_entries(shown: Shown, name: str, notes: list[Note]) -> None:
    """The recording's own file, with and without its notes."""
    path = shown.opened.path
    if not path.exists():
        st.caption("The recording's file is not here any more, so it cannot be downloaded. All else is made from what "
                   "was read of it.")
        return
    entry("Trace", path.read_bytes, path.name, "application/octet-stream", "The recording itself.")
    if notes:
        entry("Trace with notes", lambda: zipped(shown, notes), f"{name}.zip", "application/zip",
              "The recording and its notes. Unpack both into one folder of recordings to open them together.")


def entry(label: str, data, file: str, kind: str, words: str) -> None:
    st.download_button(label, data, file, kind, help=words, on_click="ignore", type="tertiary", key=f"get {label}")


def summary_entry(shown: Shown, name: str, notes: list[Note]) -> None:
    """The summary for a bug report, with or without what was asked and written."""
    number = shown.round.index if shown.run.rounds else None
    node = shown.node if isinstance(shown.node, int) else None
    texts = st.session_state.get("summary_texts", True)
    entry("Summary as Markdown", lambda: markdown_summary(
        shown.run, shown.opened.name, number, node, notes=notes, texts=texts), f"{name}.md", "text/markdown",
        "For a bug report: how the run was made, its numbers, this round, and what does not hold.")
    st.checkbox("with prompt, text and notes", True, key="summary_texts",
                help="Leave them out of a summary that others may not read.")


def kept_notes(shown: Shown) -> list[Note]:
    """The notes on the recording; none where they cannot be read, which the panel of notes says."""
    try:
        return notebook(shown.opened).read()
    except NotesError:
        return []


def zipped(shown: Shown, notes: list[Note]) -> bytes:
    path, out = shown.opened.path, io.BytesIO()
    with zipfile.ZipFile(out, "w") as folder:
        folder.write(path, path.name)
        folder.writestr(f"{name_of(path)}.notes.json", encoded(notes, shown.opened.name))
    return out.getvalue()
