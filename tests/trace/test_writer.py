"""The writer: round trips, recordings that end early, disks that fill, records that do not fit."""

from __future__ import annotations

import errno
import math
import textwrap
from contextlib import nullcontext
from random import Random

import msgspec
import numpy as np
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings

import treegraft.trace as tt
from tests.strategies import PIECES, VOCAB, grow, make_header, make_run, records_of, runs, write_runs
from treegraft.trace import TraceError, Writer, check, codec, sink, writer
from treegraft.trace.records import (
    CostCurve,
    End,
    Expand,
    Header,
    Nodes,
    PolicyInfo,
    Prompt,
    Prune,
    Round,
    TargetInfo,
    Verify,
)
from treegraft.trace.replay import ending

SUFFIXES = [".jsonl", ".jsonl.zst"]


@pytest.fixture(params=SUFFIXES)
def path(request, tmp_path):
    return tmp_path / f"trace{request.param}"


@pytest.fixture
def run():
    return make_run(Random(3), [(3, 5)] * 6)


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(first=runs(), second=runs())
def test_round_trip(tmp_path, suffix, first, second):
    path = tmp_path / f"t{suffix}"
    path.unlink(missing_ok=True)
    trace = tt.open(write_runs(path, first, second))
    trace.check()
    assert trace.warnings == []
    for written, read in zip((first, second), trace.runs, strict=True):
        assert records_of(read) == [*records_of(written)[:-1], written.end]
        assert [round.record for round in read.rounds] == written.records
        assert (read.pieces, read.output, read.text) == (PIECES, written.output, written.text)


def test_example_in_the_docstring_records_a_foreign_loop(tmp_path, monkeypatch):
    _, _, rest = writer.__doc__.partition("    from treegraft.trace import")
    code = "    from treegraft.trace import" + rest.partition("\n\nLeaving")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    monkeypatch.chdir(tmp_path)

    def target(tokens):
        return sum(tokens) * 7 % VOCAB

    def drafter(token):
        return target([token]) if token % 3 else 1

    exec(textwrap.dedent(code), {"prompt": [1, 2], "pieces": PIECES, "target": target, "drafter": drafter})
    trace = tt.open("mine.jsonl.zst")
    trace.check()
    assert trace.warnings == []
    assert trace.runs[0].end.new_tokens == len(trace.runs[0].output)
    assert {fate for round in trace.rounds for fate in round.fates} == {"root", "accepted", "rejected"}


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("raised", "reason"), [(KeyboardInterrupt, "interrupted"), (SystemExit, "interrupted"),
                                                (RuntimeError, "error"), (None, "interrupted")])
def test_leaving_early_ends_the_run(path, run, raised, reason):
    with pytest.raises(raised) if raised else nullcontext():
        write_all(path, records_of(run)[:5], raised)
    trace = tt.open(path)
    trace.check()
    assert trace.warnings == []
    assert trace.runs[0].end.reason == reason
    assert trace.runs[0].end.new_tokens == len(trace.runs[0].output)
    assert len(trace.rounds) == 3


def test_nothing_written_leaves_no_file(path):
    with Writer(path):
        pass
    assert not path.exists()


def test_every_round_is_in_the_file_at_once(path, run):
    with Writer(path) as trace:
        for count, record in enumerate(records_of(run), start=-1):
            trace.write(record)
            so_far = tt.open(path)
            assert len(so_far.rounds) == max(0, min(count, len(run.records)))
            so_far.check()


def write_all(path, records, raised=None, written=None):
    """Write `records`, noting those that went through, then raise."""
    with Writer(path) as trace:
        for record in records:
            trace.write(record)
            if written is not None:
                written.append(record)
        if raised:
            raise raised


class Failing:
    """Lets `left` bytes through, then fails: for good as a full disk does, or once as Ctrl-C does."""

    def __init__(self, left, error):
        self.left, self.error = left, error
        self.real = sink.io.FileIO

    def __call__(self, *arguments):
        outer = self

        class File(self.real):
            def write(self, data):
                part = data[: outer.left]
                outer.left -= len(part)
                if not len(part):
                    outer.left = 0 if isinstance(outer.error, OSError) else 10**6
                    raise outer.error
                return super().write(part)
        return File(*arguments)


