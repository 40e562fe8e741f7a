"""The bar on top of the pages that show a recording: which one, or a file of one's own, and which of its runs.

The choice holds for all pages, and the address carries it: `trace` and `run`.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import streamlit as st

import treegraft
from app_pages.shared.glossary import glossary_button
from treegraft import public
from treegraft.analysis.text import visible
from treegraft.trace import Run, Trace, TraceError
from treegraft.view.library import name_of, title_of, traces
from treegraft.view.model import title

UPLOAD_MEGABYTES = 200
TREE_PAGE = "app_pages/tree/page.py"

NOTHING_YET = """**There is no recording to show yet.**

- Make one on the **Record** page: choose a pair of models, a policy and a prompt.
- Or make one in a terminal: `treegraft record --prompt "Why is the sky blue?" --out sky.jsonl.zst`
- Or open a trace file (`.jsonl` or `.jsonl.zst`) with the button above."""


@dataclass(frozen=True)
class Opened:
    """A recording and the run of it that is shown. `name` is the recording's in links, `changed` its time of change."""

    name: str
    path: Path
    changed: float
    trace: Trace
    number: int

    @property
    def run(self) -> Run:
        return self.trace.runs[self.number]

    @property
    def key(self) -> str:
        """Names this state of the run, for caches and the player."""
        return f"{self.name}/{self.number}/{self.changed}"

    @property
    def link(self) -> dict[str, str | None]:
        """Its part of an address; None takes a parameter out."""
        return {"trace": self.name, "run": str(self.number) if self.number else None}


@st.cache_resource(max_entries=8, show_spinner="Opening the recording …")
def open_trace(path: Path, changed: float) -> Trace:
    """The trace at `path`; `changed` is its time of change, so that a file that was written anew is read anew."""
    return treegraft.open(path)


def opened_recording() -> Opened:
    """The chosen recording. Where there is none, or one that cannot be shown, the page says so and ends here."""
    chosen = choose_trace()
    if chosen is None:
        st.info(NOTHING_YET)
        st.stop()
    name, path = chosen
    changed = path.stat().st_mtime
    try:
        trace = open_trace(path, changed)
        if trace.warnings:
            st.warning("Not all of this recording can be shown:")
            st.text(public.shown("\n".join(map(visible, trace.warnings))))
        return Opened(name, path, changed, trace, choose_run(name, trace))
    except TraceError as error:
        refuse(error)


def refuse(error: Exception) -> NoReturn:
    """End the page with what is wrong with the recording."""
    st.error("This recording cannot be shown:")
    st.text(public.shown(visible(str(error))))
    st.stop()


def put_in_address(opened: Opened) -> None:
    """For pages without a player, which writes the address itself."""
    for name, value in opened.link.items():
        if value is not None:
            st.query_params[name] = value
        elif name in st.query_params:
            del st.query_params[name]


def show_in_tree(opened: Opened, round: int, event: int | None = None, node: int | str | None = None) -> NoReturn:
    """Go to the Tree page, to a place of the run."""
    place = {**opened.link, "round": round, "event": event, "node": node}
    go_to(TREE_PAGE, {name: str(value) for name, value in place.items() if value is not None})


def go_to(page: str, address: dict[str, str]) -> NoReturn:
    """Go to another page; the recording in `address` becomes the chosen one."""
    st.session_state.linked = set()
    st.switch_page(page, query_params=address)


# --- the widgets ----------------------------------------------------------------------------------------------------


def choose_trace() -> tuple[str, Path] | None:
    """Name and path of the chosen recording."""
    found = traces() | st.session_state.get("uploads", {})
    follow_link(found)
    if st.session_state.get("trace") not in found:
        st.session_state.pop("trace", None)
    with st.container(horizontal=True, vertical_alignment="center"):
        name = st.selectbox("Recording", list(found), format_func=title_of, key="trace", label_visibility="collapsed",
                            placeholder="No recordings yet", width=360, persist_state="session")
        with st.popover("Open a file", icon=":material/folder_open:"):
            st.file_uploader("Trace file", type=["jsonl", "zst"], key="upload", on_change=keep_upload,
                             max_upload_size=upload_megabytes())
        glossary_button()
    if name:
        st.session_state.linked.add(name)
    return (name, found[name]) if name else None


def follow_link(found: dict[str, Path]) -> None:
    """Choose the recording and the run that the address names, once: after that the widgets have the say, and the
    address follows them."""
    linked, known = st.query_params.get("trace"), st.session_state.setdefault("linked", set())
    if linked is None or linked in known:
        return
    known.add(linked)
    if linked in found:
        st.session_state.trace = linked
        number = st.query_params.get("run", "0")
        st.session_state[f"run of {linked}"] = int(number) if number.isdecimal() and len(number) < 6 else 0
    else:
        st.warning("There is no recording of the linked name here; this is another one. Open its file to see it.")


def upload_megabytes() -> int:
    """The largest file that may be opened."""
    return public.UPLOAD_MEGABYTES if public.is_public() else UPLOAD_MEGABYTES


def keep_upload() -> None:
    """Put the uploaded file on disk for as long as the session lasts, and choose it."""
    if (file := st.session_state.upload) and file.size <= upload_megabytes() << 20:
        if "upload_folder" not in st.session_state:
            st.session_state.upload_folder = tempfile.TemporaryDirectory(prefix="treegraft-")
        path = Path(st.session_state.upload_folder.name, "upload.jsonl" + ".zst" * file.name.endswith(".zst"))
        path.write_bytes(file.getbuffer())
        st.session_state.trace = name_of(Path(file.name))
        st.session_state.uploads = {st.session_state.trace: path}


def choose_run(name: str, trace: Trace) -> int:
    if len(trace.runs) == 1:
        return 0
    titles = [f"{number}: {title(run)}" for number, run in enumerate(trace.runs)]
    key = f"run of {name}"
    if st.session_state.get(key, 0) >= len(titles):
        st.session_state[key] = 0
    return st.selectbox("Run", range(len(titles)), format_func=titles.__getitem__, key=key, persist_state="session")
