"""Tree page: play a recording, one draft tree and one event at a time."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
import streamlit as st

import treegraft
from treegraft.trace import Run, Trace, TraceError
from treegraft.view.export import node_rows, nodes_csv, replay_html
from treegraft.view.figure import tree_figure
from treegraft.view.library import name_of, title_of, traces
from treegraft.view.model import prompt_text, run_view
from treegraft.view.player import player, wanted_round

UPLOAD_MEGABYTES = 200
NOTHING_YET = """**There is no recording to show yet.**

- Make one on the **Record** page: choose a pair of models, a policy and a prompt.
- Or make one in a terminal: `treegraft record --prompt "Why is the sky blue?" --out sky.jsonl.zst`
- Or open a trace file (`.jsonl` or `.jsonl.zst`) with the button above."""


@st.cache_resource(max_entries=8, show_spinner="Opening the recording …")
def open_trace(path: Path, changed: float) -> Trace:
    """The trace at `path`; `changed` is its time of change, so that a file that was written anew is read anew."""
    return treegraft.open(path)


@st.cache_resource(max_entries=16, show_spinner="Drawing the trees …")
def view_of(_run: Run, name: str, first: int) -> dict:
    return run_view(_run, first)


def keep_upload() -> None:
    """Put the uploaded file on disk for as long as the session lasts, and choose it."""
    if file := st.session_state.upload:
        folder = st.session_state.setdefault("upload_folder", tempfile.TemporaryDirectory(prefix="treegraft-"))
        path = Path(folder.name) / ("upload.jsonl.zst" if file.name.endswith(".zst") else "upload.jsonl")
        path.write_bytes(file.getbuffer())
        st.session_state.uploads = {name_of(Path(file.name)): path}
        st.session_state.trace = name_of(Path(file.name))


def choose_trace() -> tuple[str, Path] | None:
    """The bar on top of the page: which recording, or a file of one's own."""
    found = traces() | st.session_state.get("uploads", {})
    linked = st.query_params.get("trace")
    if "trace" not in st.session_state and linked and linked not in found:
        st.warning("There is no recording of the linked name here; this is another one. Open its file to see it.")
    with st.container(horizontal=True, vertical_alignment="center"):
        name = st.selectbox("Recording", list(found), list(found).index(linked) if linked in found else 0, title_of,
                            key="trace", label_visibility="collapsed", placeholder="No recordings yet", width=360)
        with st.popover("Open a file", icon=":material/folder_open:"):
            st.file_uploader("Trace file", type=["jsonl", "zst"], key="upload", on_change=keep_upload,
                             max_upload_size=UPLOAD_MEGABYTES)
    return (name, found[name]) if name else None


def choose_run(trace: Trace) -> int:
    if len(trace.runs) == 1:
        return 0
    titles = [f"{number}: {' '.join(prompt_text(run).split())[:80]}" for number, run in enumerate(trace.runs)]
    linked = st.query_params.get("run", "")
    place = int(linked) if linked.isdecimal() and len(linked) < 6 and int(linked) < len(titles) else 0
    return st.selectbox("Run", range(len(titles)), place, titles.__getitem__, key="run")


@st.fragment
def show(run: Run, name: str, path: Path, link: dict[str, str | None]) -> None:
    """Player, details and downloads of one run; only this part runs again when the player asks for something."""
    asked = wanted_round(name)
    linked = st.query_params.get("round", "")
    first = asked if asked is not None else max(int(linked) - 8, 0) if linked.isdecimal() and len(linked) < 10 else 0
    view = view_of(run, name, first if len(run.rounds) > len(view_of(run, name, 0)["rounds"]) else 0)
    place = player(view, name=name, link=link, follow=bool(st.session_state.get("details")))
    details = st.expander("Table and figure of this round", key="details", on_change="rerun")
    if details.open and view["rounds"]:
        number = min(max((place.round if place else 0) - view["first"], 0), len(view["rounds"]) - 1)
        table, figure = details.tabs(["Nodes", "Figure"])
        table.dataframe(pd.DataFrame(node_rows(view, view["rounds"][number])), hide_index=True)
        theme = st.context.theme.type or "light"
        figure.plotly_chart(tree_figure(view, number, theme), alt="The draft tree of the round")
    with st.container(horizontal=True):
        st.download_button("Replay page", lambda: replay_html(run), f"{name_of(path)}.html", "text/html",
                           help="One HTML file that plays this run in any browser, offline.")
        st.download_button("Nodes as CSV", lambda: nodes_csv(run), f"{name_of(path)}-nodes.csv", "text/csv")
        st.download_button("Trace", path.read_bytes, path.name)


chosen = choose_trace()
if chosen is None:
    st.info(NOTHING_YET)
    st.stop()
try:
    trace = open_trace(chosen[1], chosen[1].stat().st_mtime)
    for warning in trace.warnings:
        st.warning(warning)
    number = choose_run(trace)
    link = {"trace": chosen[0], "run": str(number) if number else None}
    show(trace.runs[number], f"{chosen[0]}/{number}/{chosen[1].stat().st_mtime}", chosen[1], link)
except TraceError as error:
    st.error(f"This recording cannot be shown: {error}")
