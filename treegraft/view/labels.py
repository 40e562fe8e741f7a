"""Text of a trace for display: cut to a bounded length, everything that acts or cannot be seen shown as a sign."""

from __future__ import annotations

import unicodedata

from treegraft.analysis.text import visible

LABEL_LENGTH = 80
"""Longest display text of a token or a name, in characters."""

MARKS = 4
"""Most marks in a row that combine with a letter; more of them would be drawn over the rows above."""

SIGNS = str.maketrans({" ": "\u00b7", "\n": "\u21b5", "\t": "\u21e5"} | {
    chr(0xDC00 + byte): f"\\x{byte:02x}" for byte in range(0x80, 0x100)})
"""Signs for what has no shape of its own; stray bytes come from decoding with surrogate escapes."""


def label(piece: bytes | None) -> str:
    """One token for display on one line, with signs for spaces, line breaks and stray bytes.

    A mark that combines with the letter before it gets a circle to stand on."""
    if piece is None:
        return "?"
    text = cut(few_marks(piece.decode("utf-8", "surrogateescape")), LABEL_LENGTH)
    if _combines(text[:1]):
        text = "\u25cc" + text
    return visible(text.translate(SIGNS)) or "\u2205"


def name(text: str) -> str:
    """A name that a trace gives to something, for display on one line."""
    return cut(few_marks(visible(text)), LABEL_LENGTH)


def few_marks(text: str) -> str:
    """`text` with the marks beyond the first ones on each letter left out; a sign says so."""
    kept: list[str] = []
    count = 0
    for letter in text:
        count = count + 1 if _combines(letter) else 0
        if count <= MARKS:
            kept.append(letter)
        elif count == MARKS + 1:
            kept.append("\u2026")
    return "".join(kept)


def _combines(letter: str) -> bool:
    return unicodedata.category(letter or " ").startswith("M")


def cut(text: str, length: int) -> str:
    """At most `length` characters of `text`."""
    return text if len(text) <= length else text[: length - 1] + "\u2026"
