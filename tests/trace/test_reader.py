"""The reader: lazy decoding, recordings that were cut, files that are damaged, foreign, newer or hostile."""

from __future__ import annotations

import json
import struct
from copy import deepcopy
from pathlib import Path
from random import Random

import msgspec
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import treegraft.trace as tt
from tests.strategies import PIECES, make_run, records_of, write_runs
from treegraft.trace import TraceError, Writer, check, codec, storage
from treegraft.trace.records import SCHEMA, Other


@pytest.fixture
def run():
    return make_run(Random(5), [(3, 4)] * 5)


@pytest.fixture
def lines(run, tmp_path):
    """The lines of a sound trace, decoded: header, pieces, prefill, five rounds, end."""
    text = write_runs(tmp_path / "sound.jsonl", run).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


def save(path, lines, *, end="\n"):
    path.write_text("\n".join(map(json.dumps, lines)) + end)
    return path


def problem(path):
    """The text of the error that reading all of a file gives."""
    with pytest.raises(TraceError) as raised:
        tt.open(path).check()
    assert str(path) in str(raised.value)
    return str(raised.value)


def pack(path, *texts, **options):
    """Write a file of zstd frames."""
    path = path.with_suffix(".jsonl.zst")
    path.write_bytes(b"".join(zstandard.ZstdCompressor(**options).compress(text) for text in texts))
    return path


# --- what a trace gives ---------------------------------------------------------------------------------------------


def test_rounds_are_decoded_when_asked_for(tmp_path, run, monkeypatch):
    decoded = []
    real = codec.decode
    monkeypatch.setattr(codec, "decode", lambda line, kind: decoded.append(kind) or real(line, kind))
    path = write_runs(tmp_path / "t.jsonl.zst", run)
    decoded.clear()
    trace = tt.open(path)
    assert decoded == ["header"]
    assert trace.rounds[3] is trace.rounds[3]
    assert decoded == ["header", "round"]


def test_rounds_of_several_runs_are_one_sequence(tmp_path):
    runs = [make_run(Random(seed), [(1, 2)] * size) for seed, size in enumerate([2, 0, 3])]
    trace = tt.open(write_runs(tmp_path / "t.jsonl", *runs))
    records = [record for run in runs for record in run.records]
    assert [round.record for round in trace.rounds] == records
    assert [round.record for round in trace.rounds[1:4]] == records[1:4]
    assert [trace.rounds[place].record for place in (-1, -5)] == [records[-1], records[0]]
    assert trace.rounds[2].run is trace.runs[2]
    for place in (5, -6):
        with pytest.raises(IndexError, match="the trace has 5"):
            trace.rounds[place]
    with pytest.raises(IndexError, match="the run has 3"):
        trace.runs[2].rounds[3]


def test_tree_of_a_round(tmp_path, run):
    for round in tt.open(write_runs(tmp_path / "t.jsonl", run)).rounds:
        tree, nodes = round.tree, round.record.nodes
        for name in ("token", "parent", "origin", "proposers"):
            assert getattr(tree, name).tolist() == getattr(nodes, name)
        assert [None if score < -(1 << 59) else score for score in tree.score.tolist()] == nodes.score
        assert tree.context == round.record.context
        for node in range(1, tree.size):
            assert tree.child(nodes.parent[node], nodes.token[node]) == node


def test_run_without_rounds_has_the_token_of_the_prefill(tmp_path):
    run = make_run(Random(1), [])
    assert tt.open(write_runs(tmp_path / "t.jsonl", run)).runs[0].output == [run.prefill.root]


def test_pieces_keep_markup_and_broken_characters(tmp_path, run):
    assert tt.open(write_runs(tmp_path / "t.jsonl.zst", run)).runs[0].pieces == PIECES


# --- recordings that were cut ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.zst"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_file_cut_anywhere_opens_up_to_the_cut(tmp_path, suffix, data):
    run = make_run(Random(2), [(2, 4)] * 4)
    whole = tmp_path / f"whole{suffix}"
    sizes = []
    if not whole.exists():
        write_runs(whole, run)
    with Writer(tmp_path / f"sizes{suffix}", overwrite=True) as trace:
        for record in records_of(run):
            trace.write(record)
            if record is run.header:
                trace.pieces(run.pieces)
            sizes.append((tmp_path / f"sizes{suffix}").stat().st_size)
    cut = tmp_path / f"cut{suffix}"
    size = data.draw(st.integers(sizes[1], whole.stat().st_size - 1))
    cut.write_bytes(whole.read_bytes()[:size])
    read = tt.open(cut)
    read.check()
    complete = sum(end <= size for end in sizes)
    assert len(read.rounds) in {min(len(run.records), complete - 2), min(len(run.records), complete - 1)}
    assert [round.record for round in read.rounds] == run.records[: len(read.rounds)]
    assert bool(read.warnings) == (read.runs[0].end is None)


