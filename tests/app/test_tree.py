"""The Tree page's script, without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from streamlit.testing.v1 import AppTest

from tests.strategies import make_run, write_runs
from treegraft.view.library import OPENING
from treegraft.view.model import WINDOW_ROUNDS

PAGE = Path(__file__).parents[2] / "pages" / "tree" / "page.py"
SECONDS = 60


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder of the user's own recordings."""
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    folder = tmp_path / "recordings"
    folder.mkdir()
    return folder


def opened(**parameters: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    for name, value in parameters.items():
        app.query_params[name] = value
    return app.run()


def shown(app: AppTest) -> dict:
    """The view that the player got."""
    return json.loads(json.loads(app.get("bidi_component")[0].proto.json)["view"])


def test_opens_with_a_bundled_demo():
    app = opened()
    assert not app.exception
    assert app.selectbox[0].value == OPENING
    assert shown(app)["rounds"]


def test_a_link_chooses_trace_run_and_window(folder):
    many = make_run(Random(1), [(1, 2)] * (WINDOW_ROUNDS + 40))
    write_runs(folder / "mine.jsonl", make_run(Random(2), [(1, 2)] * 2), many)
    app = opened(trace="mine", run="1", round=str(WINDOW_ROUNDS + 20))
    assert not app.exception
    assert [box.value for box in app.selectbox] == ["mine", 1]
    view = shown(app)
    assert view["total"] == WINDOW_ROUNDS + 40
    assert view["first"] <= WINDOW_ROUNDS + 20 < view["first"] + len(view["rounds"])


@pytest.mark.parametrize("parameters", [
    {"run": "9"}, {"run": "-1"}, {"run": "x" * 99}, {"round": "9" * 99}, {"round": "\u0661"}])
def test_senseless_links_are_no_errors(folder, parameters):
    write_runs(folder / "mine.jsonl", make_run(Random(2), [(1, 2)] * 2))
    app = opened(trace="mine", **parameters)
    assert not app.exception
    assert shown(app)["rounds"]


def test_a_link_to_a_missing_recording_says_so():
    app = opened(trace="nowhere")
    assert not app.exception
    assert "no recording of the linked name" in app.warning[0].value


@pytest.mark.parametrize("content", [
    b"", b"hello\n", b'{"kind": "header", "schema": 99}\n', b"\x28\xb5\x2f\xfd\xff\xff"])
def test_a_broken_recording_is_explained(folder, content):
    (folder / "broken.jsonl").write_bytes(content)
    app = opened(trace="broken")
    assert not app.exception
    assert app.error[0].value == "This recording cannot be shown:"
    assert "broken.jsonl" in app.text[0].value


def test_an_interrupted_recording_is_shown_with_a_warning(folder):
    path = write_runs(folder / "cut.jsonl", make_run(Random(2), [(1, 2)] * 3))
    path.write_bytes(path.read_bytes()[:-40])
    app = opened(trace="cut")
    assert not app.exception
    assert "cut off" in app.text[0].value
    assert shown(app)["rounds"]


def test_without_any_recording_the_page_says_what_to_do(folder, monkeypatch):
    monkeypatch.setattr("treegraft.view.library.DEMOS", folder / "nothing")
    app = opened()
    assert not app.exception
    assert "Record" in app.info[0].value


def test_table_and_figure_show_the_round(folder):
    run = make_run(Random(3), [(2, 4)] * 3)
    write_runs(folder / "mine.jsonl", run)
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    app.query_params["trace"] = "mine"
    app.session_state["details"] = True
    app.run()
    assert not app.exception
    assert len(app.dataframe[0].value) == len(run.rounds[0].record.nodes.token)
    assert app.get("plotly_chart")
