"""The output text by round: characters split over tokens, discarded tokens, and what may not reach a screen."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.strategies import make_run, runs
from treegraft.analysis.text import PREFILL, chunks, token_texts, visible
from treegraft.trace.replay import ending


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:stop] for start, stop in pairwise(places)]


@settings(max_examples=50, deadline=None)
@given(st.text(), st.lists(st.integers(0, 1000)))
def test_joined_token_texts_are_the_text_however_it_is_split(text, cuts):
    assert "".join(token_texts(split(text.encode(), cuts))) == text


def test_a_split_character_belongs_to_the_token_that_completes_it():
    smile = "😀".encode()
    assert token_texts([b"a", smile[:1], smile[1:3], smile[3:] + b"b"]) == ["a", "", "", "😀b"]


def test_broken_bytes_are_replaced_where_they_stand():
    assert token_texts([b"\xf0\x9f", b" hello", b"\xff\xfe", b"\xc3"]) == ["\ufffd", " hello", "\ufffd", "\ufffd"]


@settings(max_examples=50, deadline=None)
@given(runs())
def test_chunks_hold_the_output_token_by_token(run):
    parts = chunks(run)
    kept = [token for part in parts for token in part.tokens if token.kind != "discarded"]
    assert [token.id for token in kept] == run.output
    assert parts[0].round == PREFILL
    assert [part.round for part in parts[1:]] == [round.index for round in run.rounds]
    for part, round in zip(parts[1:], run.rounds, strict=True):
        assert [token.kind for token in part.tokens].count("drafted") == round.accepted
        assert [token.kind for token in part.tokens].count("discarded") == round.event("accept").discarded
        assert all(token.round == round.index for token in part.tokens)
    if "\ufffd" not in run.text:
        assert "".join(part.text for part in parts) == run.text


@settings(max_examples=50, deadline=None)
@given(runs(min_rounds=2, max_rounds=4), st.integers(0, 3), st.integers(1, 3))
def test_a_window_shows_its_rounds_alone(run, first, count):
    first = min(first, len(run.rounds) - 1)
    lead, *window = chunks(run, first, count)
    assert [token.id for token in lead.tokens] == [run.records[first].root]
    assert [(part.round, [token.id for token in part.tokens]) for part in window] == [
        (part.round, [token.id for token in part.tokens]) for part in chunks(run)[1:][first:first + count]]


def test_a_character_split_over_two_rounds_is_shown_once():
    run = make_run(Random(1), [(0, 1), (0, 1)])
    first, second = (ending(record)[1] for record in run.records)
    first.bonus, second.bonus, second.discarded = 15, 16, 0
    assert [part.text for part in chunks(run)[1:]] == ["", "😀"]


def test_discarded_bytes_do_not_complete_the_text():
    run = make_run(Random(1), [(0, 1), (0, 1)])
    first, second = (ending(record)[1] for record in run.records)
    first.bonus, second.bonus, second.discarded = 15, 16, 1
    assert chunks(run)[1].text == "\ufffd"
    assert chunks(run)[2].text == ""


def test_a_token_without_piece_is_replaced():
    run = make_run(Random(1), [])
    run.pieces.clear()
    assert [part.text for part in chunks(run)] == ["\ufffd"] == [run.text]


@pytest.mark.parametrize(("text", "shown"), [
    ("plain <b>é日😀", "plain <b>é日😀"),
    ("a\nb\r\t", "a\\nb\\r\\t"),
    ("\x1b[31m\x07", "\\x1b[31m\\x07"),
    ("\u202eabc\u2066\u200b", "\\u202eabc\\u2066\\u200b"),
    ("\ud800\u2028\U000e0041", "\\ud800\\u2028\\U000e0041"),
])
def test_visible_escapes_what_moves_hides_or_reorders(text, shown):
    assert visible(text) == shown


def test_visible_keeps_what_it_is_told_to():
    assert visible("a\n\x1b", keep="\n") == "a\n\\x1b"
