"""Lists of prompts for a talk."""

from __future__ import annotations

import pytest

from treegraft.playlist import FILE_MEGABYTES, MOST_PROMPTS, opening_list, read_list
from treegraft.prompts import PromptError, bundled


def test_it_opens_with_an_example_of_each_category():
    categories = [one.category for one in opening_list()]
    assert len(set(categories)) == len(categories)
    assert set(categories) == {one.category for one in bundled()}


@pytest.mark.parametrize(("name", "data"), [
    ("a.txt", "\ufeffone\r\n\r\n  two \n"), ("a.json", '["one", "two"]'),
    ("a.jsonl", '{"text": "one"}\n{"turns": ["two", "x"]}\n')])
def test_files(name, data):
    assert [prompt.turns[0] for prompt in read_list(name, data.encode())] == ["one", "two"]


@pytest.mark.parametrize(("name", "data", "words"), [
    ("a.txt", b" \n", "a.txt: no prompt in it"), ("a.txt", b"\xff\xfe\x00", "a.txt: not UTF-8"),
    ("C:\\x\\b.json", b"{", "b.json, line 1: not JSON"),
    ("a.json", b'["\\ud800"]', "a.json, item 1: not valid text"),
    ("../b.csv", b"x", "b.csv: prompts are read from"),
    ("a.txt", b"x\n" * (MOST_PROMPTS + 1), f"at most {MOST_PROMPTS}"), ("a.txt", b"x" * 200_001, "line 1: longer than"),
    ("a.txt", b"x" * ((FILE_MEGABYTES << 20) + 1), f"larger than {FILE_MEGABYTES} MB")])
def test_files_that_are_refused_by_name(name, data, words):
    with pytest.raises(PromptError) as caught:
        read_list(name, data)
    assert words in str(caught.value)
    assert "/" not in str(caught.value).split(":")[0]
