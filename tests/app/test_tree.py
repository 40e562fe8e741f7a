"""The Tree page's script, without a browser."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from streamlit.testing.v1 import AppTest

import treegraft
from tests.strategies import make_run, write_runs
from treegraft.notes import NotesFile
from treegraft.trace.records import TARGET
from treegraft.view.library import DEMOS, OPENING
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


def with_panel(name: str, **parameters: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    for parameter, value in parameters.items():
        app.query_params[parameter] = value
    app.session_state["panel"] = name
    return app.run()


def words(app: AppTest) -> list[str]:
    return [element.value for element in app.text]


def test_nodes_and_figure_show_the_round(folder):
    run = make_run(Random(3), [(2, 4)] * 3)
    write_runs(folder / "mine.jsonl", run)
    app = with_panel("Nodes", trace="mine", round="1")
    assert not app.exception
    assert len(app.dataframe[0].value) == len(run.rounds[1].record.nodes.token)
    app = with_panel("Figure", trace="mine", round="1")
    assert app.get("plotly_chart")


@pytest.mark.parametrize("panel", ["Rejections", "Mask and caches", "Nodes", "Figure", "Notes"])
@pytest.mark.parametrize("name", sorted(path.name.split(".")[0] for path in DEMOS.glob("*.jsonl*")))
def test_every_panel_has_something_to_say_about_every_demo(folder, name, panel):
    app = with_panel(panel, trace=name)
    assert not app.exception
    assert app.dataframe or app.get("plotly_chart") or app.info or app.caption


def test_rejections_list_pairs_and_lead_to_their_rounds(folder):
    app = with_panel("Rejections", trace="stopped")
    first = app.dataframe[0].value.iloc[0]
    assert first["Times"] == 3
    assert words(app)[-1].startswith(f"\u201c{first['Drafted']}\u201d rejected for \u201c{first['Chosen']}\u201d")
    buttons = [button for button in app.button if button.label.startswith("Round ")]
    assert len(buttons) == 3
    buttons[1].click().run()
    go = json.loads(app.get("bidi_component")[0].proto.json)["go"]
    assert f"Round {go['round']}" == buttons[1].label
    rejected = treegraft.open(DEMOS / "stopped.jsonl.zst").runs[0].rounds[go["round"]]
    assert rejected.fates[go["node"]] == "rejected"


def test_rejections_can_be_counted_and_filtered(folder):
    app = with_panel("Rejections", trace="eagle2")
    best = app.dataframe[0].value["Times"].sum()
    app.segmented_control(key="rejections_kind").set_value("Every rejected token").run()
    assert app.dataframe[0].value["Times"].sum() > best
    assert with_panel("Rejections", trace="plain").info


def test_a_broken_cache_is_shown_in_red_with_its_numbers(folder):
    run = make_run(Random(3), [(2, 4)] * 3)
    run.records[1].kv[TARGET] += 7
    write_runs(folder / "mine.jsonl", run)
    app = with_panel("Mask and caches", trace="mine", round="1")
    expected = run.records[2].context - 1
    assert any(f"{expected + 7}, expected {expected}" in text for text in words(app))
    assert "Broken" in "".join(str(badge.proto) for badge in app.markdown if "Broken" in str(badge.proto))
    app = with_panel("Mask and caches", trace="mine", round="0")
    assert "Broken in another round:" in words(app)
    assert any(button.label == "Round 1" for button in app.button)


def test_notes_are_kept_changed_and_deleted(folder):
    write_runs(folder / "mine.jsonl", make_run(Random(3), [(2, 4)] * 3))
    app = with_panel("Notes", trace="mine", round="2")
    app.text_area(key="note_text").input("<b>odd</b>")
    next(button for button in app.button if button.label == "Keep this place").click().run()
    assert "<b>odd</b>" in words(app)
    note = NotesFile(folder / "mine.notes.json", "mine").read()[0]
    assert (note.round, note.text) == (2, "<b>odd</b>")
    app = with_panel("Notes", trace="mine")
    app.text_area(key=f"text {note.id}").input("plain")
    app.button(key=f"save {note.id}").click().run()
    assert "plain" in words(app)
    app.button(key=f"note {note.id}").click().run()
    assert json.loads(app.get("bidi_component")[0].proto.json)["go"]["round"] == 2
    app.button(key=f"delete {note.id}").click().run()
    assert "plain" not in words(app)
    assert NotesFile(folder / "mine.notes.json", "mine").read() == []


def test_damaged_notes_are_explained_and_left_alone(folder):
    write_runs(folder / "mine.jsonl", make_run(Random(3), [(2, 4)] * 3))
    (folder / "mine.notes.json").write_text("hello")
    app = with_panel("Notes", trace="mine")
    assert not app.exception
    assert "The notes cannot be shown:" in app.error[0].value
    assert (folder / "mine.notes.json").read_text() == "hello"


def test_notes_of_the_public_stay_in_the_session(folder, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_PUBLIC", "1")
    write_runs(folder / "mine.jsonl", make_run(Random(3), [(2, 4)] * 3))
    app = with_panel("Notes", trace="mine")
    app.text_area(key="note_text").input("odd")
    next(button for button in app.button if button.label == "Keep this place").click().run()
    assert "odd" in words(app)
    assert not list(folder.parent.rglob("*notes*"))


def test_a_run_without_rounds_says_so_in_every_panel(folder):
    write_runs(folder / "mine.jsonl", make_run(Random(3), []))
    app = with_panel("Nodes", trace="mine")
    assert not app.exception
    assert "no rounds" in app.info[0].value