def test_a_cut_line_is_named(path, lines):
    save(path, lines)
    path.write_bytes(path.read_bytes()[:-30])
    trace = tt.open(path)
    assert trace.warnings[0].startswith("line 9 is cut off")
    assert "run 0 has no end" in trace.warnings[1]


def test_a_last_line_without_newline_counts(path, lines):
    assert tt.open(save(path, lines, end="")).runs[0].end.reason == lines[-1]["reason"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_order_mark_is_passed_over(path, lines, run, packed):
    marked = b"\xef\xbb\xbf" + save(path, lines).read_bytes()
    path.write_bytes(zstandard.compress(marked) if packed else marked)
    trace = tt.open(path)
    trace.check()
    assert [round.record for round in trace.rounds] == run.records
    assert next(trace.records()) == run.header


def test_blank_lines_are_passed_over_and_counted(path, lines):
    save(path, lines)
    path.write_text(path.read_text().replace("\n", "\n \r\n"))
    tt.open(path).check()
    lines[4]["index"] = 7
    save(path, lines)
    path.write_text(path.read_text().replace("\n", "\n\n"))
    assert "line 9, field index: was 7" in problem(path)


# --- files that are no trace -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"\n\n", b"hello\n", b"{}", b"[1]\n", b'{"kind":"round","index":0}\n',
                                     b'{"kind":"header"}\n', b"\x1f\x8b\x08\x00rest", b"\xff\xfe\n",
                                     b"\x28\xb5\x2f\xfd", b'{"kind": 3}\n', b'{"a":' * 100_000, b"PAR1" * 100])
def test_no_trace(path, content):
    path.write_bytes(content)
    message = problem(path)
    assert "line 1" in message
    assert "is not the header of a treegraft trace; give a .jsonl" in message


def test_no_file(tmp_path):
    assert "there is no such file" in problem(tmp_path / "none.jsonl")
    assert "there is no such file" in problem("a\0b")
    assert "is a folder" in problem(tmp_path)
    assert "is no regular file" in problem(Path("/dev/zero"))


def test_newer_schema(path, lines):
    lines[0] |= {"schema": SCHEMA + 1, "target": "something else"}
    message = problem(save(path, lines))
    assert f"line 1, field schema: was {SCHEMA + 1}; this version of treegraft reads 1 to {SCHEMA}" in message
    assert "pip install -U treegraft" in message


@pytest.mark.parametrize("schema", ["1", 0, -1, 10**30, None, 1.5])
def test_odd_schema(path, lines, schema):
    lines[0]["schema"] = schema
    assert "line 1" in problem(save(path, lines))


# --- lines that are damaged ------------------------------------------------------------------------------------------


def first(lines, kind, number=0):
    """The first event of a kind in a round, and its place."""
    place, event = next((place, event) for place, event in enumerate(lines[3 + number]["events"])
                        if event["kind"] == kind)
    return f"events[{place}]", event


def test_corrupt_middle_line(path, lines):
    save(path, lines)
    text = path.read_text().splitlines()
    text[4] = text[4][:40]
    path.write_text("\n".join(text) + "\n")
    trace = tt.open(path)
    assert trace.rounds[0].record.index == 0
    with pytest.raises(TraceError, match=r"line 5: is not a line of JSON.*keep the 4 lines before it"):
        trace.rounds[1]


@pytest.mark.parametrize("text", ['{"kind":"round",', "nonsense", '{"kind":"round","index":NaN}', "\x00\x00",
                                  '{"kind":"round","index":' + "9" * 5000 + "}", '{"kind":"rou\\u006ed","index":1}',
                                  '{"kind":"round","zz":' + "[" * 5000 + "]" * 5000 + "}",
                                  '{"kind":"round","zz":' + "[" * 90 + "]" * 90 + "}",
                                  '{"kind":"new","zz":' + "[" * 90 + "]" * 90 + "}",
                                  '{"zz":' + "[" * 100_000])
