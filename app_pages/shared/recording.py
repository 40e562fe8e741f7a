"""The bar on top of the pages that show a recording: which one, or a file of one's own, and which of its runs.

The choice holds for all pages, and the address carries it: `trace` and `run`.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import NoReturn, ParamSpec

import streamlit as st

import treegraft
from app_pages.shared.glossary import glossary_button
from treegraft import public
from treegraft.analysis.text import visible
from treegraft.trace import Run, Trace, TraceError
from treegraft.view.library import changed_at, name_of, titles_of, traces
from treegraft.view.model import title

Parameters = ParamSpec("Parameters")

UPLOAD_MEGABYTES = 200
NAME_LENGTH = 60
"""Characters of an opened file's name; with four bytes each they fit into a file's name on any disk."""
MOST_UPLOADS = 4
"""Files that a session keeps."""
NO_RUN = -1
"""What a link asks for that gives something else than a number."""
TREE_PAGE = "app_pages/tree/page.py"
PREDICATE = re.compile(r"(is|was|has|holds|does|cannot|must|names|unpacks|repeats|differs|starts|goes|says)\b")
"""How the text of a `TraceError` begins that goes on from the place that it speaks of."""

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


def open_trace(path: Path, changed: float) -> Trace:
    """The trace at `path`; `changed` is its time of change, so that a file that was written anew is read anew. Errors:
    `TraceError`."""
    found = open_once(path, changed)
    if isinstance(found, TraceError):
        raise found.at(found.path)
    return found


@st.cache_resource(max_entries=8, show_spinner="Opening the recording …")
def open_once(path: Path, changed: float) -> Trace | TraceError:
    """The trace, or what is wrong with it, which may take as long to find out."""
    try:
        return treegraft.open(path)
    except TraceError as error:
        return error


def fragment(draw: Callable[Parameters, None]) -> Callable[Parameters, None]:
    """`st.fragment` for what is drawn from a recording: damage that is met only there ends the fragment with words. An
    error inside a fragment does not reach what called it."""
    @st.fragment
    @wraps(draw)
    def drawn(*args: Parameters.args, **options: Parameters.kwargs) -> None:
        try:
            draw(*args, **options)
        except TraceError as error:
            refuse(error)
    return drawn


def opened_recording() -> Opened:
    """The chosen recording. Where there is none, or one that cannot be shown, the page says so and ends here."""
    chosen = choose_trace()
    if chosen is None:
        st.info(NOTHING_YET)
        st.stop()
    name, path = chosen
    changed = changed_at(path)
    try:
        trace = open_trace(path, changed)
        if trace.warnings:
            st.warning("Not all of this recording can be shown:")
            st.text(public.shown("\n".join(map(visible, trace.warnings))))
        return Opened(name, path, changed, trace, choose_run(name, trace))
    except TraceError as error:
        refuse(error)


def refuse(error: TraceError) -> NoReturn:
    """End the page with what is wrong with the recording."""
    st.error("This recording cannot be shown:")
    st.text(public.shown(visible(in_words(error))))
    st.stop()


def in_words(error: TraceError) -> str:
    """What is wrong as a sentence that names the file alone: the folder of an opened one says nothing to who opened
    it."""
    if not error.path:
        return str(error)
    place = [f"field {error.field}"] * bool(error.field) + [f"line {error.line}"] * bool(error.line)
    place = " of ".join([*place, f"the file {Path(error.path).name}"])
    joint = " " if PREDICATE.match(error.problem) else ": "
    return f"{place[0].upper()}{place[1:]}{joint}{error.problem.removesuffix('.')}."


def put_in_address(opened: Opened) -> None:
    """For pages without a player, which writes the address itself. All in one go: each change is a step of Back."""
    if opened.link["run"] is None:
        st.query_params.pop("run", None)
    st.query_params.update({name: value for name, value in opened.link.items() if value is not None})


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
    found = traces() | uploads()
    titles = titles_of(found)
    follow_link(found)
    # On every run: what is written for the widget of one page alone is not there yet for that of the next page.
    st.session_state.trace = still_here(found)
    with st.container(horizontal=True, vertical_alignment="center"):
        name = st.selectbox("Recording", list(found), format_func=titles.get, key="trace", label_visibility="collapsed",
                            placeholder="No recordings yet", width=360, persist_state="session")
        with st.popover("Open a file", icon=":material/folder_open:"):
            st.file_uploader("Trace file", type=["jsonl", "zst"], key="upload", on_change=keep_upload,
                             max_upload_size=upload_megabytes())
        glossary_button()
    if name is None:
        return None
    st.session_state.linked.add(name)
    return name, found[name]


def still_here(found: dict[str, Path]) -> str | None:
    """The chosen recording; the first one where none is chosen yet, or where it has gone, which the page says."""
    chosen = st.session_state.get("trace")
    if chosen is not None and chosen not in found:
        st.warning("The chosen recording is not here any more; this is another one. Open its file to see it.")
    return chosen if chosen in found else next(iter(found), None)


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
        st.session_state[f"run of {linked}"] = int(number) if number.isdecimal() and len(number) < 6 else NO_RUN
    else:
        st.warning("There is no recording of the linked name here; this is another one. Open its file to see it.")


def upload_megabytes() -> int:
    """The largest file that may be opened."""
    return public.UPLOAD_MEGABYTES if public.is_public() else UPLOAD_MEGABYTES


def uploads() -> dict[str, Path]:
    """What was opened in this session, by name, the latest last."""
    return st.session_state.setdefault("uploads", {})


def keep_upload() -> None:
    """Put the uploaded file on disk for as long as the session lasts, and choose it; the oldest make room."""
    file = st.session_state.upload
    if not file or file.size > upload_megabytes() << 20:
        return
    if "upload_folder" not in st.session_state:
        st.session_state.upload_folder = tempfile.TemporaryDirectory(prefix="treegraft-")
    name = re.sub(r"[^\w. -]", "_", name_of(Path(file.name)))[:NAME_LENGTH]
    folder = tempfile.mkdtemp(dir=st.session_state.upload_folder.name)
    path = Path(folder, f"{name}.jsonl" + ".zst" * file.name.endswith(".zst"))
    path.write_bytes(file.getbuffer())
    old = uploads().pop(name, None)
    dropped = [uploads().pop(first) for first in list(uploads())[: max(0, len(uploads()) - MOST_UPLOADS + 1)]]
    for gone in filter(None, [old, *dropped]):
        gone.unlink(missing_ok=True)
    uploads()[name] = path
    st.session_state.trace = name


def choose_run(name: str, trace: Trace) -> int:
    """The run that is chosen among those of the trace."""
    key = f"run of {name}"
    number = st.session_state.get(key, 0)
    if number not in range(len(trace.runs)):
        st.warning("There is no run of the linked number in this recording; this is run 0.")
        number = 0
    st.session_state[key] = number
    if len(trace.runs) == 1:
        return 0
    titles = [f"{number}: {title(run)}" for number, run in enumerate(trace.runs)]
    return st.selectbox("Run", range(len(titles)), format_func=titles.__getitem__, key=key, persist_state="session")
