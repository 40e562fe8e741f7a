"""Text of a trace for display: cut to a bounded length, everything that acts or cannot be seen shown as a sign."""

from __future__ import annotations

import unicodedata

from treegraft.analysis.text import visible

LABEL_LENGTH = 80
"""Longest display text of a token or a name, in characters."""

SIGNS = str.maketrans({" ": "\u00b7", "\n": "\u21b5", "\t": "\u21e5"} | {
    chr(0xDC00 + byte): f"\\x{byte:02x}" for byte in range(0x80, 0x100)})
"""Signs for what has no shape of its own; stray bytes come from decoding with surrogate escapes."""


def label(piece: bytes | None) -> str:
    """One token for display on one line, with signs for spaces, line breaks and stray bytes.

    A mark that combines with the letter before it gets a circle to stand on."""
    if piece is None:
        return "?"
    text = cut(piece.decode("utf-8", "surrogateescape"), LABEL_LENGTH)
    if unicodedata.category(text[:1] or " ").startswith("M"):
        text = "\u25cc" + text
    return visible(text.translate(SIGNS)) or "\u2205"


def name(text: str) -> str:
    """A name that a trace gives to something, for display on one line."""
    return cut(visible(text), LABEL_LENGTH)


def cut(text: str, length: int) -> str:
    """At most `length` characters of `text`."""
    return text if len(text) <= length else text[: length - 1] + "\u2026"
