"""The figure shows the drawn nodes where the view puts them, and reads no markup in tokens."""

from __future__ import annotations

from hypothesis import given, settings

from tests.strategies import runs
from tests.view.examples import SKY, drawn, example, grafted, retrieved
from treegraft.view.figure import tree_figure
from treegraft.view.model import run_view


def points(figure) -> dict[int, tuple[float, float]]:
    return {node: (x, y) for trace in figure.data if trace.customdata is not None
            for node, x, y in zip(trace.customdata, trace.x, trace.y, strict=True)}


def test_nodes_are_where_the_view_puts_them():
    view = run_view(example())
    placed = points(tree_figure(view))
    assert set(placed) == {0, 1, 2, 3, 4, 5}
    assert placed[3] == (2, view["rounds"][0]["rows"][3] / 100)
    names = {trace.name for trace in tree_figure(view).data if trace.name}
    assert names == {"root", "accepted", "rejected", "unreached", "target's own"}


def test_grafts_are_dashed_and_named_by_their_drafter():
    view = run_view(grafted())
    (line,) = [trace for trace in tree_figure(view).data if trace.name == "grafted by small"]
    assert line.line.dash == "dash"
    rows = view["rounds"][0]["rows"]
    assert {(x, y) for x, y in zip(line.x, line.y, strict=True) if x is not None} >= {
        (3, rows[4] / 100), (2, rows[5] / 100)}
    (thin,) = [trace for trace in tree_figure(view).data if trace.mode == "lines" and trace.line.width < 1]
    assert (2, rows[5] / 100) not in set(zip(thin.x, thin.y, strict=True))
    texts = [text for trace in tree_figure(view).data for text in trace.hovertext or ()]
    assert any("score \u22120.70 \u2192 \u22120.20" in text for text in texts)
    assert not any(trace.name and "grafted" in trace.name for trace in tree_figure(run_view(example())).data)


def test_where_drafting_stopped_is_a_line_and_retrieved_nodes_tell_their_row():
    run = retrieved()
    run.records[0].events[3].stage = "<b>"
    figure = tree_figure(run_view(run))
    (line,) = figure.layout.shapes
    assert (line.x0, line.x1) == (2.5, 2.5)
    assert [note.text for note in figure.layout.annotations] == ["drafting stopped: &lt;b&gt;"]
    told = {node: text for trace in figure.data if trace.customdata is not None
            for node, text in zip(trace.customdata, trace.hovertext, strict=True)}
    assert "rank 3 in the row of \u00b7sky" in told[7]
    assert "drafted and retrieved" in told[1]
    assert not any(word in told[2] for word in ("row", "retrieved"))
    assert not tree_figure(run_view(example())).layout.shapes


def test_nodes_of_a_sampled_round_tell_their_chance():
    figure = tree_figure(run_view(drawn()))
    told = {node: text for trace in figure.data if trace.customdata is not None
            for node, text in zip(trace.customdata, trace.hovertext, strict=True)}
    assert "chance 0.301" in told[2]
    assert "chance" not in told[0]


def test_tokens_are_no_markup():
    run = example()
    run.pieces[SKY] = b"<a href='x'>&"
    texts = [text for trace in tree_figure(run_view(run)).data for text in trace.text or ()]
    assert "&lt;a\u00b7href='x'&gt;&amp;" in texts


@settings(max_examples=20)
@given(runs(min_rounds=1, max_rounds=2))
def test_any_round_has_a_figure(run):
    view = run_view(run)
    for place, round in enumerate(view["rounds"]):
        assert len(points(tree_figure(view, place, "dark"))) == sum(row is not None for row in round["rows"])
