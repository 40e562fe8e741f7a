"""The running figures of a run, and the words beside them."""

from __future__ import annotations

import streamlit as st

from treegraft.analysis.metrics import DEFINITIONS
from treegraft.live import Request, Snapshot
from treegraft.trace.records import Header
from treegraft.view.acceptance import decoding_line

NONE = "–"
PLAIN_HELP = "Plain decoding of the same prompt, measured alone before the run. " + DEFINITIONS["tokens/s"]


def figures(now: Snapshot) -> list[tuple[str, str, str]]:
    """Name, value and meaning of each figure."""
    found = [("tau", decimal(now.tau, 2), DEFINITIONS["tau"]),
             ("tokens/s", decimal(now.tokens_per_second, 1), DEFINITIONS["tokens/s"]),
             ("tokens", str(now.tokens), DEFINITIONS["tokens"]), ("rounds", str(now.rounds), DEFINITIONS["rounds"])]
    if now.plain:
        found += [("plain tokens/s", decimal(now.plain_tokens_per_second, 1), PLAIN_HELP),
                  ("ratio to plain", NONE if now.ratio is None else f"{now.ratio:.2f}×", DEFINITIONS["speedup"])]
    return found


def decimal(value: float | None, places: int) -> str:
    return NONE if value is None else f"{value:.{places}f}"


def show_figures(now: Snapshot) -> None:
    with st.container(horizontal=True, gap="medium"):
        for name, value, meaning in figures(now):
            st.metric(name, value, help=meaning, width="content")


def headings(request: Request, now: Snapshot) -> tuple[str, str]:
    """What stands above the text of the run, and above that of plain decoding."""
    own = request.policy.name
    if now.tokens_per_second:
        own += f" · {now.tokens_per_second:.1f} tokens/s"
    if now.plain_tokens_per_second is None:
        return own, "plain · being measured now"
    return own, f"plain · {now.plain_tokens_per_second:.1f} tokens/s, replayed at the times measured before"


def waiting_words(now: Snapshot) -> str:
    """What stands in place of the text before there is any."""
    return {"queued": "The text appears here.", "loading": "The text appears here.",
            "measuring": "Starts when plain decoding has been measured …",
            "decoding": "Timing the models (once), then reading the prompt …"}.get(now.state, "No text was written.")


def facts(header: Header) -> str:
    """The models, their precision and the policy of a run."""
    settings = ", ".join(f"{name} {value}" for name, value in header.policy.settings.items())
    parts = [f"{header.target.name} in {header.target.dtype} on {header.target.device}",
             f"{header.policy.name}{f' ({settings})' if settings else ''}",
             *(f"drafted by {drafter.name}" for drafter in header.drafters), decoding_line(header.decoding)]
    return " · ".join(parts)
