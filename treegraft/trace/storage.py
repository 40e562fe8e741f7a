"""The text of a trace file, plain or zstd, with random access and bounded memory.

A `.jsonl.zst` file is a row of independent zstd frames of about 64 kB of text, so that any part of it can be read by
unpacking a frame or two. The file itself is held in memory as it lies on disk; unpacked frames are not.
"""

from __future__ import annotations

import functools
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Protocol

import zstandard

from treegraft.trace.codec import TraceError

MAGIC = b"\x28\xb5\x2f\xfd"
FRAME_TEXT = 1 << 16
"""Bytes of text after which a writer starts a new frame."""

MAX_FILE = 2 << 30
MAX_TEXT = 2 << 30
MAX_LINE = 32 << 20
MAX_LINES = 2_000_000
MAX_FRAMES = 100_000
MAX_FRAME_TEXT = 64 << 20
MAX_WINDOW = 8 << 20
LONGEST_HEADER = 18
"""Bytes of the longest zstd frame header."""
STEP = 2048
"""Packed bytes unpacked at a time: the most that they can grow to (a 4-byte block may stand for 128 kB) is 64 MB."""


class Text(Protocol):
    """The unpacked text of a file."""

    def chunks(self) -> Iterator[bytes]:
        """All of the text, in order. Errors: `TraceError` for damage and for sizes beyond the limits."""

    def read(self, start: int, stop: int) -> bytes:
        """A part of what `chunks` gave before."""


def load(path: Path) -> Text:
    """The text of the file at `path`. Errors: `TraceError` where it cannot be read."""
    try:
        if "\0" in str(path) or not path.exists():
            raise TraceError("there is no such file; `treegraft record --out FILE` makes one", path=path)
        if path.is_dir():
            raise TraceError("is a folder; give a trace file (.jsonl or .jsonl.zst) in it", path=path)
        if not path.is_file():
            raise TraceError("is no regular file; give a trace file (.jsonl or .jsonl.zst)", path=path)
        if path.stat().st_size > MAX_FILE:
            raise TraceError(f"is larger than {MAX_FILE >> 30} GiB; split it by runs", path=path)
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path=path) from None
    return ZstdText(data) if data.startswith(MAGIC) else PlainText(data)


def split_lines(chunks: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Lines of a text that comes in chunks: where each starts, its bytes, and whether its newline is there.

    Errors: `TraceError` for a line, or a number of lines, beyond the limits.
    """
    start, count, carried = 0, 0, bytearray()
    for chunk in chunks:
        place = 0
        while place < len(chunk):
            stop = chunk.find(b"\n", place)
            part = chunk[place : stop if stop >= 0 else place + MAX_LINE + 1]
            if len(carried) + len(part) > MAX_LINE or count == MAX_LINES:
                raise TraceError(f"a trace has at most {MAX_LINES} lines of at most {MAX_LINE >> 20} MiB; this is more")
            if stop < 0:
                carried += part
                break
            line = bytes(carried) + part if carried else part
            carried.clear()
            yield start, line, True
            start, place, count = start + len(line) + 1, stop + 1, count + 1
    if carried:
        yield start, bytes(carried), False


class PlainText:
    """A file that is its own text."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def chunks(self) -> Iterator[bytes]:
        yield self._data

    def read(self, start: int, stop: int) -> bytes:
        return self._data[start:stop]


class ZstdText:
    """A file of zstd frames. `chunks` must have run before `read`."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._packed = array("Q")
        self._starts = array("Q", [0])
        self._frame = functools.lru_cache(maxsize=2)(lambda frame: unpack_frame(data, self._packed[frame])[0])

    def chunks(self) -> Iterator[bytes]:
        place = 0
        while place < len(self._data):
            if len(self._packed) == MAX_FRAMES:
                raise TraceError(f"has more than {MAX_FRAMES} zstd frames; unpack it with `zstd -d`")
            self._packed.append(place)
            text, place = unpack_frame(self._data, place)
            self._starts.append(self._starts[-1] + len(text))
            if self._starts[-1] > MAX_TEXT:
                raise TraceError(f"unpacks to more than {MAX_TEXT >> 30} GiB; split it by runs")
            yield text

    def read(self, start: int, stop: int) -> bytes:
        parts = []
        frame = bisect_right(self._starts, start) - 1
        while start < stop:
            begin, end = self._starts[frame], min(self._starts[frame + 1], stop)
            parts.append(self._frame(frame)[start - begin : end - begin])
            start, frame = end, frame + 1
        return b"".join(parts)


def unpack_frame(data: bytes, place: int) -> tuple[bytes, int]:
    """Unpack the zstd frame at `place`: its text, as far as the file goes, and the place after it.

    Errors: `TraceError` for a damaged frame, and for one that claims or yields more than `MAX_FRAME_TEXT`.
    """
    start, parts, size = place, [], 0
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).decompressobj()
    try:
        refuse_large(claimed_size(data, start))
        while not unpacker.eof and place < len(data):
            packed = data[place : place + STEP]
            parts.append(unpacker.decompress(packed))
            place += len(packed)
            size += len(parts[-1])
            refuse_large(size)
    except zstandard.ZstdError as error:
        raise TraceError(f"the zstd frame at byte {start} cannot be unpacked ({error}); get a fresh copy, or pack the "
                         f"text again with a window of at most {MAX_WINDOW >> 20} MiB (`zstd -19` or less)") from None
    return b"".join(parts), place - len(unpacker.unused_data)


def claimed_size(data: bytes, place: int) -> int:
    """Bytes of text that a frame's header claims, 0 where it does not say."""
    header = data[place : place + LONGEST_HEADER]
    size = zstandard.get_frame_parameters(header).content_size if len(header) == LONGEST_HEADER else 0
    return 0 if size == zstandard.CONTENTSIZE_UNKNOWN else size


def refuse_large(size: int) -> None:
    if size > MAX_FRAME_TEXT:
        raise TraceError(f"a zstd frame holds {size} bytes of text; allowed: {MAX_FRAME_TEXT >> 20} MiB. Unpack the "
                         "file with `zstd -d` and open the .jsonl file")
