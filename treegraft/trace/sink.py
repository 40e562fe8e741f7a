"""Appends text to a new trace file so that what was appended stays readable, whatever fails later.

Every append goes to the operating system at once. One that fails half-way, on a full disk or by Ctrl-C, is undone.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import zstandard

from treegraft.trace.codec import TraceError
from treegraft.trace.storage import FRAME_TEXT

LEVEL = 3
WINDOW_LOG = 20


def open_sink(path: Path, *, overwrite: bool) -> Sink:
    """A sink for `.jsonl` or `.jsonl.zst`; the file appears with the first append. Errors: `TraceError`."""
    try:
        return _open_sink(path, overwrite)
    except TraceError:
        raise
    except (OSError, ValueError) as error:  # too long a name, a NUL in it
        raise TraceError(f"cannot be made: {getattr(error, 'strerror', error)}", path=path) from None


def _open_sink(path: Path, overwrite: bool) -> Sink:
    if path.name.endswith(".jsonl.zst"):
        kind: type[Sink] = ZstdSink
    elif path.name.endswith(".jsonl"):
        kind = Sink
    else:
        raise TraceError("is no name for a trace; end it with .jsonl or .jsonl.zst", path=path)
    if not path.parent.is_dir():
        raise TraceError(f"cannot be made: there is no folder {path.parent}", path=path)
    if not os.access(path.parent, os.W_OK):
        raise TraceError(f"cannot be made: the folder {path.parent} does not let you write", path=path)
    if path.is_dir() or (path.exists() and not overwrite):
        raise TraceError("exists already; give another name, or allow it to be overwritten", path=path)
    return kind(path, overwrite)


class Sink:
    """Plain text. Errors: `OSError` from `append` and `close`."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        self._path, self._overwrite = path, overwrite
        self._file: io.FileIO | None = None
        self._sound = 0

    def append(self, text: bytes) -> None:
        try:
            self._append(text)
        except BaseException:
            self._undo()
            raise

    def close(self) -> None:
        if self._file:
            self._file.close()

    def _append(self, text: bytes) -> None:
        self._write(text)
        self._sound += len(text)

    def _undo(self) -> None:
        if self._file:
            self._file.truncate(self._sound)
            self._file.seek(self._sound)

    def _write(self, data: bytes) -> None:
        if self._file is None:
            if self._overwrite:
                self._path.unlink(missing_ok=True)
            self._file = io.FileIO(self._path, "xb")
        view = memoryview(data)
        while view:
            view = view[self._file.write(view):]


class ZstdSink(Sink):
    """Zstd frames of `FRAME_TEXT` bytes of text or a little more. A frame's blocks are written as they are made, so
    that the text of an unfinished frame can be read."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        super().__init__(path, overwrite)
        self._start, self._frame = 0, b""
        self._packer: zstandard.ZstdCompressionObj | None = new_packer()

    def close(self) -> None:
        if self._frame and self._packer:
            self._write(self._packer.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
        super().close()

    def _append(self, text: bytes) -> None:
        frame = self._frame + text
        if self._packer is None:
            self._sound, text = self._start, frame
            super()._undo()
            self._packer = new_packer()
        full = len(frame) >= FRAME_TEXT
        flush = zstandard.COMPRESSOBJ_FLUSH_FINISH if full else zstandard.COMPRESSOBJ_FLUSH_BLOCK
        self._write(self._packer.compress(text) + self._packer.flush(flush))
        self._sound = self._file.tell()
        if full:
            self._start, self._frame = self._sound, b""
            self._packer = new_packer()
        else:
            self._frame = frame

    def _undo(self) -> None:
        super()._undo()
        self._packer = None  # it has taken in the text that failed: the next append packs the frame anew


def new_packer() -> zstandard.ZstdCompressionObj:
    parameters = zstandard.ZstdCompressionParameters.from_level(LEVEL, window_log=WINDOW_LOG, write_checksum=1)
    return zstandard.ZstdCompressor(compression_params=parameters).compressobj()
