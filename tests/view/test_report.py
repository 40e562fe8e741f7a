"""Summaries and tables of a run that leave the app."""

from __future__ import annotations

import csv
import io
import json
import re
from random import Random

import networkx
import pytest
from hypothesis import given

import treegraft
from tests.strategies import make_run, runs
from tests.view.examples import example
from treegraft.analysis.metrics import as_dict, summary
from treegraft.notes import new_note
from treegraft.trace.records import TARGET
from treegraft.view.library import DEMOS
from treegraft.view.report import code, fenced, markdown_summary, round_graphml, rounds_csv, statistics_json


def test_rounds_are_those_of_the_frame():
    run = treegraft.open(DEMOS / "eagle2.jsonl.zst").runs[0]
    rows = list(csv.DictReader(io.StringIO(rounds_csv(run))))
    assert [int(row["accepted"]) for row in rows] == [round.accepted for round in run.rounds]


def test_a_spreadsheet_takes_nothing_for_a_formula():
    run = example()
    run.header.group = "=1+1"
    run.records[0].note = "@x"
    row = next(csv.DictReader(io.StringIO(rounds_csv(run))))
    assert (row["group"], row["note"]) == ("'=1+1", "'@x")


def test_rounds_show_what_acts_or_cannot_be_seen():
    run = example()
    run.header.group, run.records[0].note = "a\x00\u202eb", "two\nlines"
    row = next(csv.DictReader(io.StringIO(rounds_csv(run))))
    assert (row["group"], row["note"]) == ("a\\x00\\u202eb", "two\\nlines")


@pytest.mark.parametrize("empty", [False, True])
def test_statistics_are_those_of_the_summary(empty):
    run = make_run(Random(1), [] if empty else [(2, 3)] * 3)
    found = json.loads(statistics_json(run))
    assert found["all"]["tau"] == summary(run).tau
    assert found["all"].keys() == as_dict(summary(run)).keys()


@given(run=runs(min_rounds=1))
def test_a_tree_reads_back_as_the_graph(run):
    round = run.rounds[0]
    read = networkx.read_graphml(io.BytesIO(round_graphml(round)), node_type=int)
    assert set(read.edges) == set(round.to_networkx().edges)
    assert [read.nodes[node]["fate"] for node in sorted(read.nodes)] == round.fates
    assert [read.nodes[node]["token"] for node in sorted(read.nodes)] == round.record.nodes.token


def test_a_summary_holds_the_facts():
    run = treegraft.open(DEMOS / "treegraft.jsonl.zst").runs[0]
    text = markdown_summary(run, "treegraft", 2, 5)
    for words in ("`smollm2`", "`treegraft`", "budget=63", f"tau {summary(run).tau:.2f}", "## Round 2", "Node 5:",
                  f"torch `{run.header.host.torch}`", f"Context {run.records[2].context}", "All that could be checked",
                  run.text.splitlines()[0]):
        assert words in text


def test_a_summary_can_leave_prompt_and_text_out():
    run = example()
    notes = [new_note("secret note", run=0, round=0, node=1)]
    whole = markdown_summary(run, "mine", 0, 1, notes=notes)
    assert "Why is the sky blue?" in whole
    assert "- run 0, round 0, node 1: `secret note`" in whole
    short = markdown_summary(run, "mine", 0, 1, notes=notes, texts=False)
    assert "## Round 0" in short
    for word in ("sky", "blue", "secret"):
        assert word not in short


def test_a_summary_names_what_is_broken():
    run = example()
    run.records[0].kv = {TARGET: 9}
    text = markdown_summary(run, "mine")
    assert "## Invariants that do not hold" in text
    assert "9, expected 6 = context 4 + 2 accepted" in text


def test_what_a_trace_says_stays_in_code():
    run = example()
    evil = "`]<img src=x>\n# [a](b) ```"
    run.header.target.name = run.header.policy.name = run.header.host.torch = evil
    run.header.prompt.messages = [{"role": "user", "content": "```\n# out"}]
    run.records[0].note = evil
    text = markdown_summary(run, evil, 0)
    outside = re.sub(r"(?s)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert "<img" not in outside
    assert [line for line in outside.splitlines() if line.startswith("#")] == [
        "# treegraft: ", "## How it was made", "## Numbers", "## Round 0", "## Invariants", "## Prompt", "## Output"]


def test_ticks_are_longer_than_those_inside():
    assert code("a") == "`a`"
    assert code("a``b") == "``` a``b ```"
    assert code("a\nb") == "`a\\nb`"
    assert fenced("````").startswith("`````text\n````\n")
    assert len(fenced("x" * 10**6)) < 21_000


@given(run=runs())
def test_every_run_has_a_summary(run):
    assert markdown_summary(run, "x", 0 if run.rounds else None, 0)
