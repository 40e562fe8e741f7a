"""The curves of a training show its validations, one line an unroll step."""

from __future__ import annotations

from treegraft.view.training import PANELS, training_figure

HISTORY = [
    {"step": 0, "tokens": 0, "kl": [2.0, 3.0], "top1": [0.4, 0.3], "top5": [0.6, 0.5], "tau": 2.5},
    {"step": 1, "tokens": 100, "loss": 4.0},
    {"step": 2, "tokens": 200, "kl": [1.5, 2.5], "top1": [0.5, 0.4], "top5": [0.7, 0.6], "tau": None},
]


def test_each_unroll_step_is_a_line():
    lines = {(line.xaxis, line.name): (line.x, line.y) for line in training_figure({"head": HISTORY}).data}
    assert lines == {
        ("x", "head, step 1"): ((0, 200), (2.0, 1.5)), ("x", "head, step 2"): ((0, 200), (3.0, 2.5)),
        ("x2", "head, step 1"): ((0, 200), (0.4, 0.5)), ("x2", "head, step 2"): ((0, 200), (0.3, 0.4)),
        ("x3", "head"): ((0,), (2.5,))}


def test_trainings_are_named_once_and_differ_in_colour():
    short = [{"step": 0, "tokens": 5, "kl": [1.0], "top1": [0.5], "top5": [0.6], "tau": 3.0}]
    figure = training_figure({"one": short, "other": short})
    assert [line.name for line in figure.data if line.showlegend] == ["one", "other"]
    assert len({line.line.color for line in figure.data}) == 2
    assert {note.text for note in figure.layout.annotations} == set(PANELS)