def test_hostile_lines(path, lines, text):
    save(path, lines)
    rows = path.read_text().splitlines()
    rows[5] = text
    path.write_text("\n".join(rows) + "\n")
    assert "line 6" in problem(path)


@pytest.mark.parametrize(("line", "place", "field"), [
    (0, '"temperature": ', "decoding"), (3, '"index": ', "index"), (3, '"index": 0, "zz": ', "zz"),
    (8, '"new_tokens": ', "new_tokens")])
def test_numbers_that_no_float_holds_are_named(path, lines, line, place, field):
    lines[0]["decoding"]["temperature"] = 0.5
    save(path, lines)
    rows = path.read_text().splitlines()
    start = rows[line].index(place.partition(",")[0])
    rows[line] = f'{rows[line][:start]}{place}1e400, "yy": {rows[line][start:].partition(": ")[2]}'
    path.write_text("\n".join(rows) + "\n")
    assert f"line {line + 1}, field {field}: holds a number that is out of range; allowed: numbers up" in problem(path)


WRONG_TYPES = [
    (3, "context", "many", "context"), (3, "root", -1, "root"), (3, "root", 2**31, "root"), (3, "root", 10**30, "root"),
    (3, "times", {"draft": -1}, "times[...]"), (3, "kv", {"x": 1}, "key in kv"), (3, "kv", {"9": 1}, "kv"),
    (3, "events", None, "events"), (3, "nodes", [], "nodes"), (8, "new_tokens", None, "new_tokens"),
    (2, "root", "a", "root"), (2, "logprobs", [None], "logprobs[0]"), (2, "tokens", [], "tokens"),
    (1, "base64", {"3": "%%"}, "base64"), (1, "base64", {"3": "\u00e4"}, "base64"), (1, "text", {"3": 3}, "text[...]"),
]


@pytest.mark.parametrize(("line", "name", "value", "field"), WRONG_TYPES)
def test_wrong_field_is_named_with_its_line(path, lines, line, name, value, field):
    lines[line][name] = value
    assert f"{path}, line {line + 1}, field {field}: " in problem(save(path, lines))


@pytest.mark.parametrize(("column", "value", "field"), [
    ("parent", 1, "nodes.parent"), ("parent", -1, "nodes.parent"), ("token", 2**31, "nodes.token[1]"),
    ("origin", 5, "nodes.origin"), ("origin", -1, "nodes.origin"), ("proposers", 0, "nodes.proposers"),
    ("proposers", 8 + 3, "nodes.proposers"), ("score", 5, "nodes.score"), ("score", "x", "nodes.score[1]"),
])
def test_wrong_node_is_found(path, lines, column, value, field):
    lines[3]["nodes"][column][1] = value
    assert f"line 4, field {field}: " in problem(save(path, lines))


def test_root_must_be_node_0(path, lines):
    lines[3]["nodes"]["token"][0] += 1
    assert "line 4, field root: was" in problem(save(path, lines))


@pytest.mark.parametrize(("column", "value"), [("parent", 0), ("origin", 0), ("proposers", 1)])
def test_root_has_no_parent_and_no_drafter(path, lines, column, value):
    lines[3]["nodes"][column][0] = value
    assert "line 4, field nodes: must start with the root" in problem(save(path, lines))


def test_siblings_differ(path, lines):
    nodes = lines[3]["nodes"]
    first, second = [node for node, parent in enumerate(nodes["parent"]) if parent == 0][:2]
    nodes["token"][second] = nodes["token"][first]
    assert "line 4, field nodes.token: repeats a token below one parent" in problem(save(path, lines))


def test_every_node_is_made_by_an_event(path, lines):
    for column, value in (("token", 39), ("parent", 0), ("origin", 0), ("score", 0), ("proposers", 1)):
        lines[3]["nodes"][column].append(value)
    assert "line 4, field nodes.token: has" in problem(save(path, lines))


def test_first_root_is_the_one_of_the_prefill(path, lines):
    lines[2]["root"] += 1
    assert "line 4, field root: was" in problem(save(path, lines))


def test_no_round_after_the_end_of_the_text(path, lines):
    first(lines, "accept", 1)[1]["discarded"] = 1
    assert "line 6, field index: was 2, but the text ended in the round before it" in problem(save(path, lines))


