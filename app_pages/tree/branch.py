"""Panel: what a drafter and the target say at a node, and a new recording that goes on with a token of one's choice."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app_pages.record.watch import plain, polled
from app_pages.shared.charts import origin_badge
from app_pages.shared.look import emphasis
from app_pages.shared.recording import TREE_PAGE, go_to
from app_pages.shared.worker import show_worker
from app_pages.tree.shown import Shown
from treegraft.analysis.text import RUNNING_TEXT, visible
from treegraft.branch import (
    BONUS,
    Ask,
    BranchError,
    Choice,
    Question,
    branch_request,
    context_of,
    other_dtype,
    path_to,
    tokens_left,
    why_not,
)
from treegraft.drafters import SCORING
from treegraft.live import LiveRun, as_text
from treegraft.models.pairs import PAIRS
from treegraft.public import MOST_NEW_TOKENS, is_public
from treegraft.view.branch_table import choice_table, choice_title
from treegraft.view.library import name_of

LONGEST = 8192
SHOWN_BEFORE = 12
"""Tokens before the place that are shown."""

COMPARE_PAGE = "app_pages/compare/page.py"


def show_branch(shown: Shown) -> None:
    if why := why_not(shown.run.header):
        st.info(plain(why))
        return
    node = shown.node if shown.node is not None else 0
    tokens = [*context_of(shown.round), *path_to(shown.round, node)]
    before = "".join(shown.token(token) for token in tokens[-SHOWN_BEFORE:])
    st.text(f"After {'the bonus' if node == BONUS else f'node {node}'} of round {shown.round.index}: \u2026{before}")
    st.caption("The chosen node of the tree above. Click another one to ask there."
               if shown.node is not None else "No node is chosen, so this is the root. Click one in the tree above.")
    ask(shown, node)
    force(shown, node)


# --- asking ---------------------------------------------------------------------------------------------------------


def question_of(shown: Shown, node: int | str, drafter: str, typed: str = "") -> Question:
    header = shown.run.header
    settings = next((one.settings for one in header.drafters if one.name == drafter), {})
    return Question(header.target.name, drafter, tuple(context_of(shown.round)), tuple(path_to(shown.round, node)),
                    typed, header.target.dtype, as_text(settings))


def ask(shown: Shown, node: int | str) -> None:
    """The drafter to ask, the button, and the answer."""
    drafters = [known for known, spec in PAIRS[shown.run.header.target.name].drafters.items() if spec.kind in SCORING]
    used = [drafter.name for drafter in shown.run.header.drafters if drafter.name in drafters]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        drafter = st.selectbox("Drafter", drafters, drafters.index(used[-1]) if used else 0,
                               key="ask_drafter", width=220,
                               help="Drafters of the pair that give tokens probabilities, also those that this run did "
                                    "not use.")
        typed = st.text_input("One more token", key="ask_typed", width=220, placeholder="its text, or # and an id",
                              help="A token to look at beside the best ones. Most words begin with a space.")
        work: Ask | None = st.session_state.get("ask")
        busy = work is not None and work.snapshot().is_live
        st.button("Ask the models", key="ask_now", icon=":material/neurology:", disabled=busy, on_click=begin_ask,
                  args=(question_of(shown, node, drafter, typed or ""),))
    if work is not None and same_place(work.question, question_of(shown, node, drafter)):
        polled(show_worker, work)
        if work.answer:
            show_answer(shown, node, work)


def begin_ask(question: Question) -> None:
    st.session_state.ask = Ask(question).start()


def same_place(one: Question, other: Question) -> bool:
    return (one.context, one.path, one.drafter) == (other.context, other.path, other.drafter)


def show_answer(shown: Shown, node: int | str, work: Ask) -> None:
    origin_badge("measured")
    st.dataframe(pd.DataFrame(choice_table(shown.round, node, work.answer, work.question.drafter)), hide_index=True,
                 column_config={column: st.column_config.NumberColumn(format="%.4f")
                                for column in ("p of the target", f"p of {work.question.drafter}")},
                 alt="The best next tokens of the target and the drafter")
    st.caption("Asked now, before temperature: both read the text as they do while decoding.")
    if note := other_dtype(work.question.dtype, work.dtype):
        st.caption(plain(note))


# --- forcing --------------------------------------------------------------------------------------------------------


def force(shown: Shown, node: int | str) -> None:
    """The token to go on with, and the recording that does."""
    choices = offered(shown, node)
    st.markdown("**Force a token**", help="Records a new run: the text up to this node, then the token, then on with "
                "the policy, the drafters, their settings and the sampling of this run.")
    work: LiveRun | None = st.session_state.get("branch_run")
    busy = work is not None and work.snapshot().is_live
    if choices:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            token = st.selectbox("Token", list(choices), format_func=lambda token: choice_title(
                token, piece_of(shown, choices, token), choices[token]), key="force_token", width=320)
            most = MOST_NEW_TOKENS if is_public() else LONGEST
            limit = st.number_input("Most new tokens", 1, most, min(tokens_left(shown.round, node), most), width=160,
                                    key=f"force_limit {shown.opened.key} {shown.round.index} {node}")
            if st.button("Record the branch", key="force_now", icon=":material/call_split:", disabled=busy):
                begin_branch(shown, node, token, limit, choices)
    else:
        st.caption("Nothing was drafted below this node. Ask the models what comes next, then force one of the tokens.")
    if problem := st.session_state.pop("branch_problem", ""):
        st.error(plain(problem))
    if work is not None:
        show_branch_run(shown, work)


def offered(shown: Shown, node: int | str) -> dict[int, Choice | None]:
    """The tokens that can be forced: those of the answer, else the node's children."""
    work: Ask | None = st.session_state.get("ask")
    found: dict[int, Choice | None] = {}
    if work is not None and work.question.path == tuple(path_to(shown.round, node)) and (
            work.question.context == tuple(context_of(shown.round))):
        found = {choice.token: choice for choice in work.answer}
    nodes = shown.round.record.nodes
    for child in range(1, len(nodes.token)):
        if nodes.parent[child] == node:
            found.setdefault(nodes.token[child], None)
    eos = set(shown.run.header.decoding.eos)
    return {token: choice for token, choice in found.items() if token not in eos}