@pytest.mark.parametrize("left", [700, 1200, 1700])
def test_full_disk(path, run, monkeypatch, left):
    monkeypatch.setattr(sink.io, "FileIO", Failing(left, OSError(errno.ENOSPC, "No space left on device")))
    written = []
    with pytest.raises(TraceError, match="the disk is full") as raised:
        write_all(path, records_of(run), written=written)
    assert str(path) in str(raised.value)
    monkeypatch.undo()
    read = tt.open(path)
    read.check()
    assert len(read.rounds) == max(0, len(written) - 2)
    assert read.runs[0].end is None


@pytest.mark.parametrize("left", [700, 1200, 1700])
def test_interrupt_inside_a_write_leaves_no_half_line(path, run, monkeypatch, left):
    monkeypatch.setattr(sink.io, "FileIO", Failing(left, KeyboardInterrupt()))
    written = []
    with pytest.raises(KeyboardInterrupt):
        write_all(path, records_of(run), written=written)
    read = tt.open(path)
    read.check()
    assert read.warnings == []
    assert [round.record for round in read.rounds] == run.records[: max(0, len(written) - 2)]
    assert read.runs[0].end.reason == "interrupted"


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "problem"), [("t.json", "end it with .jsonl"), ("t.zst", "end it with .jsonl"),
                                               ("no/t.jsonl", "there is no folder")])
def test_bad_names(tmp_path, name, problem):
    with pytest.raises(TraceError, match=problem):
        Writer(tmp_path / name)


def test_overwrites_only_when_allowed(path, run):
    write_runs(path, run)
    before = path.read_bytes()
    with pytest.raises(TraceError, match="exists already"):
        Writer(path)
    assert path.read_bytes() == before
    with Writer(path, overwrite=True) as trace:
        trace.write(run.header)
    assert len(tt.open(path).rounds) == 0


def test_frames_are_independent_and_of_about_64_kb(tmp_path):
    path = write_runs(tmp_path / "t.jsonl.zst", make_run(Random(1), [(4, 60)] * 60))
    data, texts = path.read_bytes(), []
    while data:
        assert zstandard.get_frame_parameters(data).window_size <= 1 << 20
        unpacker = zstandard.ZstdDecompressor().decompressobj()
        texts.append(unpacker.decompress(data))
        data = unpacker.unused_data
        assert unpacker.eof
    longest = max(len(line) for line in b"".join(texts).splitlines(keepends=True))
    assert len(texts) > 3
    assert all(1 << 16 <= len(text) < (1 << 16) + longest for text in texts[:-1])
    assert all(text.endswith(b"\n") for text in texts)


def test_pieces_are_written_once(path, run):
    with Writer(path) as trace:
        trace.write(run.header)
        trace.pieces({1: b"a", 2: b"\xff"})
        trace.pieces({1: b"other", 3: b"c"})
        trace.pieces({3: b"c"})
    read = tt.open(path)
    assert read.runs[0].pieces == {1: b"a", 2: b"\xff", 3: b"c"}
    assert [type(record).__name__ for record in read.records()] == ["Header", "Pieces", "Pieces", "End"]


def test_a_round_of_511_nodes_stays_small():
    record = pool_round()
    assert len(record.nodes.token) == 511
    check.check_round(record, make_header([1] * (record.context - 1)))
    line = codec.encode(record)
    assert len(line) < 40_000
    assert len(zstandard.ZstdCompressor(sink.LEVEL).compress(line)) < 15_000


def pool_round():
    """Six layers of an EAGLE-2 pool with honest token ids and scores, as large as they come."""
    random = Random(0)
    grown = grow(random, context=4000, layers=0)
    nodes, events = grown.record.nodes, list(ending(grown.record))
    for layer in range(6):
        first = len(nodes.token)
        for _ in range(10 if layer == 0 else 100):
            nodes.token.append(random.randrange(150_000))
            nodes.parent.append(random.randrange(max(1, first - 100), first) if layer else 0)
            nodes.score.append(nodes.score[nodes.parent[-1]] - random.randrange(900_000))
            nodes.origin.append(1)
            nodes.proposers.append(3)
        made = list(range(first, len(nodes.token)))
        events.insert(-2, Expand(
            layer=layer, drafter=1, parents=sorted({nodes.parent[node] for node in made}), nodes=made,
            scores=nodes.score[first:], merged=list(range(0, first, 10)), match=[3] * len(made),
            source=[node * 7 for node in made]))
    kept = list(range(64))
    events.insert(-2, Prune(budget=63, rule="score", kept=kept))
    events[-2] = Verify(order=kept, argmax=[events[-1].bonus, *(random.randrange(150_000) for _ in kept[1:])],
                        logprob=[-random.randrange(2 * 10**6) for _ in kept], walk=events[-2].walk * 5)
    return msgspec.structs.replace(grown.record, events=events)


