"""Notes beside a recording: edits, damaged and read-only files, and people who write at the same time."""

from __future__ import annotations

import json
import threading

import pytest

from treegraft import notes
from treegraft.notes import (
    MOST_NOTES,
    TEXT_LENGTH,
    NotesError,
    NotesFile,
    SessionNotes,
    adding,
    changing,
    deleting,
    new_note,
    notes_path,
)


@pytest.fixture
def book(tmp_path) -> NotesFile:
    return NotesFile(tmp_path / "new" / "mine.notes.json", "mine")


def test_notes_are_kept_and_changed(book):
    assert book.read() == []
    first, second = new_note("look", run=0, round=3, event=2, node=7), new_note("<b>here</b>", run=1, round=0)
    book.edit(adding(first))
    book.edit(adding(second))
    assert book.read() == [first, second]
    assert NotesFile(book.path, "mine").read() == [first, second]
    book.edit(changing(first.id, "look again"))
    book.edit(deleting(second.id))
    kept = book.read()
    assert [(note.text, note.round, note.event, note.node, note.created) for note in kept] == [
        ("look again", 3, 2, 7, first.created)]
    assert json.loads(book.path.read_bytes())["trace"] == "mine"


def test_notes_that_were_written_by_hand_with_one_name_are_told_apart(book):
    book.edit(adding(new_note("one", run=0, round=0)))
    content = json.loads(book.path.read_bytes())
    content["notes"] = [content["notes"][0] | {"text": text} for text in ("one", "two", "three")]
    book.path.write_text(json.dumps(content))
    read = book.read()
    assert len({note.id for note in read}) == 3
    book.edit(deleting(read[1].id))
    assert [note.text for note in book.read()] == ["one", "three"]


def test_a_bonus_can_be_noted(book):
    book.edit(adding(new_note("x", run=0, round=0, node="bonus")))
    assert book.read()[0].node == "bonus"


def test_edits_at_the_same_time_lose_nothing(book):
    def write(number: int) -> None:
        for turn in range(5):
            NotesFile(book.path, "mine").edit(adding(new_note(f"{number}.{turn}", run=0, round=number)))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(note.text for note in book.read()) == sorted(f"{a}.{b}" for a in range(4) for b in range(5))


def test_too_long_too_many_and_gone(book):
    with pytest.raises(NotesError, match=f"allowed: {TEXT_LENGTH}"):
        book.edit(adding(new_note("x" * (TEXT_LENGTH + 1), run=0, round=0)))
    with pytest.raises(NotesError, match="deleted in the meantime"):
        book.edit(changing("gone", "x"))
    full = SessionNotes([new_note("x", run=0, round=0)] * MOST_NOTES)
    with pytest.raises(NotesError, match="Delete some"):
        full.edit(adding(new_note("y", run=0, round=0)))
    assert len(full.read()) == MOST_NOTES


@pytest.mark.parametrize("content", [b"", b"hello", b"[]", b'{"notes": [{"id": "a"}]}', b"\xff\xfe", b"[" * 99_999,
                                     b'{"notes": [{"id": "a", "text": "x", "round": -1}]}'])
def test_a_damaged_file_is_left_alone(book, content):
    book.path.parent.mkdir()
    book.path.write_bytes(content)
    with pytest.raises(NotesError, match="holds no notes"):
        book.read()
    with pytest.raises(NotesError, match="Repair the file"):
        book.edit(adding(new_note("x", run=0, round=0)))
    assert book.path.read_bytes() == content


def test_a_file_that_is_too_large(book, monkeypatch):
    monkeypatch.setattr(notes, "LARGEST", 100)
    book.path.parent.mkdir()
    book.path.write_bytes(b'{"notes": []}' + b" " * 100)
    with pytest.raises(NotesError, match="larger than"):
        book.read()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(NotesError, match="set TREEGRAFT_HOME"):
        NotesFile(tmp_path / "file" / "mine.notes.json", "mine").edit(adding(new_note("x", run=0, round=0)))


def test_notes_lie_beside_recordings_and_go_with_the_content_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    own = tmp_path / "recordings" / "mine.jsonl.zst"
    own.parent.mkdir()
    assert notes_path(own) == tmp_path / "recordings" / "mine.notes.json"
    first, same, other = (tmp_path / name for name in "abc")
    for path, content in ((first, b"one"), (same, b"one"), (other, b"two")):
        path.write_bytes(content)
    assert notes_path(first) == notes_path(same) != notes_path(other)
    assert notes_path(first).parent == tmp_path / "notes"


def test_session_notes_are_read_as_a_copy():
    kept: list = []
    book = SessionNotes(kept)
    book.edit(adding(new_note("x", run=0, round=0)))
    book.read().clear()
    assert len(kept) == len(book.read()) == 1
