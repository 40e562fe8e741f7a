"""Replays of the chosen run, shared by all sessions: one at a time, as a replay moves its drafters."""

from __future__ import annotations

import re
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

ADVICE = re.compile(r"[:;] record .*")
"""How a reason ends. It speaks of the recorded settings, and recording those again need not help with others."""

TO_KNOW = "; to know their numbers, run them for real below"


@dataclass(frozen=True)
class Replays:
    """What can be replayed of a run, or the `problem` why nothing can; `inexact` says why counts are estimates, where
    they are. `done` remembers what was asked before."""

    whatif: WhatIf | None
    problem: str = ""
    inexact: str = ""
    lock: Lock = field(default_factory=Lock, repr=False)
    done: dict[tuple, Replay | str] = field(default_factory=dict, repr=False)

    def under(self, settings: Mapping[str, Any]) -> Replay | str:
        """The run under other settings, or why it cannot be replayed under them."""
        key = tuple(sorted(settings.items()))
        with self.lock:
            if key not in self.done:
                try:
                    self.done[key] = self.whatif.replay(change(self.whatif.policy, **settings))
                except NotRecorded as error:
                    self.done[key] = visible(ADVICE.sub("", str(error))) + TO_KNOW
                except SettingError as error:
                    self.done[key] = visible(str(error)).rstrip(".")
            return self.done[key]


def replays(opened: Opened) -> Replays:
    return replays_of(opened.run, opened.key)


@st.cache_resource(max_entries=4, show_spinner="Getting ready to replay …")
def replays_of(_run: Run, key: str) -> Replays:
    try:
        whatif = WhatIf(_run)
        return Replays(whatif, inexact=whatif.inexact)
    except NotRecorded as error:
        return Replays(None, visible(str(error)))
