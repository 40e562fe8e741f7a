"""Recording the new settings with the models, and the prediction beside the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app_pages.record.watch import polled
from app_pages.record.words import plain
from app_pages.shared.charts import origin_badge
from app_pages.shared.look import emphasis
from app_pages.shared.recording import TREE_PAGE, Opened, go_to
from app_pages.shared.worker import show_worker
from app_pages.what_if.command import command
from app_pages.what_if.replays import Replays
from treegraft.analysis.agreement import first_difference
from treegraft.analysis.cost_profile import CostProfile
from treegraft.analysis.text import visible
from treegraft.analysis.whatif import Origin, Replay, WhatIf, change
from treegraft.analysis.whatif_numbers import decode_speed, tokens_per_second
from treegraft.branch import BranchError, as_recorded, other_dtype, why_not
from treegraft.live import LiveRun, Request, Worker
from treegraft.settings import SettingError
from treegraft.trace import Run
from treegraft.view.library import name_of

AS_MEASURED = CostProfile()


@dataclass(frozen=True)
class Expected:
    """What was known when a run for real began: the recording `of` which it is, that one's text, the settings in words,
    and what the replay says of them; `counted` is where it has all but the speed from."""

    of: str
    text: list[int]
    settings: str
    predicted: dict[str, float | None]
    counted: Origin


def show_real(opened: Opened, found: Replays, changed: Mapping[str, Any], profile: CostProfile, known: bool) -> None:
    header = opened.run.header
    if why := why_not(header) or ("" if header.prompt.messages else "Only the prompt's tokens are recorded, not the "
                                  "conversation, so it cannot be asked again here."):
        st.info(plain(why))
        st.text("Where the models are, this records it from the command line:")
        st.code(command(header, changed, header.level), language=None, wrap_lines=True)
        return
    work: LiveRun | None = st.session_state.get("real run")
    st.text(f"Decodes the prompt of this recording again with {in_words(changed)}, and records it.")
    if profile != AS_MEASURED:
        st.caption("The machine takes the time that it takes: the prediction below is for costs as measured.")
    st.button("Run it for real", type=emphasis(), icon=":material/play_arrow:", on_click=begin,
              args=(opened, found, changed, known), disabled=work is not None and work.snapshot().is_live)
    if problem := st.session_state.pop("real problem", ""):
        st.error(plain(problem))
    if work is not None and st.session_state["real expected"].of == opened.key:
        polled(show_work, work)


def in_words(changed: Mapping[str, Any]) -> str:
    return visible(", ".join(f"{name} {value}" for name, value in changed.items())) or "the recorded settings"


def begin(opened: Opened, found: Replays, changed: Mapping[str, Any], known: bool) -> None:
    """Start the run, and keep what the replay says of it."""
    header = opened.run.header
    try:
        request = Request(policy=change(found.whatif.policy, **changed), prompt=header.prompt.messages,
                          max_new_tokens=header.decoding.max_new_tokens, level=header.level, **as_recorded(header))
    except (BranchError, SettingError) as error:
        st.session_state["real problem"] = str(error)
        return
    replay = found.under(changed) if known else None
    guess = predicted(found.whatif, replay) if isinstance(replay, Replay) else {}
    st.session_state["real expected"] = Expected(opened.key, opened.run.output, in_words(changed), guess,
                                                 found.whatif.counted)
    st.session_state["real run"] = LiveRun(request).start()


def predicted(whatif: WhatIf, replay: Replay) -> dict[str, float | None]:
    """What the replay says of the run."""
    return {"tau": replay.tau, "rounds": len(replay.rounds), "verified nodes": replay.nodes,
            "tokens/s": tokens_per_second(whatif, replay, AS_MEASURED)}


def outcome(run: Run) -> dict[str, float | None]:
    """The same, as it came out."""
    accepted = sum(round.accepted for round in run.rounds)
    nodes = sum(len(round.event("verify").order) - 1 for round in run.rounds)
    return {"tau": 1 + accepted / max(1, len(run.rounds)), "rounds": len(run.rounds), "verified nodes": nodes,
            "tokens/s": decode_speed(run)}


def show_work(work: Worker, live: bool) -> None:
    """How far the run is; at its end, what became of the prediction."""
    expected: Expected = st.session_state["real expected"]
    st.markdown(f"**Run with {plain(expected.settings)}**")
    show_worker(work, live)
    now = work.snapshot()
    if not now.is_live and now.state != "failed" and now.run and now.path:
        show_outcome(expected, now.run, now.path)
        if note := other_dtype(work.request.dtype, now.run.header.target.dtype):
            st.caption(plain(note))


def show_outcome(expected: Expected, run: Run, path: Path) -> None:
    """The prediction beside the run, and the way to its recording."""
    guess, came = expected.predicted, outcome(run)
    origin_badge("measured")
    rows = [{"": name, "predicted": guess.get(name), "outcome": value,
             "the prediction was": "not possible" if guess.get(name) is None else
                                   "estimated" if name == "tokens/s" else expected.counted}
            for name, value in came.items()]
    number = st.column_config.NumberColumn(format="%.2f")
    st.dataframe(pd.DataFrame(rows), hide_index=True, column_config={"predicted": number, "outcome": number})
    place = first_difference(expected.text, run.output)
    st.text("The text is the recorded one, token for token." if place is None else
            f"The text differs from the recorded one from token {place} on, so counts may differ as well.")
    if st.button("Open the new recording", icon=":material/account_tree:"):
        go_to(TREE_PAGE, {"trace": name_of(path)})
