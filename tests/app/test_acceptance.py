"""The Acceptance page's script, without a browser: every demo and strange traces, in every part."""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
import pytest
from streamlit.testing.v1 import AppTest

import treegraft
from tests.strategies import make_run, write_runs
from tests.view.examples import example
from treegraft.analysis.metrics import summary
from treegraft.view.library import DEMOS

PAGE = Path(__file__).parents[2] / "app_pages" / "acceptance" / "page.py"
PARTS = ["Length", "Where it stops", "Who proposed it", "Time", "Same numbers elsewhere"]
SECONDS = 60
HOSTILE = ["<img src=x onerror=window.hacked=1>", "**bold** [link](x)", "\u202eevil", "x" * 10_000]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    folder = tmp_path / "recordings"
    folder.mkdir()
    return folder


def opened(part: str = PARTS[0], **parameters: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    app.session_state["part"] = part
    for name, value in parameters.items():
        app.query_params[name] = value
    return app.run()


def without_end(path: Path) -> None:
    """Cut the end record off, as a crash does."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def numbers(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def drawn(app: AppTest) -> int:
    return len(app.get("plotly_chart"))


@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in DEMOS.glob("*.jsonl*")))
def test_every_demo(name):
    """Demos that differ in kind in every part, the others where charts depend on tokens and drafters."""
    counts = summary(treegraft.open(next(DEMOS.glob(f"{name}.jsonl*"))).runs)
    for part in PARTS if name in ("plain", "repetition", "sampled", "treegraft") else PARTS[1:3]:
        app = opened(part, trace=name)
        assert not app.exception
        assert numbers(app)["Tau, with the bonus"] == f"{counts.tau:.2f}"
        assert numbers(app)["Accepted a round, without"] == f"{counts.mean_accepted:.2f}"
        assert drawn(app) or app.dataframe or app.text or app.table


@pytest.mark.parametrize("part", PARTS)
def test_strange_traces(folder, part):
    hostile = make_run(Random(6), [(3, 5)] * 6)
    hostile.pieces = {token: HOSTILE[token % len(HOSTILE)].encode() for token in range(40)}
    for drafter, name in zip(hostile.header.drafters, HOSTILE, strict=False):
        drafter.name = name
    timeless = make_run(Random(8), [(2, 3)] * 4)
    timeless.records = [msgspec.structs.replace(record, times={}, forwards=[]) for record in timeless.records]
    timeless.prefill = None
    traces = {"hostile": [hostile], "unfinished": [make_run(Random(7), [(2, 3)] * 4)], "timeless": [timeless],
              "cut": [example(discarded=2)],
              "drawn": [make_run(Random(9), [(3, 4)] * 5, "points")], "undrafted": [make_run(Random(10), [(0, 1)] * 3)],
              "mixed": [make_run(Random(11), [(0, 1), (3, 4), (0, 1)])]}
    for name, several in traces.items():
        path = write_runs(folder / f"{name}.jsonl", *several)
        if name == "unfinished":
            without_end(path)
        app = opened(part, trace=name)
        assert not app.exception, name
        assert numbers(app)["Rounds"] == str(len(several[0].records)), name
        assert drawn(app) or app.dataframe or app.text or app.table, name


def test_no_rounds_and_unfinished_runs_are_explained(folder):
    write_runs(folder / "nothing.jsonl", make_run(Random(1), []))
    app = opened(trace="nothing")
    assert not app.exception
    assert "no rounds to count: the text ended with the token" in app.info[0].value
    without_end(write_runs(folder / "unfinished.jsonl", make_run(Random(7), [(2, 3)] * 4)))
    app = opened(trace="unfinished")
    assert any("no end record" in text.value for text in app.text)
    assert numbers(app)["Tokens/s"] == "-"


def test_tokens_after_the_end_are_told(folder):
    for number, words in ((1, "1 token of the rounds lay after the text's end and counts nowhere."),
                          (2, "2 tokens of the rounds lay after the text's end and count nowhere.")):
        write_runs(folder / f"cut{number}.jsonl", example(discarded=number))
        assert words in [text.value for text in opened(trace=f"cut{number}").text]


def test_runs_together_or_alone(folder):
    several = [make_run(Random(seed), [(3, 4)] * (3 + seed)) for seed in range(3)]
    several[2].header.turn = 1
    write_runs(folder / "several.jsonl", *several)
    app = opened(trace="several", run="1")
    assert numbers(app)["Rounds"] == "4"
    app.get("button_group")[0].set_value("All runs together").run()
    assert not app.exception
    assert numbers(app)["Rounds"] == "12"
    assert numbers(app)["Tau, with the bonus"] == f"{summary(several).tau:.2f}"
    assert "By turn" in [header.value for header in app.subheader]


def test_readings_hold_no_markup(folder):
    run = make_run(Random(6), [(3, 5)] * 6)
    run.header.drafters[0].name = run.header.drafters[1].name = "**bold** [link](x)"
    write_runs(folder / "markup.jsonl", run)
    app = opened("Who proposed it", trace="markup")
    assert not app.exception
    assert any("**bold** [link](x)" in text.proto.body for text in app.get("html"))
    assert not any("**bold**" in text.value or "[link](x)" in text.value for text in app.markdown)


def test_plain_decoding_is_not_measured_against_itself():
    assert numbers(opened(trace="plain"))["Against plain"] == "-"
    assert numbers(opened(trace="chain"))["Against plain"].endswith("×")


def test_choosing_a_bar_offers_its_rounds(folder):
    run = make_run(Random(6), [(3, 5)] * 6)
    write_runs(folder / "mine.jsonl", run)
    app = opened(trace="mine")
    counts = summary(run)
    wanted = next(number for number, rounds in enumerate(counts.histogram) if rounds)
    box = next(box for box in app.selectbox if f"{wanted} accepted" in box.options)
    box.select(f"{wanted} accepted").run()
    assert not app.exception
    (pills,) = app.get("button_group")
    offered = [option.content for option in pills.proto.options]
    assert offered == [f"Round {round.index}" for round in run.rounds if round.accepted == wanted]
