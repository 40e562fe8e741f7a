"""What the tables of the command line say."""

from __future__ import annotations

import io
from random import Random

import pytest
from rich.console import Console

from tests.strategies import make_run
from tests.view.examples import drawn, example
from treegraft.analysis.metrics import by_group, summary
from treegraft.trace import Run
from treegraft.trace.records import DrafterInfo
from treegraft.view.tables import run_title, statistics


@pytest.mark.parametrize(("proposes", "words"), [
    (None, "head"), (61, "head"), (40, "head (proposes 40 of 61 tokens)")])
def test_a_title_says_what_a_drafter_cannot_propose(proposes, words):
    run = make_run(Random(0), [(2, 3)])
    run.header.target.vocab_size = 61
    run.header.drafters = [DrafterInfo(id=0, kind="eagle3", name="head", proposes=proposes)]
    assert run_title(run).plain.endswith(f"{words}; greedy")


def statistics_of(*runs: Run) -> str:
    screen = Console(file=io.StringIO(), width=200)
    for part in statistics(summary(runs), by_group(runs)):
        screen.print(part)
    return screen.file.getvalue()


def test_a_title_says_how_the_output_was_chosen():
    assert run_title(drawn()).plain.endswith("; rule points, temperature 1, top-p 0.9, seed 1")


def test_statistics_name_the_rules_and_the_expected_length():
    text = statistics_of(drawn(), drawn(), example())
    assert "Rule: points (2 rounds): accept with p; else take the token out of p (EAGLE-2)\n" in text
    assert "Rule: greedy (1 round)" in text
    assert "Expected: mean accepted length, computed from the recorded probabilities." in text
    [header, row] = [line.split() for line in text.splitlines() if line.startswith(("group", "all"))]
    assert header[5:8] == ["mean", "accepted", "expected"]
    assert row[6] == "1.92"


def test_statistics_of_greedy_runs_expect_nothing():
    text = statistics_of(example())
    assert "expected" not in text.lower()
    assert "Rule: greedy (1 round): a child must be the target's favourite" in text


def test_statistics_call_a_lossy_rule_lossy():
    assert "Lossy: the text is not distributed as the target\u2019s own" in statistics_of(drawn("typical"))
