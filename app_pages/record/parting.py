"""Whether the two texts of a race are the same, and why not."""

from __future__ import annotations

import streamlit as st

from app_pages.record.words import plain
from treegraft.analysis.align import parting
from treegraft.live import Request, Snapshot
from treegraft.view.compare_words import margin
from treegraft.view.labels import label

CAUSES = {
    "near tie": "The target's two best tokens are nearly tied there ({margin}), and rounding in {dtype} lets a near "
                "tie fall either way: a tree adds up the same numbers in another order than plain decoding. This is "
                "no bug.",
    "unknown": "How close the target's two best tokens are there was not recorded.",
    "unexplained": "The target clearly preferred one token there ({margin}), so both texts should have it. Please "
                   "report this with the recording.",
}
"""What explains that two greedy texts of the same models part."""


def show_parting(request: Request, now: Snapshot) -> None:
    """Where the finished texts of a race part although neither was drawn, and why."""
    if not (now.plain and now.run and now.run.end) or request.sampling.temperature > 0:
        return
    found = parting(now.plain, now.run)
    if found is None or found.verdict not in CAUSES:
        return
    runs = now.plain, now.run
    slow, fast = (label(run.pieces.get(token)) for run, token in zip(runs, found.tokens, strict=True))
    known = [one for one in found.margins if one is not None]
    cause = CAUSES[found.verdict].format(margin=margin(min(known, default=None)), dtype=now.run.header.target.dtype)
    st.info(plain(f"The two texts part at position {found.position}, where plain decoding wrote “{slow}” and "
                  f"{request.policy.name} wrote “{fast}”. {cause}"))
