"""Kinds of tokens: exact examples, hostile pieces, and counts."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import make_run
from tests.view.examples import example
from treegraft.analysis.reached import judged
from treegraft.analysis.token_kinds import KINDS, by_kind, kind_of


@pytest.mark.parametrize(("piece", "before", "kind"), [
    (" the", "is", "word start"), ("The", "", "word start"), ("The", ".\n", "word start"), ("(see", "x", "word start"),
    (" \u00c9t\u00e9", "", "word start"), ("known", "well-", "word start"), ('"Yes', "said ", "word start"),
    ("ing", " learn", "continuation"), ("'s", " it", "continuation"), ("s", "'", "continuation"),
    ("rd", " 3", "continuation"), ("\u00e9", "caf", "continuation"), ("a", "e\u0301", "continuation"),
    ("7", " ", "digit"), (" 12", "", "digit"), ("3.5", "", "digit"), ("\u0665", "", "digit"), ("-1", "", "digit"),
    (".", "a", "punctuation"), (" \u2014", "", "punctuation"), ("\u201c", "", "punctuation"), ("?!", "", "punctuation"),
    ("\u00b0", "", "punctuation"), ("(", "", "punctuation"), ("\u20ac", "", "punctuation"),
    ("{", "", "code"), ("_name", "", "code"), ("=0", "", "code"), ("\\n", "", "code"), ("</p>", "", "code"),
    ("\u65e5", "", "non-Latin"), (" \u043c\u0438\u0440", "", "non-Latin"), ("\U0001f600", "", "non-Latin"),
    ("a\u03b2", "", "non-Latin"), ("\n\n", "", "white space"), ("    ", "", "white space"), ("\t", "", "white space"),
    ("\u2028", "", "white space"), ("", "", "other"), ("\x00", "", "other"), ("<|im_end|>", "", "other"),
    ("\u202e", "", "other"), ("\u200d", "", "other")])
def test_examples(piece, before, kind):
    assert kind_of(piece.encode(), before.encode()) == kind


def test_bytes_that_are_only_part_of_a_character():
    assert kind_of(b"\xf0\x9f") == kind_of(b"\x98\x80") == kind_of(b"\xff") == "non-Latin"
    assert kind_of(b"a", b"\xf0\x9f") == "word start"
    assert kind_of(b"a", "x\u00e9".encode()) == "continuation"


def test_hostile_pieces():
    assert kind_of(None) == "other"
    assert kind_of(b"a", None) == "word start"
    assert kind_of(b"x" * 10_000, b"y" * 10_000) == "continuation"
    assert kind_of(b"<|" * 5000) == "code"
    assert kind_of(b"<img src=x onerror=alert(1)>") == "code"


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_every_token_has_a_kind(piece, before):
    assert kind_of(piece, before) in KINDS


def test_counts_of_a_tree_checked_by_hand():
    run = example()
    found = {row.kind: row for row in by_kind(judged([run]), lambda place, token: run.pieces.get(token))}
    assert list(found) == ["word start"]
    row = found["word start"]
    assert (row.accepted, row.rejected, row.wanted) == (2, 2, 3)
    assert (row.share, row.covered) == (0.5, pytest.approx(2 / 3))
    assert row.accepted_in == row.rejected_in == [(0, 0)]


def test_kinds_add_up_to_the_judged_nodes():
    run = make_run(Random(4), [(3, 5)] * 9)
    found = judged([run])
    rows = by_kind(found, lambda place, token: run.pieces.get(token))
    assert sum(row.accepted for row in rows) == found.summary.accepted
    assert sum(row.accepted + row.rejected for row in rows) == len(found.nodes)
    assert sum(row.wanted for row in rows) == len(run.output) - 1
