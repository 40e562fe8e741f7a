"""Labels are short, and show what would be invisible or act."""

from __future__ import annotations

from treegraft.view.labels import LABEL_LENGTH, MARKS, cut, label, name

HOSTILE = {
    b"<img src=x onerror=alert(1)>": "<img\u00b7src=x\u00b7onerror=alert(1)>",
    "\u202eevil\u2066".encode(): "\\u202eevil\\u2066",
    b"\x00\x1b[31m": "\\x00\\x1b[31m",
    b"\n\n": "\u21b5\u21b5",
    b"\t": "\u21e5",
    b"\xf0\x9f": "\\xf0\\x9f",
    "\u0301".encode(): "\u25cc\u0301",
    b"": "\u2205",
    "\u200b\u00a0".encode(): "\\u200b\\xa0",
}


def test_labels_show_what_would_be_invisible_or_act():
    assert {piece: label(piece) for piece in HOSTILE} == HOSTILE
    assert label(None) == "?"


def test_what_is_long_is_cut():
    assert cut("abc", 3) == "abc"
    assert cut("abcd", 3) == "ab\u2026"
    assert len(label(b"x" * 1000)) == LABEL_LENGTH
    assert name("\u202e" + "x" * 1000).startswith("\\u202exxx")
    assert len(name("x" * 1000)) == LABEL_LENGTH


def test_marks_do_not_pile_up():
    assert label(("a" + "\u0301" * 500 + "b").encode()) == "a" + "\u0301" * MARKS + "\u2026b"
    assert label(("\u0301" * 500).encode()) == "\u25cc" + "\u0301" * MARKS + "\u2026"
    assert label("e\u0301\u0323 \u0e17\u0e35\u0e48".encode()) == "e\u0301\u0323\u00b7\u0e17\u0e35\u0e48"
    assert name("a" + "\u0301" * 500) == "a" + "\u0301" * MARKS + "\u2026"
