"""Replays of the chosen run, shared by all sessions: one at a time, as a replay moves its drafters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import streamlit as st

from app_pages.shared.recording import Opened
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.text import visible
from treegraft.analysis.whatif import Replay, WhatIf, change
from treegraft.settings import SettingError
from treegraft.trace import Run


@dataclass(frozen=True)
class Replays:
    """What can be replayed of a run, or the `problem` why nothing can. `done` remembers what was asked before."""

    whatif: WhatIf | None
    problem: str = ""
    lock: Lock = field(default_factory=Lock, repr=False)
    done: dict[tuple, Replay | str] = field(default_factory=dict, repr=False)

    def under(self, settings: Mapping[str, Any]) -> Replay | str:
        """The run under other settings, or why it cannot be replayed under them."""
        key = tuple(sorted(settings.items()))
        with self.lock:
            if key not in self.done:
                try:
                    self.done[key] = self.whatif.replay(change(self.whatif.policy, **settings))
                except (NotRecorded, SettingError) as error:
                    self.done[key] = visible(str(error))
            return self.done[key]


def replays(opened: Opened) -> Replays:
    return replays_of(opened.run, opened.key)


@st.cache_resource(max_entries=4, show_spinner="Getting ready to replay …")
def replays_of(_run: Run, key: str) -> Replays:
    try:
        found = Replays(WhatIf(_run))
    except NotRecorded as error:
        return Replays(None, visible(str(error)))
    first = found.under({})
    return found if isinstance(first, Replay) else Replays(None, first)
