"""The view of a run while it is decoded."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from tests.strategies import make_run
from treegraft.analysis.text import chunks
from treegraft.trace import Run
from treegraft.view.live import TEXT_ROUNDS, live_view, script, styles
from treegraft.view.model import run_view


def grown(run: Run, rounds: int) -> Run:
    """The run when it had this many rounds."""
    return Run(run.header, run.pieces, run.prefill, run.records[:rounds], None)


@pytest.mark.parametrize("rounds", [1, 2, 6])
def test_the_last_round_and_all_of_the_text(rounds):
    run = grown(make_run(Random(4), [(2, 3)] * 6), rounds)
    view = live_view(run)
    assert view["rounds"] == run_view(run, rounds - 1, 1)["rounds"]
    assert (view["text_from"], view["total"]) == (0, rounds)
    assert len(view["text"]) == 1 + rounds, "the first token, then the rounds"
    assert [len(chunk) for chunk in view["text"]] == [len(chunk.tokens) for chunk in chunks(run)]
    assert view["written"] == [outcome.taken - (outcome.taken == len(outcome.tokens)) for outcome in run.outcomes]
    msgspec.json.encode(view)


def test_a_long_run_shows_its_last_rounds():
    run = make_run(Random(5), [(1, 2)] * (TEXT_ROUNDS + 10))
    view = live_view(run)
    assert view["text_from"] == 10
    assert len(view["text"]) == 1 + TEXT_ROUNDS
    assert len(view["written"]) == TEXT_ROUNDS


def test_text_comes_escaped():
    run = make_run(Random(6), [(2, 3)] * 3)
    run.pieces = dict.fromkeys(run.pieces, "\u202eevil <b>".encode())
    texts = [text for chunk in live_view(run)["text"] for text, _ in chunk]
    assert set(texts) == {"\\u202eevil <b>"}


def test_the_component_is_one_script_with_its_styles():
    assert script().count("export default") == 1
    assert "class Scene" in script()
    assert ".tg-live" in styles()
