"""What a worker is doing, drawn anew while it works: the progress of a fetch, and a run while it is decoded."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import streamlit as st

from app_pages.record.demo import is_demo
from app_pages.record.figures import facts, figures, headings, show_figures, waiting_words
from app_pages.record.parting import show_parting
from app_pages.record.status import show_state
from app_pages.record.words import one_line, plain, running
from treegraft.live import LiveFetch, LiveRun, Snapshot, Worker
from treegraft.view.live import live_view, script, styles
from treegraft.view.race import lane_view
from treegraft.view.web import HTML

POLL = "0.4s"
TITLE_LENGTH = 120
DEMO_TITLE_LENGTH = 90
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
        st.progress(now.fraction or 0.0, text=plain(f"{now.stage.capitalize()} …"))
        st.button("Stop", icon=":material/stop:", on_click=work.stop, disabled=work.is_stopping, key="stop_fetch")


def watch(run: LiveRun) -> None:
    """The run so far, or its end."""
    polled(show_run, run)


def show_run(run: LiveRun, live: bool) -> None:
    from app_pages.record.actions import show_actions  # it begins runs, and what begins them watches a fetch

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
    if not is_demo():
        show_figures(now)
    show_parting(run.request, now)
    show_picture(run, now)
    if now.run and not is_demo():
        st.caption(plain(facts(now.run.header)))


def show_picture(run: LiveRun, now: Snapshot) -> None:
    """The text and the last tree; in a race also the lane of plain decoding."""
    own, other = headings(run.request, now)
    racing = now.plain is not None and bool(now.plain.records)
    picture(key="live_picture", data={
        "view": msgspec.json.encode(live_view(now.run)).decode() if now.rounds else None,
        "words": waiting_words(now), "large": is_demo(), "figures": figures(now) if is_demo() else [], "heading": own,
        "lane": msgspec.json.encode(lane_view(now.plain)).decode() if racing else "",
        "race": {"heading": other, "clock": None if now.state == "measuring" else now.microseconds,
                 "goes_on": now.state not in ("measuring", "decoding")} if racing else None})


def show_question(run: LiveRun) -> None:
    """What was asked; what does not fit into a heading is folded away."""
    messages = run.request.messages
    question = run.request.question
    if is_demo():
        st.markdown(f"### {plain(one_line(question, DEMO_TITLE_LENGTH))}")
        return
    title = one_line(question, TITLE_LENGTH)
    st.markdown(f"#### {plain(title)}")
    if len(messages) > 1 or title != question.strip():
        with st.expander(f"The conversation: {len(messages)} messages" if len(messages) > 1 else "The whole prompt"):
            for message in messages:
                st.caption(message["role"].capitalize())
                st.text(running(message["content"]))