def piece_of(shown: Shown, choices: dict[int, Choice | None], token: int) -> bytes | None:
    choice = choices[token]
    return choice.piece if choice else shown.run.pieces.get(token)


def begin_branch(shown: Shown, node: int | str, token: int, limit: int, choices: dict[int, Choice | None]) -> None:
    pieces = {token: choice.piece for token, choice in choices.items() if choice}
    try:
        request = branch_request(shown.round, node, token, limit, trace=shown.opened.name, number=shown.opened.number,
                                 pieces=pieces)
        st.session_state.branch_run = LiveRun(request).start()
    except BranchError as error:
        st.session_state.branch_problem = str(error)
    st.rerun()


def show_branch_run(shown: Shown, work: LiveRun) -> None:
    """How far the branch is; once it has ended, where to look at it."""
    polled(show_worker, work)
    now, origin = work.snapshot(), work.request.prompt.branch.trace
    if now.is_live or not now.path or shown.opened.name != origin:
        return
    st.text(f"Recorded: {now.rounds} rounds, {now.tokens} tokens, in {name_of(now.path)}.")
    st.text("\u2026" + visible(now.run.text, keep=RUNNING_TEXT))
    if note := other_dtype(work.request.dtype, now.run.header.target.dtype):
        st.caption(plain(note))
    with st.container(horizontal=True):
        if st.button("Open the branch", key="open_branch", type=emphasis(), icon=":material/account_tree:"):
            go_to(TREE_PAGE, {"trace": name_of(now.path)})
        if st.button("Compare with this run", key="compare_branch", icon=":material/compare:"):
            go_to(COMPARE_PAGE, {"trace": origin, "with": name_of(now.path)})