@pytest.mark.parametrize("column", ["token", "parent", "origin", "score", "proposers"])
def test_columns_of_different_length_are_found(path, lines, column):
    lines[3]["nodes"][column].append(0)
    assert "line 4, field nodes." in problem(save(path, lines))


CONTEXT = len(make_run(Random(5), []).header.prompt.tokens) + 1
"""Tokens of the text when the first round begins."""

POSITIVE = 101
"""More than rounding can make of a log-probability of 0."""

EVENTS = [
    ("expand", "nodes", lambda event: [node + 1 for node in event["nodes"]], "nodes"),
    ("expand", "scores", lambda event: [], "scores"),
    ("expand", "drafter", lambda event: 1 - event["drafter"], "drafter"),
    ("expand", "parents", lambda event: [900], "parents"),
    ("expand", "merged", lambda event: [900], "merged"),
    ("expand", "raised", lambda event: [0], "raised_scores"),
    ("expand", "match", lambda event: [1] * 99, "match"),
    ("expand", "match", lambda event: event.update(source=[1] * len(event["nodes"])) or [10**9] * len(event["nodes"]),
     "match"),
    ("expand", "match", lambda event: event.update(source=[1] * len(event["nodes"])) or [2] * len(event["nodes"]),
     "match"),
    ("expand", "source", lambda event: [2**53] * len(event["nodes"]), "source"),
    ("expand", "source", lambda event: [CONTEXT] * len(event["nodes"]), "source"),
    ("expand", "stopped", lambda event: [900], "stopped"),
    ("prune", "kept", lambda event: event["kept"][1:], "kept"),
    ("prune", "kept", lambda event: event["kept"][::-1], "kept"),
    ("prune", "kept", lambda event: [*event["kept"], 900], "kept"),
    ("prune", "budget", lambda event: 0, "kept"),
    ("verify", "order", lambda event: [0], "argmax"),
    ("verify", "order", lambda event: event["order"][::-1], "order"),
    ("verify", "order", lambda event: [0] * len(event["order"]), "order"),
    ("verify", "argmax", lambda event: [39] * len(event["argmax"]), ""),
    ("verify", "walk", lambda event: [event["walk"][0] | {"node": 900, "children": [], "ranks": []}], "walk[0].node"),
    ("verify", "walk", lambda event: [event["walk"][0] | {"children": [0], "ranks": [0]}], "walk[0].children"),
    ("verify", "walk", lambda event: [event["walk"][0] | {"ranks": [1] * 50}], "walk[0].ranks"),
    ("accept", "path", lambda event: [900], "path"),
    ("accept", "path", lambda event: [0], "path"),
    ("accept", "bonus", lambda event: event["bonus"] + 1, "path"),
    ("accept", "discarded", lambda event: 50, "discarded"),
    ("accept", "tried", lambda event: [{"node": 900, "p": None, "accepted": False}], "tried[0]"),
    ("expand", "scores", lambda event: [POSITIVE] * len(event["nodes"]), "scores"),
    ("verify", "logprob", lambda event: [POSITIVE] * len(event["order"]), "logprob"),
    ("verify", "walk", lambda event: [event["walk"][0] | {"logprobs": [POSITIVE] * 2}], "walk[0].logprobs"),
    ("accept", "tried", lambda event: [event["tried"][0] | {"p": POSITIVE}], "tried[0].p"),
    ("accept", "tried", lambda event: [event["tried"][0] | {"q": POSITIVE}], "tried[0].q"),
    ("accept", "tried", lambda event: [event["tried"][0] | {"residual": [[3, POSITIVE]]}], "tried[0].residual"),
]


@pytest.mark.parametrize(("kind", "name", "change", "field"), EVENTS)
def test_wrong_event_is_found(path, lines, kind, name, change, field):
    place, event = first(lines, kind)
    event[name] = change(event)
    assert f"line 4, field {place if field else 'events'}{'.' if field else ''}{field}" in problem(save(path, lines))


def test_positive_log_probabilities_of_root_and_prefill_are_refused(path, lines):
    lines[3]["nodes"]["score"][0] = POSITIVE
    assert f"line 4, field nodes.score: holds {POSITIVE}, which is no log-probability" in problem(save(path, lines))
    lines[2]["logprobs"][-1] = POSITIVE
    assert f"line 3, field logprobs: holds {POSITIVE}, which is no log-probability" in problem(save(path, lines))


