"""Writes traces, also for decode loops that are not treegraft's own.

Your own loop is recorded in a few lines; this one tries one drafted token a round. Log-probabilities are integers in
1e-5 nats, times are microseconds, and `treegraft.trace.records` explains every field.

    from treegraft.trace import Writer, records as r

    with Writer("mine.jsonl.zst") as trace:
        trace.write(r.Header(created="2026-01-31", target=r.TargetInfo(name="big"), policy=r.PolicyInfo(name="mine"),
                             drafters=[r.DrafterInfo(id=0, kind="lm", name="small")], prompt=r.Prompt(tokens=prompt)))
        trace.pieces(pieces)
        root, context = target(prompt), len(prompt) + 1
        for index in range(10):
            draft = drafter(root)
            choice, after = target([root]), target([root, draft])
            path, bonus = ([1], after) if draft == choice else ([], choice)
            trace.write(r.Round(index=index, context=context, root=root, nodes=r.Nodes(
                token=[root, draft], parent=[-1, 0], origin=[-1, 0], score=[0, -9000], proposers=[0, 1]), events=[
                    r.Expand(layer=1, drafter=0, parents=[0], nodes=[1], scores=[-9000]),
                    r.Verify(order=[0, 1], argmax=[choice, after], logprob=[0, -5000]),
                    r.Accept(rule="greedy", path=path, tried=[], bonus=bonus)]))
            root, context = bonus, context + len(path) + 1
        trace.write(r.End(reason="length", new_tokens=context - len(prompt), microseconds=5000))

Leaving the block early, by Ctrl-C or an error, still ends the trace in good order.
"""

from __future__ import annotations

import base64
import errno
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from treegraft.trace import check, codec
from treegraft.trace.codec import TraceError
from treegraft.trace.records import End, Header, Other, Pieces, Prefill, Probe, Record, Round
from treegraft.trace.replay import outcome
from treegraft.trace.sink import open_sink
from treegraft.trace.storage import MAX_LINE


class Writer:
    """Writes one or more runs to a new trace file, `.jsonl` or `.jsonl.zst`.

    Records are checked before they are written, and are in the file when `write` returns (pieces with the record after
    them), so that a crash loses nothing that was written. A file that exists is refused unless `overwrite` is true.
    Leaving the `with` block ends a run that has no end yet.

    Errors: `TraceError` for a name or a record that does not fit, and where the disk is full or refuses to write; what
    was written before stays readable.
    """

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._sink = open_sink(self.path, overwrite=overwrite)
        self._waiting = b""
        self._run: _Run | None = None
        self._closed = ""

    def write(self, record: Record) -> None:
        """Append a record: a run is a header, at most one prefill, rounds in order, and an end."""
        kind = record.kind if isinstance(record, Other) else type(record).__struct_config__.tag
        try:
            if self._closed:
                raise TraceError(self._closed)
            line = codec.encode(record)
            if len(line) > MAX_LINE:
                raise TraceError(f"a {kind} record takes {len(line)} bytes; allowed: {MAX_LINE >> 20} MiB")
            record = codec.decode(line, kind)  # what a reader will see: types and ranges are checked
            self._check(record, kind)
        except TraceError as error:
            raise error.at(self.path) from None
        if isinstance(record, Header):
            self._run = _Run(record)
        self._run.kinds.add(kind)
        self._append(line, wait=kind == "pieces")
        self._run.note(record)

    def pieces(self, pieces: Mapping[int, bytes]) -> None:
        """Append the bytes of those tokens that the run does not have yet; call it before the tokens' first use."""
        known = self._run.known if self._run else {}
        text, binary = {}, {}
        for token, piece in pieces.items():
            if token not in known:
                try:
                    text[token] = piece.decode()
                except UnicodeDecodeError:
                    binary[token] = base64.b64encode(piece).decode()
        if text or binary:
            self.write(Pieces(text=text, base64=binary))

    def close(self) -> None:
        """Close the file. A run without an end gets one, with the reason `interrupted`."""
        self._end("interrupted", "the recording loop stopped without an end record")

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        elif issubclass(kind, Exception):
            self._end("error", f"the recording loop raised {kind.__name__}")
        else:
            self._end("interrupted", "the recording loop was interrupted")

    def _end(self, reason: str, note: str) -> None:
        if self._closed:
            return
        if self._run and "end" not in self._run.kinds:
            self.write(End(reason=reason, notes=[note], new_tokens=self._run.new_tokens,
                           microseconds=self._run.microseconds))
        self._closed = "is closed; nothing can be added to it"
        self._guard(self._sink.close)

    def _check(self, record: Record, kind: str) -> None:
        run = self._run
        if isinstance(record, Header):
            if run and "end" not in run.kinds:
                raise TraceError("was 'header'; end the run before it first", field="kind")
            check.check_header(record)
            return
        if run is None:
            raise TraceError(f"was {kind!r}; a trace starts with a header", field="kind")
        if isinstance(record, Other):
            if record.fields.get("kind") != kind:
                raise TraceError(f"was {kind!r}; `fields` says {record.fields.get('kind')!r}", field="kind")
            return
        check.check_order(run.kinds, kind)
        if isinstance(record, Prefill):
            check.check_prefill(record, run.header)
        elif isinstance(record, Round):
            check.check_round(record, run.header)
            check.check_follows(record, run.before, run.root)
        elif isinstance(record, Probe):
            check.check_probe(record, run.header)

    def _append(self, line: bytes, *, wait: bool) -> None:
        if wait:
            self._waiting += line + b"\n"
        else:
            self._guard(self._sink.append, self._waiting + line + b"\n")
            self._waiting = b""

    def _guard(self, action: Callable[..., None], *arguments: bytes) -> None:
        """Do something with the file; after an error of the disk the writer takes no more records."""
        try:
            action(*arguments)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = "the disk is full" if full else f"the file cannot be written ({error.strerror})"
            self._closed = f"{reason}. What was recorded before is kept; make room and record again"
            with suppress(OSError):
                self._sink.close()
            raise TraceError(self._closed, path=self.path) from None


@dataclass
class _Run:
    """What the writer remembers of the run that it writes."""

    header: Header
    kinds: set[str] = field(default_factory=set)
    known: set[int] = field(default_factory=set)
    root: int | None = None
    before: Round | None = None
    new_tokens: int = 0
    microseconds: int = 0

    def note(self, record: Record) -> None:
        """Remember what was written."""
        if isinstance(record, Pieces):
            self.known |= record.text.keys() | record.base64.keys()
        elif isinstance(record, Prefill):
            self.root, self.new_tokens, self.microseconds = record.root, 1, record.microseconds
        elif isinstance(record, Round):
            self.new_tokens = max(1, self.new_tokens) + outcome(record).taken
            self.microseconds += record.times.get("total", 0)
            self.before = record
