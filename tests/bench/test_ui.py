"""`treegraft bench --ui`: the traces that it makes, and what it says of its measurements."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import treegraft
from treegraft import cli
from treegraft.analysis.spread import spread
from treegraft.analysis.whatif import WhatIf
from treegraft.bench import ui
from treegraft.bench.ui_report import PLACE, grid
from treegraft.bench.ui_traces import plain_trace, tree_trace


def test_trees_have_the_wanted_size_and_are_sound(tmp_path):
    path = tree_trace(tmp_path / "trees.jsonl", 60, 20, lambda _, rounds: rounds == 4)
    trace = treegraft.open(path)
    trace.check()
    assert [(round.tree.size, len(round.event("verify").order)) for round in trace.runs[0].rounds] == [(61, 21)] * 4
    assert all(1 <= round.accepted <= 3 for round in trace.runs[0].rounds)


def test_the_long_run_can_be_replayed_and_copies_something(tmp_path):
    run = treegraft.open(plain_trace(tmp_path / "plain.jsonl", 200)).runs[0]
    replay = WhatIf(run).replay()
    assert replay.tokens == 201
    assert 0 < sum(round.accepted for round in replay.rounds) < 200


def test_limits_are_told_from_what_was_measured():
    found = [ui.Measured("fast", spread([1.0, 2.0, 3.0]), "ms", 2), ui.Measured("slow", spread([3.0]), "ms", 2),
             ui.Measured("free", spread([3.0]), "ms", None)]
    assert [row[0::3] for row in grid(found).rows] == [("fast", "yes"), ("slow", "no"), ("free", "")]


@pytest.mark.browser
def test_the_dashboard_is_measured(chromium_path, tmp_path):
    page = tmp_path / "benchmarks.md"
    small = ("from treegraft import cli; from treegraft.bench import ui; ui.LARGE, ui.ROUNDS = 200_000, 60; "
             f"cli.app(['bench', '--ui', '--repeats', '1', '--markdown', {str(page)!r}])")
    script = tmp_path / "small.py"  # a process of its own: playwright wants no other loop beside it
    script.write_text(f"if __name__ == '__main__':\n    {small}\n")
    result = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=600,
                            env=os.environ | {"COLUMNS": "250", "PYTHONPATH": str(ui.APP.parent)}, check=False)
    assert result.returncode == 0, result.stderr
    for words in ("player: an event, 60 nodes", "first tree, later visit", "1000 ms", "Streamlit alone"):
        assert words in result.stdout
        assert words in page.read_text()
    assert f"treegraft {PLACE}: end" in page.read_text()


def test_without_a_browser_it_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(ui, "BROWSERS", ("no-such-browser",))
    result = CliRunner().invoke(cli.app, ["bench", "--ui"])
    assert result.exit_code == 2
    assert "there is no Chromium on the path" in result.stderr