def test_log_probabilities_may_be_rounded_up(path, lines):
    _, event = first(lines, "verify")
    event["logprob"] = [POSITIVE - 1] * len(event["order"])
    tt.open(save(path, lines)).check()


def test_pruned_node_without_its_parent(path, lines):
    place, event = first(lines, "prune")
    parents = lines[3]["nodes"]["parent"]
    inner = next(node for node in event["kept"][1:] if node in {parents[kept] for kept in event["kept"]})
    event["kept"].remove(inner)
    assert f"field {place}.kept: holds a node without its parent" in problem(save(path, lines))


@pytest.mark.parametrize("order", [[0, -1], [-1, -2], [0, -2], [-2, -1, -1], [-2, -2, -1]])
def test_rounds_end_with_one_verify_and_one_accept(path, lines, order):
    events = [event for event in lines[3]["events"] if event["kind"] != "learn"]
    lines[3]["events"] = events[:-2] + [events[place] for place in order]
    assert "line 4, field events: must end with one verify" in problem(save(path, lines))


@pytest.mark.parametrize(("number", "name", "value"), [(0, "index", 1), (1, "index", 0), (1, "context", 3),
                                                       (0, "context", 40), (2, "context", 40), (2, "root", 38)])
def test_rounds_follow_each_other(path, lines, number, name, value):
    lines[3 + number][name] = value
    if name == "root":
        lines[3 + number]["nodes"]["token"][0] = value
    assert f"line {4 + number}, field {name}: " in problem(save(path, lines))


def test_missing_round_is_found_by_the_text_too(path, lines):
    for place, line in enumerate(lines[5:8]):
        line["index"] = place + 1
    del lines[4]
    with pytest.raises(TraceError, match=r"line 5, field root: was .*; after the round before it, it is"):
        tt.open(save(path, lines)).runs[0].text  # noqa: B018


def another_root(line):
    line["root"] = line["nodes"]["token"][0] = line["root"] + 1


CONTRADICTIONS = {
    "line 6, field root: was": lambda lines: another_root(lines[5]),
    "line 6, field context: was": lambda lines: lines[5].update(context=lines[5]["context"] + 5),
    "line 6, field index: was 2, but the text ended": lambda lines: first(lines, "accept", 1)[1].update(discarded=1),
    "line 4, field root: was": lambda lines: lines[2].update(root=lines[2]["root"] + 1),
}


@pytest.mark.parametrize("message", CONTRADICTIONS)
@pytest.mark.parametrize("earlier", [[], [4], [1]])
def test_a_round_that_contradicts_the_one_before_it_is_refused_wherever_it_is_asked_for(path, lines, message, earlier):
    CONTRADICTIONS[message](lines)
    said = problem(save(path, lines))
    assert message in said
    number = int(message[5]) - 4
    for ask in (lambda trace: trace.rounds[number], lambda trace: trace.rounds[number:],
                lambda trace: trace.runs[0].records[number - 5], lambda trace: trace.runs[0].text,
                lambda trace: trace.nodes_frame()):
        trace = tt.open(path)
        for one in earlier:
            trace.rounds[one]
        with pytest.raises(TraceError) as raised:
            ask(trace)
        assert str(raised.value) == said


def test_a_round_is_compared_with_one_that_holds_unknown_events(path, lines):
    lines[4]["events"].insert(0, {"kind": "harden"})
    another_root(lines[5])
    with pytest.raises(TraceError, match="line 6, field root: was"):
        tt.open(save(path, lines)).rounds[2]


def test_a_round_after_a_damaged_one_can_be_read(path, lines, run):
    lines[4]["events"] = 5
    trace = tt.open(save(path, lines))
    assert trace.rounds[2].record == run.records[2]
    with pytest.raises(TraceError, match="line 5, field events"):
        trace.rounds[1]


def test_a_round_after_a_damaged_prefill_can_be_read(path, lines, run):
    lines[2]["root"] = "x"
    assert tt.open(save(path, lines)).rounds[0].record == run.records[0]


