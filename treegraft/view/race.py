"""The lane of plain decoding beside a live run: its text, and when each token of it came."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from treegraft.analysis.text import RUNNING_TEXT, chunks, visible
from treegraft.view.labels import cut
from treegraft.view.model import TEXT_LENGTH

if TYPE_CHECKING:
    from treegraft.trace.reader import Run


def lane_view(plain: Run) -> dict[str, Any]:
    """`text` holds what each round of the plain run wrote (first what reading the prompt did), `times` the
    microseconds since it began to read the prompt, recording left out."""
    first = plain.prefill.microseconds if plain.prefill else 0
    totals = (record.times.get("total", 0) for record in plain.records)
    text = ["".join(token.text for token in chunk.tokens if token.kind != "discarded") for chunk in chunks(plain, 0)]
    return {"text": [cut(visible(part, keep=RUNNING_TEXT), TEXT_LENGTH) for part in text],
            "times": list(accumulate(totals, initial=first))}
