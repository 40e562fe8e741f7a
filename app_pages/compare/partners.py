"""Which recordings stand beside the chosen one. The address holds them as `with`, each a name, perhaps with `/run`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import streamlit as st

import treegraft
from app_pages.shared.look import readable_choices
from app_pages.shared.recording import Opened, open_trace, uploads
from treegraft.trace import TraceError
from treegraft.view.labels import name as shown
from treegraft.view.library import changed_at, titles_of, traces

MOST = 3
"""Recordings beside the first one."""

KEY = "compare with"


@dataclass(frozen=True)
class Offer:
    """A run that can be compared with the first one; `name` is that of its recording, `titled` is for people."""

    name: str
    path: Path
    changed: float
    number: int
    several: bool
    titled: str
    policy: str
    prompt: tuple[int, ...]

    @property
    def code(self) -> str:
        return f"{self.name}/{self.number}" if self.number else self.name

    @property
    def title(self) -> str:
        title = shown(self.titled)
        return f"{title}, run {self.number}" if self.several else title


@st.cache_data(max_entries=200, show_spinner=False)
def runs_in(path: Path, changed: float) -> list[tuple[str, tuple[int, ...]]]:
    """Policy and prompt of each run of a recording, none where it cannot be read."""
    try:
        return [(run.header.policy.name, tuple(run.header.prompt.tokens)) for run in treegraft.open(path).runs]
    except (TraceError, OSError):
        return []


def offers() -> dict[str, Offer]:
    """All runs of all recordings by their code in the address."""
    found = {}
    places = traces() | uploads()
    titles = titles_of(places)
    for name, path in places.items():
        changed = changed_at(path)
        runs = runs_in(path, changed)
        for number, (policy, prompt) in enumerate(runs):
            offer = Offer(name, path, changed, number, len(runs) > 1, titles[name], policy, prompt)
            found[offer.code] = offer
    return found


def choose(first: Opened) -> list[Offer]:
    """The first run and those that the user wants beside it."""
    found = offers()
    own = found.pop(f"{first.name}/{first.number}" if first.number else first.name, None)
    if own is None:
        raise TraceError(f"The recording {first.name} has gone in the meantime. Choose another one.")
    same = [code for code, offer in found.items() if offer.prompt == own.prompt]
    ordered = same + [code for code in found if code not in same]
    follow_link(ordered, [code for code in same if found[code].policy != own.policy][:1])

    def titled(code: str) -> str:
        return found[code].title + ("" if code in same else " (another prompt)")

    readable_choices()
    codes = st.multiselect("Compare with", ordered, format_func=titled, key=KEY, max_selections=MOST,
                           placeholder="Choose up to three recordings", persist_state="session",
                           help="Recordings of the same prompt come first: only their texts can be the same.")
    st.session_state["compare linked"] = codes
    if codes:
        st.query_params["with"] = codes
    elif "with" in st.query_params:
        del st.query_params["with"]
    return [own, *(found[code] for code in codes)]


def follow_link(offered: list[str], default: list[str]) -> None:
    """Choose the partners that the address names, once; on a first visit without any, the default."""
    linked = st.query_params.get_all("with")
    chosen = st.session_state.get(KEY)
    if linked and linked != st.session_state.get("compare linked"):
        chosen = linked
        if missing := len([code for code in linked if code not in offered]):
            st.warning(f"{missing} of the linked recordings are not here, or are the first one. Open their files to "
                       "see them.")
    st.session_state["compare linked"] = linked
    wanted = default if chosen is None else [code for code in dict.fromkeys(chosen) if code in offered][:MOST]
    if wanted != st.session_state.get(KEY):
        st.session_state[KEY] = wanted


def opened(offer: Offer) -> Opened:
    """Open an offered recording. Errors: `TraceError`."""
    return Opened(offer.name, offer.path, offer.changed, open_trace(offer.path, offer.changed), offer.number)