@pytest.mark.parametrize(("name", "value"), [("path", [900]), ("discarded", 50)])
def test_text_of_a_damaged_round_is_refused(path, lines, name, value):
    first(lines, "accept")[1][name] = value
    with pytest.raises(TraceError, match=f"line 4, field .*{name}"):
        tt.open(save(path, lines)).runs[0].text  # noqa: B018


@pytest.mark.parametrize("order", [[0, 2, 1, 2], [0, 3, 2], [0, 3, 8, 4], [0, 8, 8]])
def test_order_of_records(path, lines, order):
    assert "field kind: was" in problem(save(path, [lines[place] for place in order]))


def test_too_many_nodes_or_events(path, lines, monkeypatch):
    save(path, lines)
    monkeypatch.setattr(check, "MAX_NODES", 2)
    assert "nodes.token: has" in problem(path)
    monkeypatch.undo()
    monkeypatch.setattr(check, "MAX_EVENTS", 2)
    assert "events: has" in problem(path)


ODD = [-1, 0, 1, 2, 7, 39, 2**31, 2**53 + 1, 1.5, True, None, "", "x", [], {}, [0], [[1]]]


def spots(value):
    """Every place in decoded JSON, as (container, key)."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from spots(value[key])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
@given(seed=st.integers(0, 2**32))
def test_a_changed_trace_is_refused_or_sound(tmp_path, seed):
    """What the checks let through, later code can use without care."""
    random = Random(seed)
    lines = [json.loads(codec.encode(record)) for record in records_of(make_run(random, [(2, 3)] * 2))]
    for _ in range(random.randint(1, 2)):
        container, key = random.choice([spot for line in lines for spot in spots(line)])
        change = random.random()
        if change < 0.2:
            del container[key]
        elif change < 0.4 and isinstance(container, list):
            container.insert(key, container[key])
        else:
            container[key] = deepcopy(random.choice(ODD))
    path = save(tmp_path / "changed.jsonl", lines)
    try:
        trace = tt.open(path)
        trace.check()
    except TraceError as error:
        assert "line " in str(error)  # noqa: PT017 (a refusal is one of two good outcomes)
        return
    for round in trace.rounds:
        assert (round.tree.size, len(round.fates), len(round.states)) == (
            len(round.record.nodes.token), round.tree.size, len(round.record.events) + 1)
        assert round.to_networkx().number_of_nodes() == round.tree.size
    assert len(trace.rounds_frame()) == len(trace.rounds)
    assert isinstance(trace.runs[0].text, str)


# --- what this version does not know ---------------------------------------------------------------------------------


def decorate(value, random):
    """Add unknown fields to every object that stands for a record or a part of one."""
    free = {"times", "kv", "settings", "text", "base64", "features"}
    if isinstance(value, list):
        return [decorate(item, random) for item in value]
    if not isinstance(value, dict):
        return value
    known = {name: item if name in free else decorate(item, random) for name, item in value.items()}
    if random.random() < 0.7:
        known[f"new_{random.randrange(9)}"] = random.choice([None, 10**20, [1, {"+": 2}], {"kind": "expand"}, "<b>"])
    return known


@settings(deadline=None)
@given(seed=st.integers(0, 2**32))
def test_unknown_fields_survive_at_every_level(seed):
    random = Random(seed)
    run = make_run(random, [(2, 3)] * 2)
    for record in records_of(run):
        raw = decorate(json.loads(codec.encode(record)), random)
        for event in raw.get("events", []):
            event.setdefault("+", 1)
        read = codec.decode(json.dumps(raw).encode(), raw["kind"])
        assert json.loads(codec.encode(read)) == raw
        assert json.loads(codec.encode(msgspec.structs.replace(read))) == raw


def test_unknown_events_and_records_are_kept_and_reported(path, lines):
    new_event, new_record = {"kind": "harden", "depth": [1]}, {"kind": "hint", "position": 3, "nodes": {}}
    lines[3]["events"].insert(1, new_event)
    lines[3]["events"].append(new_event)
    lines.insert(4, new_record)
    lines[5]["events"].insert(0, {"kind": "soften"})
    save(path, lines)
    trace = tt.open(path)
    assert len(trace.rounds) == 5
    assert [type(event).__name__ for event in trace.rounds[0].record.events] == [
        event["kind"].capitalize() for event in lines[3]["events"] if event["kind"] != "harden"]
    trace.check()
    assert [warning.split(" are ")[0] for warning in trace.warnings] == [
        "records of the kind 'hint' (first on line 5)", "events of the kind 'harden' (first on line 4)",
        "events of the kind 'soften' (first on line 6)"]
    copy = path.with_name("copy.jsonl")
    with Writer(copy) as writer:
        for record in trace.records():
            writer.write(record)
    assert [json.loads(line) for line in copy.read_text(encoding="utf-8").split("\n")[:-1]] == lines


def test_text_of_rounds_with_unknown_events(path, lines, run):
    lines[4]["events"].insert(0, {"kind": "harden"})
    assert tt.open(save(path, lines)).runs[0].output == run.output


def test_other_records_must_name_their_kind(tmp_path, run):
    with Writer(tmp_path / "t.jsonl") as writer:
        writer.write(run.header)
        with pytest.raises(TraceError, match="kind"):
            writer.write(Other(kind="hint", fields={"kind": "round"}))


# --- zstd ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def text(lines, path):
    return save(path, lines).read_bytes()


def test_frames_may_end_anywhere(path, text, run):
    parts = [text[start : start + 100] for start in range(0, len(text), 100)]
    trace = tt.open(pack(path, *parts))
    trace.check()
    assert [round.record for round in trace.rounds[::-1]] == run.records[::-1]


def test_one_frame_and_skippable_frames(path, text, run):
    packed = pack(path, text, level=19)
    packed.write_bytes(packed.read_bytes() + struct.pack("<II", 0x184D2A50, 4) + b"note")
    assert tt.open(packed).runs[0].output == run.output


def test_zstd_is_known_by_its_content(path, text, run):
    packed = pack(path, text)
    renamed = packed.rename(path.with_name("renamed.jsonl"))
    assert tt.open(renamed).runs[0].output == run.output


def test_claim_of_10_gb(path, text):
    packed = pack(path, text * 10)
    size = struct.pack("<Q", 10 << 30)
    frame = packed.read_bytes()
    header = zstandard.frame_header_size(frame)
    window = b"\x50"  # 1 MiB
    packed.write_bytes(frame[:4] + b"\xc0" + window + size + frame[header:])
    assert "holds 10737418240 bytes of text; allowed: 64 MiB. Unpack the file" in problem(packed)


def test_window_bomb(path, text):
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = path.with_suffix(".zst")
    packed.write_bytes(packer.compress(text) + packer.flush())
    assert "window of at most 8 MiB" in problem(packed)


def test_bombs_stop_at_the_limits(path, text, monkeypatch):
    for name, value in (("MAX_FRAME_TEXT", 1 << 20), ("MAX_TEXT", 1 << 21), ("MAX_LINE", 1 << 19), ("MAX_LINES", 5000),
                        ("MAX_FRAMES", 50)):
        monkeypatch.setattr(storage, name, value)
    quiet = {"write_content_size": False}
    assert "a zstd frame holds" in problem(pack(path, text, b"\n" * (3 << 20), **quiet))
    assert "at most 5000 lines" in problem(pack(path, text, b"\n" * 10_000))
    assert "of at most 0 MiB" in problem(pack(path, text, b" " * (1 << 19), b" " * 99))
    assert "unpacks to more than" in problem(pack(path, text, *[(b" " * 9999 + b"\n") * 100] * 4))
    assert "more than 50 zstd frames" in problem(pack(path, text, *[b"\n"] * 60))
    path.write_bytes(text + b" " * (1 << 20))
    assert "at most 5000 lines" in problem(path)


def test_file_beyond_the_size_limit(path, text, monkeypatch):
    monkeypatch.setattr(storage, "MAX_FILE", 100)
    assert "split it by runs" in problem(path)


def test_damaged_frame(path, text):
    packed = pack(path, text[:5000], text[5000:])
    data = bytearray(packed.read_bytes())
    second = data.index(b"\x28\xb5\x2f\xfd", 4)
    data[second + 30 :] = b"\xff" * (len(data) - second - 30)
    packed.write_bytes(data)
    number = text[:5000].count(b"\n") + 1
    assert f"line {number}: the zstd frame at byte {second} cannot be unpacked" in problem(packed)


def test_garbage_after_the_last_frame(path, text):
    packed = pack(path, text)
    packed.write_bytes(packed.read_bytes() + b"garbage that is no frame")
    assert "cannot be unpacked" in problem(packed)
