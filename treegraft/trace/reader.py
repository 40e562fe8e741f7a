"""Reads traces. `open(path)` makes an index of the lines in one pass; a round is decoded when it is asked for.

What is wrong with a file is found where it is read: `open` refuses what is no trace, or one from a newer treegraft; a
damaged round is refused when it is asked for, and `Trace.check` reads everything. A recording that was interrupted is
no error: a last line that is cut off is left out, and `Trace.warnings` says so.
"""

from __future__ import annotations

import base64
import functools
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from treegraft.trace import check, codec, replay, storage
from treegraft.trace.codec import TraceError
from treegraft.trace.records import SCHEMA, End, Header, Pieces, Prefill, Probe, Record, Round
from treegraft.trace.replay import Outcome
from treegraft.trace.runs import Rounds, Run, TracedRound

if TYPE_CHECKING:
    import pandas

__all__ = ["Run", "Trace", "TraceError", "TracedRound", "open"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

NO_TRACE = ("is not the header of a treegraft trace; give a .jsonl or .jsonl.zst file that `treegraft record` or "
            "treegraft.trace.Writer wrote")


def open(path: str | Path) -> Trace:
    """Open a trace. Errors: `TraceError` for a file that cannot be read, is no trace, or comes from a newer version."""
    lines = Lines(Path(path))
    return Trace(lines.path, [RecordedRun(lines, run) for run in lines.scan()], lines.warnings)


class Trace:
    """The runs of a trace file. `rounds` are those of all runs in a row; `warnings` say what the file lacks."""

    def __init__(self, path: Path, runs: Sequence[RecordedRun], warnings: list[str]) -> None:
        self.path = path
        self.runs = runs
        self.warnings = warnings
        self.rounds = AllRounds(runs)

    def records(self) -> Iterator[Record]:
        """Every record of the file in order, also of kinds that this version does not know: for copies and filters."""
        for run in self.runs:
            yield from run.all_records()

    def check(self) -> None:
        """Read everything. Errors: `TraceError` for the first line that is wrong."""
        for _ in self.records():
            pass

    def show(self, index: int) -> None:
        """Draw a round's tree in the terminal."""
        self.rounds[index].show()

    def rounds_frame(self) -> pandas.DataFrame:
        """One row a round; see `frames.rounds_frame`."""
        from treegraft.trace.frames import rounds_frame

        return rounds_frame(self.runs)

    def nodes_frame(self) -> pandas.DataFrame:
        """One row a node; see `frames.nodes_frame`."""
        from treegraft.trace.frames import nodes_frame

        return nodes_frame(self.runs)


class AllRounds(Sequence[TracedRound]):
    """The rounds of several runs in a row."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = runs
        self._starts = [0, *accumulate(len(run.rounds) for run in runs)]

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, place: int) -> TracedRound: ...
    @overload
    def __getitem__(self, place: slice) -> list[TracedRound]: ...
    def __getitem__(self, place: int | slice) -> TracedRound | list[TracedRound]:
        if isinstance(place, slice):
            return [self[index] for index in range(len(self))[place]]
        if not -len(self) <= place < len(self):
            raise IndexError(f"round {place} was asked for; the trace has {len(self)}")
        index = place % len(self)
        run = bisect_right(self._starts, index) - 1
        return self._runs[run].rounds[index - self._starts[run]]


# --- runs in a file -------------------------------------------------------------------------------------------------


class RecordedRun(Run):
    """A run whose records stay in the file until they are asked for."""

    def __init__(self, lines: Lines, index: RunIndex) -> None:
        self.header = index.header
        self.records = RecordedRounds(lines, index)
        self.rounds = Rounds(self)
        self._lines, self._index = lines, index

    @functools.cached_property
    def pieces(self) -> dict[int, bytes]:
        """The bytes of each token that the run mentions."""
        found: dict[int, bytes] = {}
        for line in self._index.lines["pieces"]:
            self._lines.decode(line, "pieces", lambda record: found.update(piece_bytes(record)))
        return found

    @functools.cached_property
    def prefill(self) -> Prefill | None:
        for line in self._index.lines["prefill"]:
            return self._lines.decode(line, "prefill", lambda record: check.check_prefill(record, self.header))
        return None

    @functools.cached_property
    def probes(self) -> list[Probe]:
        return [self._lines.decode(line, "probe", lambda record: check.check_probe(record, self.header))
                for line in self._index.lines["probe"]]

    @functools.cached_property
    def end(self) -> End | None:
        for line in self._index.lines["end"]:
            return self._lines.decode(line, "end")
        return None

    @functools.cached_property
    def outcomes(self) -> list[Outcome]:
        """What each round added to the text; much faster than decoding the rounds."""
        found: list[Outcome] = []
        for number in range(len(self.records)):
            found.append(self.records.outcome(number, found[-1] if found else None))
        return found

    def all_records(self) -> Iterator[Record]:
        """Every record of the run, as it comes in the file."""
        checks = {"pieces": piece_bytes, "prefill": lambda record: check.check_prefill(record, self.header),
                  "probe": lambda record: check.check_probe(record, self.header)}
        rounds = iter(self.records)
        for line, kind in sorted((line, kind) for kind, lines in self._index.lines.items() for line in lines):
            also = checks.get(kind, lambda record: None)
            yield next(rounds) if kind == "round" else self._lines.decode(line, kind, also)


class RecordedRounds(Sequence[Round]):
    """The rounds of a run, decoded and checked each time that one is asked for, also against the one before it."""

    def __init__(self, lines: Lines, index: RunIndex) -> None:
        self._lines, self._places, self._header = lines, index.lines["round"], index.header
        self._prefill = index.lines["prefill"]
        self._latest: tuple[int, Outcome] | None = None

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, number: int) -> Round: ...
    @overload
    def __getitem__(self, number: slice) -> list[Round]: ...
    def __getitem__(self, number: int | slice) -> Round | list[Round]:
        if isinstance(number, slice):
            return [self[one] for one in range(len(self))[number]]
        place = range(len(self))[number]
        record = self._lines.decode(self._places[place], "round", functools.partial(self._check, place))
        self._latest = place, replay.outcome(record)
        return record

    def outcome(self, number: int, before: Outcome | None) -> Outcome:
        """What round `number` added to the text, from a quick look where that suffices."""
        line = self._places[number]
        found = codec.outcome(self._lines.text_of(line))
        if found is None:
            return replay.outcome(self[number])
        try:
            check.check_start(number, found.root, found.context, before, self._chosen(number))
        except TraceError as error:
            raise self._lines.damage(error, line) from None
        return found

    def _chosen(self, number: int) -> int | None:
        """The root of the first round as the prefill chose it."""
        return codec.prefill_root(self._lines.text_of(self._prefill[0])) if number == 0 and self._prefill else None

    def _before(self, number: int) -> Outcome | None:
        """What the round before this one added to the text; None where it is damaged, and refused when asked for."""
        latest, before = self._latest, number - 1
        if number == 0:
            return None
        if latest and latest[0] == before:
            return latest[1]
        line = self._places[before]
        if found := codec.outcome(self._lines.text_of(line)):
            return found
        try:
            return replay.outcome(self._lines.decode(line, "round", functools.partial(self._check_alone, before)))
        except TraceError:
            return None

    def _check(self, number: int, record: Round) -> None:
        self._check_alone(number, record)
        check.check_start(number, record.root, record.context, self._before(number), self._chosen(number))

    def _check_alone(self, number: int, record: Round) -> None:
        if record.index != number:
            raise TraceError(f"was {record.index}; {number} is next: a line is missing or was changed", field="index")
        check.check_round(record, self._header)
        for _, event in record.unknown_events or []:
            self._lines.warn_unknown("events", event["kind"], self._lines.numbers[self._places[number]])


def piece_bytes(record: Pieces) -> dict[int, bytes]:
    """Bytes by token id. Errors: `TraceError` for text that is not base64."""
    found = {token: text.encode() for token, text in record.text.items()}
    try:
        return found | {token: base64.b64decode(text, validate=True) for token, text in record.base64.items()}
    except ValueError as error:
        raise TraceError(f"holds text that is not base64 ({error})", field="base64") from None


# --- the lines of a file --------------------------------------------------------------------------------------------


@dataclass
class RunIndex:
    """A run's header, and the numbers of its lines by kind of record."""

    header: Header
    lines: defaultdict[str, array[int]] = field(default_factory=lambda: defaultdict(lambda: array("L")))


class Lines:
    """Where each line of a file begins and ends. `numbers` are the line numbers that an editor shows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.numbers = array("L")
        self._starts, self._stops = array("Q"), array("Q")
        self._text = storage.load(path)
        self._warned: set[tuple[str, str]] = set()

    def text_of(self, line: int) -> bytes:
        return self._text.read(self._starts[line], self._stops[line])

    def decode(self, line: int, kind: str, also: Callable[[Any], None] = lambda record: None) -> Any:
        """The record on a line, after `also(record)`. Errors: `TraceError` with its place, from `also` too."""
        try:
            record = codec.decode(self.text_of(line), kind)
            also(record)
            return record
        except TraceError as error:
            raise self.damage(error, line) from None

    def damage(self, error: TraceError, line: int) -> TraceError:
        """The error with its place and what to do."""
        number = self.numbers[line]
        advice = f"{error.problem}. The line is damaged; record again, or keep the {number - 1} lines before it"
        return TraceError(advice, field=error.field, line=number, path=self.path)

    def scan(self) -> list[RunIndex]:
        """Find all lines and sort them by run and kind. Errors: `TraceError` where this is no trace."""
        runs: list[RunIndex] = []
        for number, (start, line, whole) in enumerate(self._split(), start=1):
            if number == 1 and line.startswith(BYTE_ORDER_MARK):
                start, line = start + len(BYTE_ORDER_MARK), line.removeprefix(BYTE_ORDER_MARK)
            if line and not line.isspace():
                try:
                    self._add(runs, number, start, line, whole)
                except TraceError as error:
                    raise error.at(self.path, number) from None
        if not runs:
            raise TraceError(NO_TRACE, path=self.path, line=1)
        for place, run in enumerate(runs):
            if not run.lines["end"]:
                self.warnings.append(f"run {place} has no end: its recording was interrupted after "
                                     f"{len(run.lines['round'])} rounds, which can be used")
        return runs

    def _split(self) -> Iterator[tuple[int, bytes, bool]]:
        number = 0
        try:
            for part in storage.split_lines(self._text.chunks()):
                number += 1
                yield part
        except TraceError as error:
            raise error.at(self.path, number + 1) from None

    def _add(self, runs: list[RunIndex], number: int, start: int, line: bytes, whole: bool) -> None:
        """Sort one line in. A line without its newline (not `whole`) is the last one, and may be cut off."""
        try:
            kind = codec.kind_of(line)
            if not whole:
                codec.decode(line, kind)
        except TraceError as error:
            if runs and not whole:
                self.warnings.append(f"line {number} is cut off: the recording was interrupted. It is left out")
                return
            raise error if runs else TraceError(NO_TRACE) from None
        if kind == "header":
            runs.append(RunIndex(read_header(line)))
        elif not runs:
            raise TraceError(NO_TRACE, field="kind")
        elif kind not in codec.KINDS:
            self.warn_unknown("records", kind, number)
        else:
            check.check_order(runs[-1].lines.keys(), kind)
        runs[-1].lines[kind].append(len(self.numbers))
        self.numbers.append(number)
        self._starts.append(start)
        self._stops.append(start + len(line))

    def warn_unknown(self, what: str, kind: str, number: int) -> None:
        """Warn once about records or events of a kind that this version does not know."""
        if (what, kind) not in self._warned:
            self._warned.add((what, kind))
            self.warnings.append(f"{what} of the kind {kind!r} (first on line {number}) are unknown to this version of "
                                 "treegraft; they are kept but not shown")


def read_header(line: bytes) -> Header:
    """The header on a line. Errors: `TraceError` for a version of the format that this reader does not know."""
    schema = codec.peek(line).schema
    if schema is None:
        raise TraceError(NO_TRACE, field="schema")
    if not 1 <= schema <= SCHEMA:
        raise TraceError(f"was {schema}; this version of treegraft reads 1 to {SCHEMA}. Get a newer one with "
                         "`pip install -U treegraft`", field="schema")
    header = codec.decode(line, "header")
    check.check_header(header)
    return header
