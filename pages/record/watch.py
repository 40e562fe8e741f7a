"""What a worker is doing, drawn anew while it works: the progress of a fetch, and a run while it is decoded."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import streamlit as st

from treegraft.analysis.metrics import DEFINITIONS
from treegraft.live import LiveFetch, LiveRun, Snapshot, Worker
from treegraft.trace.records import End, Header
from treegraft.view.acceptance import decoding_line
from treegraft.view.library import name_of
from treegraft.view.live import live_view, script, styles
from treegraft.view.model import cut
from treegraft.view.web import HTML

POLL = "0.4s"
REASONS = {"eos": "The model ended its answer.", "stop": "A stop text came.",
           "length": "It reached the limit of new tokens.", "context": "The context is full.",
           "interrupted": "You stopped it; what came before is kept."}
STATUSES = {"speculating": "", "plain": "", "clipped": "Drafts were cut short:",
            "fell back": "Nothing was drafted, so this was plain decoding:"}
TITLE_LENGTH = 120
picture = st.components.v2.component("treegraft.live", html=HTML, css=styles(), js=script())


def polled(show: Callable[[Worker, bool], None], worker: Worker) -> None:
    """Draw with `show`, again and again while the worker works. It stays one fragment, so that nothing is drawn anew
    when the work ends."""
    live = worker.snapshot().is_live
    st.fragment(show, run_every=POLL if live else None)(worker, live)


def watch_fetch(work: LiveFetch) -> None:
    polled(show_fetch, work)


def show_fetch(work: LiveFetch, live: bool) -> None:
    now = work.snapshot()
    if live and not now.is_live:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(now.fraction or 0.0, text=f"{now.stage.capitalize()} …")
        st.button("Stop", icon=":material/stop:", on_click=work.stop, disabled=work.is_stopping, key="stop_fetch")


def watch(run: LiveRun) -> None:
    """The run so far, or its end."""
    polled(show_run, run)


def show_run(run: LiveRun, live: bool) -> None:
    now = run.snapshot()
    if live and not now.is_live:
        st.rerun()
    show_question(run)
    with st.container(horizontal=True, vertical_alignment="center"):
        show_state(run, now)
        show_actions(run, now)
    if now.state == "failed":
        st.error(plain(now.error))
    if not (now.is_live or now.run):
        return
    show_numbers(now)
    view = msgspec.json.encode(live_view(now.run)).decode() if now.rounds else None
    picture(key="live_picture", data={"view": view, "words": waiting_words(now)})
    if now.run:
        st.caption(plain(facts(now.run.header)))


def show_question(run: LiveRun) -> None:
    """What was asked; what does not fit into a heading is folded away."""
    messages = run.request.messages
    title = " ".join(run.request.question.split())
    st.markdown(f"#### {plain(cut(title, TITLE_LENGTH))}")
    if len(messages) > 1 or len(title) > TITLE_LENGTH:
        with st.expander(f"The conversation: {len(messages)} messages" if len(messages) > 1 else "The whole prompt"):
            for message in messages:
                st.caption(message["role"].capitalize())
                st.text(message["content"])


def show_state(run: LiveRun, now: Snapshot) -> None:
    """One line: what is going on, or how it ended."""
    end = now.run.end if now.run else None
    if now.state == "queued":
        st.badge("Waiting", icon=":material/hourglass_top:", color="gray")
        st.text(f"Another session is decoding: you are number {now.ahead} in the queue.", width="stretch")
    elif now.state == "loading":
        st.badge("Loading", icon=":material/hourglass_top:", color="gray")
        if now.fraction is None:
            st.text(f"{now.stage.capitalize()} … {now.seconds:.0f} s", width="stretch")
        else:
            st.progress(now.fraction, text=f"{now.stage.capitalize()} …")
    elif now.state == "decoding":
        st.badge("Stopping" if run.is_stopping else "Decoding", icon=":material/graphic_eq:", color="red")
        note = now.run.rounds[-1].record.note if now.rounds else ""
        st.text(note or f"At most {run.request.max_new_tokens} tokens; {now.seconds:.0f} s so far", width="stretch")
    elif now.state == "failed":
        st.badge("Failed", icon=":material/error:", color="red", width="stretch")
    else:
        done = now.state == "finished"
        st.badge("Finished" if done else "Stopped", icon=":material/check:" if done else ":material/stop:",
                 color="green" if done else "gray")
        saved = f"Saved as {now.path.name}." if now.path else ""
        st.text(f"{ending(end)} {saved}" if end else "Stopped before the first round; there is no recording.",
                width="stretch", help=plain(str(now.path)) if now.path else None)


def show_actions(run: LiveRun, now: Snapshot) -> None:
    """What the user may do next."""
    if now.is_live:
        st.button("Stop", icon=":material/stop:", on_click=run.stop, disabled=run.is_stopping, key="stop_run")
        return
    if now.path:
        if st.button("Open in the Tree page", type="primary", icon=":material/account_tree:"):
            place = {"trace": name_of(now.path), "run": str(run.request.turn)}
            st.switch_page("pages/tree/page.py", query_params=place)
        st.download_button("Download", now.path.read_bytes, now.path.name, icon=":material/download:")
    if st.button("New run" if now.path else "Back", icon=":material/add:" if now.path else ":material/arrow_back:"):
        del st.session_state.live_run
        st.rerun()


def show_numbers(now: Snapshot) -> None:
    """The running figures."""
    def number(label: str, value: str | int, name: str) -> None:
        st.metric(label, value, help=DEFINITIONS[name], width="content")

    with st.container(horizontal=True, gap="medium"):
        number("tau", "–" if now.tau is None else f"{now.tau:.2f}", "tau")
        number("tokens/s", "–" if now.tokens_per_second is None else f"{now.tokens_per_second:.1f}", "tokens/s")
        number("tokens", now.tokens, "tokens")
        number("rounds", now.rounds, "rounds")


def waiting_words(now: Snapshot) -> str:
    """What stands in place of the text before there is any."""
    return {"queued": "The text appears here.", "loading": "The text appears here.",
            "decoding": "Timing the models (once), then reading the prompt …"}.get(now.state, "No text was written.")


def ending(end: End) -> str:
    """Why the run ended, and whether it really speculated."""
    return " ".join(filter(None, (REASONS.get(end.reason, end.reason), STATUSES.get(end.status, end.status),
                                  "; ".join(end.notes))))


def facts(header: Header) -> str:
    """The models, their precision and the policy of a run."""
    settings = ", ".join(f"{name} {value}" for name, value in header.policy.settings.items())
    parts = [f"{header.target.name} in {header.target.dtype} on {header.target.device}",
             f"{header.policy.name}{f' ({settings})' if settings else ''}",
             *(f"drafted by {drafter.name}" for drafter in header.drafters), decoding_line(header.decoding)]
    return " · ".join(parts)


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)
