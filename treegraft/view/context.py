"""The text that a run's drafters copied from: prompt and output as tokens with their positions, bounded in size."""

from __future__ import annotations

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
    prompt, end = run.header.prompt.tokens, views[-1]["context"]
    tokens = [*prompt, *_output(run, end - len(prompt))]
    near = {place for source in sources for place in range(source - AROUND, source + AROUND + 1)}
    wanted = range(len(tokens)) if len(tokens) <= WHOLE else sorted(near.intersection(range(len(tokens))))[:MOST]
    segments: list[tuple[int, list[int]]] = []
    for place in wanted:
        if not segments or place != segments[-1][0] + len(segments[-1][1]):
            segments.append((place, []))
        segments[-1][1].append(tokens[place])
    return {"prompt": len(prompt), "segments": [[first, _texts(run, inside)] for first, inside in segments]}


def _output(run: Run, length: int) -> list[int]:
    """The first `length` tokens of the text."""
    found: list[int] = []
    for record in run.rounds:
        if len(found) >= length:
            break
        outcome = record.outcome
        found += ([] if found else [outcome.root]) + outcome.tokens[: outcome.taken]
    return found[:length]


def _texts(run: Run, tokens: Sequence[int]) -> list[str]:
    texts = token_texts([run.pieces.get(token, MISSING) for token in tokens])
    return [cut(visible(text.replace("\n", "\u21b5"), keep="\u200c\u200d\u3000"), LONGEST) for text in texts]
