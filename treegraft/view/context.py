"""The text that a run's drafters copied from: prompt and output as tokens with their positions, bounded in size."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from treegraft.analysis.text import token_texts, visible
from treegraft.trace.runs import MISSING
from treegraft.view.labels import cut

if TYPE_CHECKING:
    from treegraft.trace.runs import Run

WHOLE = 600
"""A context of this many tokens is given whole; of a longer one the places around what was copied."""

AROUND = 12
"""Tokens before and after a copied token that are given with it."""

MOST = 4000
"""The most tokens that are given."""

LONGEST = 24
"""Longest text of one token, in characters."""


def context_view(run: Run, views: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """The context of the rounds `views` as segments [first position, texts]; `prompt` counts the prompt's tokens.

    None where no drafter copied anything in these rounds."""
    sources = {source for view in views for _, source in view["copied"].values() if source is not None}
    if not sources:
        return None
    known = range(views[-1]["context"])
    near = {place for source in sources for place in range(source - AROUND, source + AROUND + 1)}
    wanted = known if len(known) <= WHOLE else sorted(place for place in near if place in known)[:MOST]
    segments: list[list[int]] = []
    for place in wanted:
        if not segments or place != segments[-1][-1] + 1:
            segments.append([])
        segments[-1].append(place)
    return {"prompt": len(run.header.prompt.tokens),
            "segments": [[places[0], _texts(run, tokens_at(run, places[0], len(places)))] for places in segments]}


def tokens_at(run: Run, first: int, count: int) -> list[int]:
    """The tokens of prompt and text from position `first` on; only the rounds that wrote them are read."""
    found = run.header.prompt.tokens[first: first + count]
    number = max(0, bisect_right(range(len(run.rounds)), first, key=lambda place: run.rounds[place].record.context) - 1)
    while len(found) < count and number < len(run.rounds):
        outcome = run.rounds[number].outcome
        start = first + len(found) - (outcome.context - 1)
        found = found + [outcome.root, *outcome.tokens[: outcome.taken]][start: start + count - len(found)]
        number += 1
    return found


def _texts(run: Run, tokens: Sequence[int]) -> list[str]:
    texts = token_texts([run.pieces.get(token, MISSING) for token in tokens])
    return [cut(visible(text.replace("\n", "\u21b5"), keep="\u200c\u200d\u3000"), LONGEST) for text in texts]
