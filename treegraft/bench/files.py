"""Files that a result goes to: new ones, or a place in a Markdown file whose rest stays as it is."""

from __future__ import annotations

from pathlib import Path

from treegraft.bench.errors import BenchError
from treegraft.files import write_whole


def check_file(path: Path, option: str, place: str = "") -> None:
    """Errors: `BenchError` for a path that cannot be written, before anything is measured.

    A file that exists is refused unless it has the `place` of a result."""
    if not path.parent.is_dir():
        raise BenchError(f"{option} was {path}, but there is no folder {path.parent}.")
    if path.is_dir():
        raise BenchError(f"{option} was {path}, which is a folder; name a file in it.")
    if path.exists():
        if not place:
            raise BenchError(f"{path} exists; name another file, or remove it.")
        split_document(path, place)


def marks(place: str) -> tuple[str, str]:
    """The lines of a Markdown file between which a result is put."""
    return f"<!-- treegraft {place}: begin -->", f"<!-- treegraft {place}: end -->"


def split_document(path: Path, place: str) -> tuple[str, str]:
    """The text before and after the place of a result in a Markdown file.

    Errors: `BenchError` for a file without such a place.
    """
    first, last = marks(place)
    before, begin, rest = path.read_text("utf-8").partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise BenchError(f"{path} exists and has no place for the result. Put the lines {first} and {last} where it "
                         "belongs, or name a new file.")
    return before, after


def put(path: Path, result: str, place: str) -> None:
    """Put a result into its place in the Markdown file at `path`, or make a file of it. Errors: `BenchError`."""
    before, after = split_document(path, place) if path.exists() else ("", "\n")
    begin, end = marks(place)
    write(path, f"{before}{begin}\n\n{result}\n{end}{after}")


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all. Errors: `BenchError`."""
    try:
        write_whole(path, text.encode())
    except OSError as error:
        raise BenchError(f"{path} could not be written: {error.strerror}.") from None
