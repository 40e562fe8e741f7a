"""One line on a run: what is going on, or how it ended."""

from __future__ import annotations

import streamlit as st

from app_pages.record.demo import is_demo
from app_pages.record.words import plain, running
from treegraft.live import LiveRun, Snapshot
from treegraft.public import is_public
from treegraft.trace.records import End

REASONS = {"eos": "The model ended its answer.", "stop": "A stop text came.",
           "length": "It reached the limit of new tokens.", "context": "The context is full.",
           "interrupted": "You stopped it; what came before is kept."}
STATUSES = {"speculating": "", "plain": "", "clipped": "Drafts were cut short:",
            "fell back": "Nothing was drafted, so this was plain decoding:"}
ALONE = "Plain decoding of the same prompt goes first, alone: both at once would slow each other down."


def show_state(run: LiveRun, now: Snapshot) -> None:
    show = {"queued": show_queued, "loading": show_loading, "measuring": show_measuring, "decoding": show_decoding,
            "probing": show_probing, "failed": show_failed}.get(now.state, show_end)
    show(run, now)


def show_queued(run: LiveRun, now: Snapshot) -> None:
    st.badge("Waiting", icon=":material/hourglass_top:", color="gray")
    st.text(f"Another session is decoding: you are number {now.ahead} in the queue.", width="stretch")


def show_loading(run: LiveRun, now: Snapshot) -> None:
    st.badge("Loading", icon=":material/hourglass_top:", color="gray")
    if now.fraction is None:
        st.text(running(f"{now.stage.capitalize()} … {now.seconds:.0f} s"), width="stretch")
    else:
        st.progress(now.fraction, text=plain(f"{now.stage.capitalize()} …"))


def show_measuring(run: LiveRun, now: Snapshot) -> None:
    st.badge("Stopping" if run.is_stopping else "Measuring", icon=":material/timer:", color="orange")
    st.text(ALONE, width="stretch")


def show_decoding(run: LiveRun, now: Snapshot) -> None:
    st.badge("Stopping" if run.is_stopping else "Decoding", icon=":material/graphic_eq:", color="red")
    note = now.run.rounds[-1].record.note if now.rounds else ""
    progress = f"At most {run.request.max_new_tokens} tokens; {now.seconds:.0f} s so far"
    st.text(running(note) or progress, width="stretch")


def show_probing(run: LiveRun, now: Snapshot) -> None:
    st.badge("Stopping" if run.is_stopping else "Probing", icon=":material/query_stats:", color="orange",
             help="The text is written. Now the drafters are asked at every place of it, for exact what-ifs.")
    st.progress(now.fraction, text=f"{now.stage.capitalize()} …")


def show_failed(run: LiveRun, now: Snapshot) -> None:
    st.badge("Failed", icon=":material/error:", color="red", width="stretch")


def show_end(run: LiveRun, now: Snapshot) -> None:
    done = now.state == "finished"
    st.badge("Finished" if done else "Stopped", icon=":material/check:" if done else ":material/stop:",
             color="green" if done else "gray")
    saved = f"Saved as {now.path.name}." if now.path and not is_demo() else ""
    end = now.run.end if now.run else None
    words = f"{ending(end)} {saved}" if end else "Stopped before the first round; there is no recording."
    st.text(words, width="stretch", help=plain(str(now.path)) if now.path and not is_public() else None)


def ending(end: End) -> str:
    """Why the run ended, whether it really speculated, and what is missing."""
    notes = running("; ".join(end.notes))
    status = STATUSES.get(end.status, "")
    if notes:
        notes = f"{status} {notes}." if status else f"{notes[0].upper()}{notes[1:]}."
    return f"{REASONS.get(end.reason, end.reason)} {notes}".strip()
