"""One record to one line of JSON and back. Fields and events that this version does not know are kept aside.

The typed decoder refuses what it does not know, so a line from this version takes one fast pass. Only a line that it
refuses is decoded again without types: its unknown fields move to `unknown`, its unknown events to `unknown_events`,
and writing the record puts them back in their places.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from os import PathLike
from typing import Any, Union, get_args

import msgspec
from msgspec.inspect import ListType, StructType, Type, UnionType, type_info

from treegraft.trace.records import Accept, End, Event, Header, Id, Other, Pieces, Prefill, Probe, Record, Round
from treegraft.trace.replay import Outcome

DEEPEST = 32
"""Levels of lists and objects that an unknown field may nest."""

KIND = re.compile(rb'\s*\{\s*"kind"\s*:\s*"([^"\\]{1,64})"')


class TraceError(ValueError):
    """A trace that cannot be read or written. The text names file, line and field, and says what to do."""

    def __init__(self, problem: str, *, field: str = "", line: int = 0, path: str | PathLike[str] = "") -> None:
        self.problem, self.field, self.line, self.path = problem, field, line, path
        place = [str(path)] if path else []
        place += [f"line {line}"] if line else []
        place += [f"field {field}"] if field else []
        super().__init__(f"{', '.join(place)}: {problem}" if place else problem)

    def at(self, path: str | PathLike[str], line: int = 0) -> TraceError:
        """The same error with its place in a file."""
        return TraceError(self.problem, field=self.field, line=line or self.line, path=path)


class _Peek(msgspec.Struct):
    kind: str
    schema: int | None = None


class _Start(msgspec.Struct, tag="prefill", tag_field="kind"):
    """The part of a prefill that the first round goes on from."""

    root: Id


class _Tokens(msgspec.Struct):
    token: list[Id]


_PASSED = tuple(msgspec.defstruct(event.__name__, [], tag=event.__struct_config__.tag, tag_field="kind")
                for event in get_args(Event) if event is not Accept)


class _Sketch(msgspec.Struct, tag="round", tag_field="kind"):
    """The parts of a round that tell its outcome; decoding them takes a fraction of the time."""

    root: int
    context: int
    nodes: _Tokens
    events: list[Union[Accept, *_PASSED]]


KINDS = ("header", "pieces", "prefill", "round", "probe", "end")
_TYPES: dict[str, type] = dict(zip(KINDS, (Header, Pieces, Prefill, Round, Probe, End), strict=True))
_DECODERS = {kind: msgspec.json.Decoder(cls) for kind, cls in _TYPES.items()}
_PEEK = msgspec.json.Decoder(_Peek)
_SKETCH = msgspec.json.Decoder(_Sketch)
_START = msgspec.json.Decoder(_Start)
_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODER = msgspec.json.Encoder()


def kind_of(line: bytes) -> str:
    """The kind of a line's record, from its first bytes where they tell. Errors: `TraceError`."""
    match = KIND.match(line)
    return match[1].decode(errors="replace") if match else peek(line).kind


def peek(line: bytes) -> _Peek:
    """Kind and schema of a line's record, the rest unread. Errors: `TraceError`."""
    return _plainly(_PEEK.decode, line)


def decode(line: bytes, kind: str) -> Record:
    """The record of a line. Errors: `TraceError` with the field."""
    if kind not in _DECODERS:
        fields = _plainly(_untyped, line)
        _refuse_depth(fields)
        return Other(kind=kind, fields=fields)
    if b'"+' not in line:
        try:
            return _DECODERS[kind].decode(line)
        except msgspec.ValidationError:
            pass  # unknown fields or a mistake: the thorough pass tells which
        except (msgspec.DecodeError, RecursionError):
            return _plainly(_DECODERS[kind].decode, line)
    raw = _plainly(_untyped, line)
    _visit(raw, _info(_TYPES[kind]), _set_aside)
    return _plainly(functools.partial(msgspec.convert, type=_TYPES[kind], str_keys=True), raw)


def outcome(line: bytes) -> Outcome | None:
    """What the round on this line added to the text, or None if only `decode` and the checks can tell."""
    try:
        sketch = _SKETCH.decode(line)
        accept = next(event for event in reversed(sketch.events) if isinstance(event, Accept))
        tokens = [*(sketch.nodes.token[node] for node in accept.path), accept.bonus]
    except (msgspec.DecodeError, RecursionError, IndexError, StopIteration):
        return None
    taken = len(tokens) - accept.discarded
    return Outcome(sketch.root, sketch.context, tokens, taken) if taken >= 0 else None


