"""Notes on places of a recording, kept in a small JSON file beside it.

Every edit reads the file, changes one note and writes the file whole, under a lock: two people who write at the same
time both find their notes there.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Protocol
from uuid import uuid4

import msgspec
from filelock import FileLock, Timeout
from msgspec import Meta

from treegraft.files import write_whole
from treegraft.home import home, recordings
from treegraft.view.library import name_of

MOST_NOTES = 500
TEXT_LENGTH = 2000
"""Of one note, in characters."""

LARGEST = 1 << 23
"""Bytes of a file: more than the most notes can take."""

PATIENCE = 10
"""Seconds to wait for somebody else's edit."""

Number = Annotated[int, Meta(ge=0, lt=2**31)]


class NotesError(ValueError):
    """Notes that cannot be read, kept or changed; the text says why and what to do."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A note on a place: run, round, perhaps an event of it, perhaps a node (a number, or `bonus`)."""

    id: Annotated[str, Meta(max_length=64)]
    text: Annotated[str, Meta(max_length=TEXT_LENGTH)]
    run: Number = 0
    round: Number = 0
    event: Number | None = None
    node: Number | Literal["bonus"] | None = None
    created: Annotated[str, Meta(max_length=64)] = ""


class Contents(msgspec.Struct, kw_only=True):
    """What a file of notes holds. `trace` names the recording, for people."""

    trace: Annotated[str, Meta(max_length=1000)] = ""
    notes: Annotated[list[Note], Meta(max_length=MOST_NOTES)] = []


Edit = Callable[[list[Note]], list[Note]]


class Notebook(Protocol):
    """Where the notes on one recording are kept."""

    def read(self) -> list[Note]:
        """All notes, in the order in which they were written. Errors: `NotesError`."""
        ...

    def edit(self, edit: Edit) -> None:
        """Change them. Errors: `NotesError`; then nothing has changed."""
        ...


# --- edits ----------------------------------------------------------------------------------------------------------


def new_note(text: str, *, run: int, round: int, event: int | None = None, node: int | str | None = None) -> Note:
    """A note with a name and a time of its own."""
    return Note(id=uuid4().hex, text=text, run=run, round=round, event=event, node=node,
                created=datetime.now(UTC).isoformat(timespec="seconds"))


def adding(note: Note) -> Edit:
    """Errors, when it is applied: `NotesError` for a text that is too long, or one note too many."""
    def edit(notes: list[Note]) -> list[Note]:
        check_text(note.text)
        if len(notes) >= MOST_NOTES:
            raise NotesError(f"There are {len(notes)} notes on this recording, the most that are kept. Delete some.")
        return [*notes, note]
    return edit


def changing(id: str, text: str) -> Edit:
    """Errors, when it is applied: `NotesError` for a text that is too long, or a note that is no longer there."""
    def edit(notes: list[Note]) -> list[Note]:
        check_text(text)
        if all(note.id != id for note in notes):
            raise NotesError("This note was deleted in the meantime. Write it as a new one.")
        return [msgspec.structs.replace(note, text=text) if note.id == id else note for note in notes]
    return edit


def deleting(id: str) -> Edit:
    return lambda notes: [note for note in notes if note.id != id]


def check_text(text: str) -> None:
    """Errors: `NotesError` for a text that is too long."""
    if len(text) > TEXT_LENGTH:
        raise NotesError(f"The note has {len(text)} characters; allowed: {TEXT_LENGTH}. Shorten it.")


def encoded(notes: list[Note], trace: str) -> bytes:
    """Notes as their file has them."""
    return msgspec.json.format(msgspec.json.encode(Contents(trace=trace, notes=notes)), indent=1) + b"\n"


# --- where they are kept --------------------------------------------------------------------------------------------


class NotesFile:
    """Notes in a file, which is made by the first of them. `trace` names the recording."""

    def __init__(self, path: Path, trace: str) -> None:
        self.path, self.trace = path, trace

    def read(self) -> list[Note]:
        try:
            with self.path.open("rb") as file:
                content = file.read(LARGEST + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NotesError(f"The notes in {self.path} cannot be read: {error.strerror}.") from None
        try:
            if len(content) > LARGEST:
                raise NotesError(f"{self.path} is larger than {LARGEST >> 20} MB, so these are no notes. Move the file "
                                 "away.")
            return distinct(msgspec.json.decode(content, type=Contents).notes)
        except (msgspec.DecodeError, RecursionError) as error:
            raise NotesError(f"{self.path} holds no notes that can be read ({error}). Repair the file, or move it "
                             "away.") from None

    def edit(self, edit: Edit) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=PATIENCE):
                write_whole(self.path, encoded(edit(self.read()), self.trace))
        except Timeout:
            raise NotesError("Somebody else is writing notes on this recording. Try again.") from None
        except OSError as error:
            raise NotesError(f"The note cannot be kept in {self.path.parent}: {error.strerror or error}. Make the "
                             "folder writable, or set TREEGRAFT_HOME to one that is.") from None


def distinct(notes: list[Note]) -> list[Note]:
    """The notes with a name each: a file that was written by hand may name two alike."""
    known: Counter[str] = Counter()
    found = []
    for note in notes:
        count = known[note.id]
        known[note.id] += 1
        found.append(msgspec.structs.replace(note, id=f"{note.id}/{count}") if count else note)
    return found


class SessionNotes:
    """Notes that are kept in a list, for as long as that lives."""

    def __init__(self, notes: list[Note]) -> None:
        self._notes = notes

    def read(self) -> list[Note]:
        return list(self._notes)

    def edit(self, edit: Edit) -> None:
        self._notes[:] = edit(self.read())


def notes_path(trace: Path) -> Path:
    """Where the notes on a recording are kept: beside it among the user's recordings, else (demos, uploads) in the
    folder `notes` below treegraft's own, by what the file holds. Errors: `OSError` if it cannot be read."""
    if trace.parent.resolve() == recordings().resolve():
        return trace.with_name(f"{name_of(trace)}.notes.json")
    with trace.open("rb") as file:
        return home() / "notes" / f"{hashlib.file_digest(file, 'sha256').hexdigest()}.json"
