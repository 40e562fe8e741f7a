"""What the Tree page shows: a bundled demo, a recording, or a file of one's own, and which of its runs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import streamlit as st

import treegraft
from treegraft.trace import Trace
from treegraft.view.library import name_of, title_of, traces
from treegraft.view.model import title

UPLOAD_MEGABYTES = 200


@st.cache_resource(max_entries=8, show_spinner="Opening the recording …")
def open_trace(path: Path, changed: float) -> Trace:
    """The trace at `path`; `changed` is its time of change, so that a file that was written anew is read anew."""
    return treegraft.open(path)


def keep_upload() -> None:
    """Put the uploaded file on disk for as long as the session lasts, and choose it."""
    if file := st.session_state.upload:
        if "upload_folder" not in st.session_state:
            st.session_state.upload_folder = tempfile.TemporaryDirectory(prefix="treegraft-")
        path = Path(st.session_state.upload_folder.name, "upload.jsonl" + ".zst" * file.name.endswith(".zst"))
        path.write_bytes(file.getbuffer())
        st.session_state.trace = name_of(Path(file.name))
        st.session_state.uploads = {st.session_state.trace: path}


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
    titles = [f"{number}: {title(run)}" for number, run in enumerate(trace.runs)]
    linked = st.query_params.get("run", "")
    place = int(linked) if linked.isdecimal() and len(linked) < 6 and int(linked) < len(titles) else 0
    return st.selectbox("Run", range(len(titles)), place, titles.__getitem__, key="run")
