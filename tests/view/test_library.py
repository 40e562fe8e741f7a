"""The list of traces that the dashboard offers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treegraft.view import library


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    (tmp_path / "recordings").mkdir()
    return tmp_path / "recordings"


def test_what_is_no_file_is_not_offered(folder):
    (folder / "mine.jsonl").write_text("")
    (folder / "gone.jsonl").symlink_to(folder / "nothing")
    (folder / "folder.jsonl").mkdir()
    assert [name for name, path in library.traces().items() if path.parent == folder] == ["mine"]


def test_a_name_of_bytes_that_are_no_text_is_left_out(folder):
    (folder / "mine.jsonl").write_text("")
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.jsonl.zst")).write_text("")
    assert [name for name, path in library.traces().items() if path.parent == folder] == ["mine"]


def test_titles_show_what_acts_or_cannot_be_seen():
    assert library.titles_of(["\u202eevil", "new\nline"]) == {"\u202eevil": "\\u202eevil", "new\nline": "New\\nline"}
    assert library.titles_of(["\u202ea_b", "\u202ea-b"]) == {"\u202ea_b": "\\u202ea_b", "\u202ea-b": "\\u202ea-b"}


def test_a_file_that_goes_while_the_list_is_made_is_the_oldest(folder):
    assert library.changed_at(folder / "gone.jsonl") == 0


@given(st.lists(st.text("aAbB_- 1", max_size=3), unique=True))
def test_titles_are_told_apart(names):
    titles = library.titles_of(names)
    assert list(titles) == names
    assert len(set(titles.values())) == len(names)


def test_a_file_that_is_nothing_but_an_ending_has_a_name():
    assert library.name_of(Path(".jsonl")) == ".jsonl"
    assert library.name_of(Path("sky.jsonl.zst")) == "sky"