def prefill_root(line: bytes) -> int | None:
    """The root that the prefill on this line chose, or None if the line is damaged."""
    try:
        return _START.decode(line).root
    except (msgspec.DecodeError, RecursionError):
        return None


def encode(record: Record) -> bytes:
    """The record as one line of JSON, without the newline. Errors: `TraceError` for values that JSON cannot hold."""
    try:
        if isinstance(record, Other):
            return _ENCODER.encode(record.fields)
        line = _ENCODER.encode(record)
        if b'"+' in line:
            raw = msgspec.to_builtins(record, str_keys=True)
            _visit(raw, _info(type(record)), _put_back)
            line = _ENCODER.encode(raw)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        kind = type(record).__name__.lower()
        raise TraceError(f"this {kind} record cannot be written as JSON ({error}); give plain Python values, "
                         "e.g. array.tolist()") from None
    return line


def _untyped(line: bytes) -> Any:
    """A line's JSON. Errors: `TraceError` with the field for a number that no float holds; msgspec's for the rest."""
    try:
        return msgspec.json.decode(line)
    except msgspec.ValidationError:
        for name, part in _PARTS.decode(line).items():
            try:
                msgspec.json.decode(part)
            except msgspec.ValidationError:
                raise TraceError("holds a number that is out of range; allowed: numbers up to 1.8e308",
                                 field=name) from None
        raise


def _plainly(read: Callable[[Any], Any], raw: Any) -> Any:
    """`read(raw)`, its errors as `TraceError`."""
    try:
        return read(raw)
    except TraceError:
        raise
    except RecursionError:
        raise TraceError("is nested too deeply to be a trace record") from None
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at ")
        field = re.sub(r"^\$\.?|`", "", place.replace("`key` in ", "key in ").replace("`$.", "").replace("`$", ""))
        raise TraceError(f"{problem[:1].lower()}{problem[1:]}".replace("`", ""), field=field) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise TraceError(f"is not a line of JSON: {error}") from None


# --- unknown fields -------------------------------------------------------------------------------------------------


@functools.cache
def _info(cls: type) -> StructType:
    return type_info(cls)


@functools.cache
def _nested(cls: type) -> dict[str, tuple[StructType, ...]]:
    """The fields of a record type that hold other records, and which these can be."""
    found = {field.encode_name: tuple(_structs(field.type)) for field in _info(cls).fields}
    return {name: structs for name, structs in found.items() if structs}


def _structs(info: Type) -> list[StructType]:
    if isinstance(info, StructType):
        return [info]
    if isinstance(info, ListType):
        return _structs(info.item_type)
    if isinstance(info, UnionType):
        return [struct for option in info.types for struct in _structs(option)]
    return []


def _visit(raw: Any, info: StructType, change: Callable[[dict[str, Any], StructType], None]) -> None:
    """Call `change` on every decoded object in `raw` that stands for a record or a part of one, outermost first."""
    if not isinstance(raw, dict):
        return
    change(raw, info)
    for name, options in _nested(info.cls).items():
        value = raw.get(name)
        for item in value if isinstance(value, list) else [value]:
            for option in options:
                if isinstance(item, dict) and (option.tag is None or item.get("kind") == option.tag):
                    _visit(item, option, change)


def _set_aside(raw: dict[str, Any], info: StructType) -> None:
    """Move unknown fields to `+`, and unknown events with their places to `+events`."""
    known = {field.encode_name for field in info.fields if field.encode_name[0] != "+"} | {info.tag_field}
    unknown = {name: raw.pop(name) for name in list(raw) if name not in known}
    _refuse_depth(unknown)
    if unknown:
        raw["+"] = unknown
    events = raw.get("events")
    if info.cls is Round and isinstance(events, list):
        tags = {option.tag for option in _nested(Round)["events"]}
        aside = [(place, event) for place, event in enumerate(events)
                 if isinstance(event, dict) and isinstance(event.get("kind"), str) and event["kind"] not in tags]
        if aside:
            _refuse_depth([event for _, event in aside])
            places = {place for place, _ in aside}
            raw["events"] = [event for place, event in enumerate(events) if place not in places]
            raw["+events"] = aside


def _put_back(raw: dict[str, Any], info: StructType) -> None:
    """Undo `_set_aside`; a known field wins over an unknown one of its name."""
    for place, event in raw.pop("+events", []):
        raw["events"].insert(place, event)
    for name, value in raw.pop("+", {}).items():
        raw.setdefault(name, value)


def _refuse_depth(value: Any) -> None:
    """Errors: `TraceError` where `value` nests deeper than any honest field."""
    level = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
    if level:
        raise TraceError("holds an unknown field that is nested too deeply")
