"""`treegraft ledger` prints what the ledger of a trace says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.analysis.test_ledger import dense_run
from tests.strategies import write_runs
from treegraft import cli
from treegraft.analysis.ledger import Ledger, ledger


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = dense_run("committed")
    return write_runs(tmp_path_factory.mktemp("ledger") / "two.jsonl", run, run)


def printed(*arguments: object) -> str:
    result = CliRunner().invoke(cli.app, ["ledger", *map(str, arguments)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_row_for_every_run_and_one_for_all(trace):
    book = ledger(dense_run("committed"))
    both = Ledger([*book.entries, *book.entries])
    rows = {line.split()[0]: line.split() for line in printed(trace).splitlines() if line.split()}
    for name, one in {"0": book, "1": book, "all": both}.items():
        numbers = [f"{value:.2f}" for value in (one.mean("dense"), one.mean("base"), one.mean("pruned"),
                                                one.mean("grafted"), one.regret, one.gain, one.needed_gain)]
        assert rows[name][1] == str(len(one.entries))
        assert [text.replace("\N{MINUS SIGN}", "-") for text in rows[name][3:10]] == numbers
        assert rows[name][10] == ("yes" if one.pays else "no")


def test_everywhere_counts_positions(trace):
    found = json.loads(printed(trace, "--everywhere", "--json"))
    run = dense_run("committed")
    assert [one["positions"] for one in found] == [len(run.output) - 1] * 2
    assert "positions" in printed(trace, "--everywhere")


def test_a_trace_without_a_ledger_is_refused_in_one_line(tmp_path):
    from random import Random

    from tests.strategies import make_run

    path = write_runs(tmp_path / "other.jsonl", make_run(Random(1), [(2, 2)]))
    result = CliRunner().invoke(cli.app, ["ledger", str(path)])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