# --- records that do not fit -----------------------------------------------------------------------------------------


def minimal_header(**changes):
    return Header(created="now", target=TargetInfo(name="t"), policy=PolicyInfo(name="p"), prompt=Prompt(tokens=[1]),
                  **changes)


def test_records_out_of_order_are_refused(path, run):
    with Writer(path) as trace:
        with pytest.raises(TraceError, match="starts with a header"):
            trace.write(run.records[0])
        trace.write(run.header)
        with pytest.raises(TraceError, match=r"field index: was 1; the first round of a run is 0"):
            trace.write(msgspec.structs.replace(run.records[0], index=1, context=run.records[0].context + 1))
        trace.write(run.prefill)
        with pytest.raises(TraceError, match="a run has one"):
            trace.write(run.prefill)
        with pytest.raises(TraceError, match="root"):
            trace.write(run.records[1])
        with pytest.raises(TraceError, match="end the run before it first"):
            trace.write(run.header)
        trace.write(run.records[0])
        with pytest.raises(TraceError, match="field index: was 2; after the round before it, it is 1"):
            trace.write(run.records[2])
        trace.write(run.end)
        with pytest.raises(TraceError, match="after the run's end"):
            trace.write(run.records[1])
    with pytest.raises(TraceError, match="closed"):
        trace.write(run.header)
    tt.open(path).check()


@pytest.mark.parametrize(("change", "field"), [
    ({"prompt": Prompt(tokens=[])}, "prompt.tokens"),
    ({"prompt": Prompt(tokens=[-1])}, r"prompt.tokens\[0\]"),
    ({"prompt": Prompt(tokens=[2**31])}, r"prompt.tokens\[0\]"),
    ({"policy": PolicyInfo(name="p", drafters=[4])}, "policy.drafters"),
    ({"costs": [CostCurve(model=7, context=9, points=[(1, 5)])]}, "costs"),
    ({"costs": [CostCurve(model=-1, context=9, points=[])]}, r"costs\[0\].points"),
    ({"costs": [CostCurve(model=-1, context=9, points=[(8, 5), (8, 6)])]}, r"costs\[0\].points"),
    ({"policy": PolicyInfo(name="p", settings={"x": {"nested": 1}})}, "policy.settings"),
    ({"drafters": make_header([1]).drafters * 2}, "drafters"),
])
def test_bad_headers_are_refused(path, change, field):
    with Writer(path) as trace, pytest.raises(TraceError, match=f"field {field}"):
        trace.write(msgspec.structs.replace(minimal_header(), **change))
    assert not path.exists()


def test_values_that_json_cannot_hold_are_refused(path):
    header = minimal_header()
    with Writer(path) as trace:
        header.decoding.temperature = math.nan
        with pytest.raises(TraceError, match=r"field decoding\.temperature"):
            trace.write(header)
        header.decoding.temperature = 0.0
        header.prompt.tokens = [np.int64(3)]
        with pytest.raises(TraceError, match="plain Python values"):
            trace.write(header)
        header.prompt.tokens = [3.0]
        with pytest.raises(TraceError, match=r"field prompt.tokens\[0\]"):
            trace.write(header)
        header.prompt.tokens = [3]
        header.prompt.text = "\ud800"
        with pytest.raises(TraceError, match="plain Python values"):
            trace.write(header)


def test_a_refused_round_leaves_the_trace_as_it_was(path, run):
    with Writer(path) as trace:
        trace.write(run.header)
        trace.write(run.records[0])
        broken = msgspec.structs.replace(run.records[1], nodes=Nodes(token=[1], parent=[], origin=[-1], score=[0],
                                                                     proposers=[0]))
        with pytest.raises(TraceError, match=r"field nodes.parent: has 0 entries; 1 are needed"):
            trace.write(broken)
        trace.write(run.records[1])
        trace.write(End(reason="length", new_tokens=0, microseconds=0))
    assert tt.open(path).runs[0].records[:] == run.records[:2]


def test_minus_infinity_is_null():
    record = Round(index=0, context=2, root=1, events=[], nodes=Nodes(token=[1], parent=[-1], origin=[-1], score=[None],
                                                                      proposers=[0]))
    line = codec.encode(record)
    assert b'"score":[null]' in line
    assert codec.decode(line, "round") == record
