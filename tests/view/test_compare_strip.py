"""The strip says of every token who wrote it, and where texts differ."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import make_run, runs
from treegraft.analysis.align import writers
from treegraft.trace.runs import Run
from treegraft.view.compare_strip import MOST_POSITIONS, strip_view, window


@given(runs(), runs())
def test_every_cell_says_who_wrote_its_token(one, other):
    both = [one, other]
    columns = [writers(run) for run in both]
    view = strip_view(both, columns, ["one", "other"], 0, "light")
    for run, column, row in zip(both, columns, view["rows"], strict=True):
        cells = [cell for cell in row["cells"] if cell]
        assert len(cells) == len(run.output)
        starts = {round.output_start for round in run.rounds} | {0}
        for place, (cell, written) in enumerate(zip(cells, column, strict=True)):
            _, writer, depth, begins, differs, said = cell
            name = view["legend"][writer]["name"]
            assert name.startswith("target") != written.drafted
            assert depth == written.depth
            assert begins == (place in starts)
            assert differs == (one.output[place : place + 1] != [written.token])
            assert said.startswith(f"Token {place}, ")


def test_where_texts_part_and_end():
    run = make_run(Random(3), [(2, 3)] * 3)
    short = Run(run.header, run.pieces, run.prefill, run.records[:2], None)
    both = [run, short]
    view = strip_view(both, [writers(one) for one in both], ["long", "short"], 0, "dark")
    assert view["apart"] == len(short.output)
    assert view["rows"][1]["cells"][len(short.output) :] == [None] * (len(run.output) - len(short.output))
    same = strip_view([run, run], [writers(run)] * 2, ["a", "b"], 0, "dark")
    assert same["apart"] is None


@given(st.integers(0, 3000), st.data())
def test_the_window_holds_the_position_and_is_bounded(length, data):
    position = data.draw(st.integers(0, max(length - 1, 0)))
    shown = window(length, position)
    assert len(shown) == min(length, MOST_POSITIONS)
    assert not length or position in shown
