"""Panel: attention mask, positions and KV caches of the round, and whether they are as they must be."""

from __future__ import annotations

import streamlit as st

from app_pages.shared.charts import chart
from app_pages.shared.look import theme
from app_pages.tree.shown import Shown, lead_to
from treegraft.analysis.inspection import Check, attention, broken, caches, checks
from treegraft.trace import Run
from treegraft.view.inspection_charts import cache_table, mask_figure, mask_reading, mask_table
from treegraft.view.player import Place

BADGES = {"holds": ("Holds", ":material/check:", "green"), "broken": ("Broken", ":material/close:", "red"),
          "unknown": ("Not known", ":material/question_mark:", "gray")}
MOST_ROUNDS = 24
"""Rounds with broken invariants that are offered at once."""


@st.cache_resource(max_entries=16, show_spinner="Checking the rounds …")
def broken_in(_run: Run, key: str) -> list[tuple[int, Check]]:
    return broken(_run)


def show_inspector(shown: Shown) -> None:
    round, records = shown.round, shown.run.records
    before = records[round.index - 1] if round.index else None
    after = records[round.index + 1] if round.index + 1 < len(records) else None
    st.markdown(f"**Round {round.index}: what must hold**")
    for check in checks(round.record, after, shown.run.header):
        words, icon, color = BADGES[check.verdict]
        with st.container(horizontal=True, gap="small"):
            st.badge(words, icon=icon, color=color, width=104)
            st.text(f"{check.name}: {check.numbers}", width="stretch")
    offer_broken(shown)
    st.markdown("**Tokens in the KV caches**", help="A model's KV cache keeps what it has computed for tokens that it "
                "has read. After a round it must hold the committed tokens alone: the root of the next round is read "
                "together with its tree.")
    st.dataframe(cache_table(shown.run, caches(round.record, before, shown.run.header, shown.run.prefill)),
                 hide_index=True)
    seen, tokens = attention(round.record), round.record.nodes.token
    st.markdown("**Attention mask**", help="In one forward the target reads all nodes at once. A node may see itself, "
                "its ancestors and the text before the tree, nothing of other branches. The mask is rebuilt from the "
                "recorded tree and the order in which it was sent.")
    chart(mask_figure(seen, [shown.token(tokens[node]) for node in seen.order], round.path, theme()), key="mask",
          reading=mask_reading(seen, round.path), table=mask_table(shown.run, seen, tokens))


def offer_broken(shown: Shown) -> None:
    """The other rounds in which something does not hold."""
    found = broken_in(shown.run, shown.opened.key)
    rounds = [number for number in dict.fromkeys(number for number, _ in found) if number != shown.round.index]
    if not found:
        st.caption(f"Nothing is broken in any of the {len(shown.run.rounds)} rounds.")
    elif rounds:
        st.text(f"Broken in {len(rounds)} other rounds:" if len(rounds) > 1 else "Broken in another round:")
        with st.container(horizontal=True):
            for number in rounds[:MOST_ROUNDS]:
                lead_to(shown, f"Round {number}", Place(number), key=f"broken {number}")
