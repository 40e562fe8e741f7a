"""The Tree page's script, without a browser."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

import treegraft
from app_pages.tree.notes import ON_PAGE
from app_pages.tree.notes import PAGE as PAGE_OF_NOTES
from tests.app.test_every_page import write_strange
from tests.fake_decode import FakeDecode, wait_until
from tests.strategies import make_run, write_runs
from treegraft.branch import Choice
from treegraft.drafters.lookup import Lookup
from treegraft.models.fetch import WheelModel
from treegraft.notes import NotesFile, encoded, new_note
from treegraft.trace import Run
from treegraft.trace.records import TARGET, Branch, PolicyInfo
from treegraft.view.library import DEMOS, OPENING
from treegraft.view.model import WINDOW_ROUNDS

PAGE = Path(__file__).parents[2] / "app_pages" / "tree" / "page.py"
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


def wish(app: AppTest) -> dict | None:
    """Where the player is told to go."""
    return json.loads(json.loads(app.get("bidi_component")[0].proto.json)["go"])


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
    assert any("no run of the linked number" in warning.value for warning in app.warning) == ("run" in parameters)
    assert not app.run().warning


def test_a_link_to_a_missing_recording_says_so():
    app = opened(trace="nowhere")
    assert not app.exception
    assert "no recording of the linked name" in app.warning[0].value


def test_a_link_to_a_missing_run_of_several_says_so(folder):
    write_runs(folder / "mine.jsonl", *(make_run(Random(seed), [(1, 2)] * 2) for seed in (2, 3)))
    app = opened(trace="mine", run="99")
    assert app.selectbox(key="run of mine").value == 0
    assert "no run of the linked number" in app.warning[0].value


def test_a_recording_that_goes_while_it_is_open_is_missed(folder):
    path = write_runs(folder / "mine.jsonl", make_run(Random(2), [(1, 2)] * 2))
    app = opened(trace="mine")
    path.unlink()
    app.run()
    assert app.selectbox(key="trace").value == OPENING
    assert "not here any more" in app.warning[0].value
    assert not app.run().warning


def test_names_of_files_do_no_harm(folder):
    run = make_run(Random(2), [(1, 2)] * 2)
    write_runs(folder / "\u202eevil.jsonl", run)
    Path(os.fsdecode(os.fsencode(folder) + b"/bad\xff.jsonl")).write_bytes((folder / "\u202eevil.jsonl").read_bytes())
    app = opened(trace="\u202eevil")
    assert not app.exception
    assert "\\u202eevil" in app.selectbox(key="trace").options
    assert not any("bad" in option or "\u202e" in option for option in app.selectbox(key="trace").options)


@pytest.mark.parametrize("content", [
    b"", b"hello\n", b'{"kind": "header", "schema": 99}\n', b"\x28\xb5\x2f\xfd\xff\xff"])
def test_a_broken_recording_is_explained(folder, content):
    (folder / "broken.jsonl").write_bytes(content)
    app = opened(trace="broken")
    assert not app.exception
    assert app.error[0].value == "This recording cannot be shown:"
    assert "the file broken.jsonl" in app.text[0].value
    assert str(folder) not in app.text[0].value


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


@pytest.fixture(scope="module")
def strange(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    (home / "recordings").mkdir()
    write_strange(home / "recordings")
    return home


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


PANELS = ("Rejections", "Mask and caches", "Nodes", "Figure", "Ask the models", "Notes")


@pytest.mark.parametrize("panel", PANELS)
def test_every_panel_has_something_to_say_about_demos(folder, panel):
    for name in ("plain", "treegraft", "sampled", "graft"):
        app = with_panel(panel, trace=name)
        assert not app.exception, name
        assert app.dataframe or app.get("plotly_chart") or app.info or app.caption, name


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("name", ["hostile", "drawn", "begun", "cut"])
def test_panels_take_any_recording(strange, monkeypatch, name, panel):
    monkeypatch.setenv("TREEGRAFT_HOME", str(strange))
    app = with_panel(panel, trace=name)
    assert not app.exception
    assert app.pills or app.error or app.text or name == "begun"


def test_rejections_list_pairs_and_lead_to_their_rounds(folder):
    app = with_panel("Rejections", trace="stopped")
    first = app.dataframe[0].value.iloc[0]
    assert first["Times"] == 3
    assert words(app)[-1].startswith(f"\u201c{first['Drafted']}\u201d rejected for \u201c{first['Chosen']}\u201d")
    buttons = [button for button in app.button if button.label.startswith("Round ")]
    assert len(buttons) == 3
    buttons[1].click().run()
    go = wish(app)
    assert wish(app.run()) == go  # a run of the script may be cut short: the wish stands until the player has obeyed
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
    assert wish(app)["round"] == 2
    app.button(key=f"delete {note.id}").click().run()
    assert "plain" not in words(app)
    assert NotesFile(folder / "mine.notes.json", "mine").read() == []


def test_many_notes_come_in_pages(folder):
    write_runs(folder / "mine.jsonl", make_run(Random(3), [(2, 4)] * 3))
    notes = [new_note(f"note {number}", run=0, round=number % 3) for number in range(ON_PAGE + 5)]
    (folder / "mine.notes.json").write_bytes(encoded(notes, "mine"))

    def listed() -> list[str]:
        return [text for text in words(app) if text.startswith("note ")]

    app = with_panel("Notes", trace="mine")
    assert listed() == [f"note {number}" for number in range(ON_PAGE, ON_PAGE + 5)]
    app.session_state[PAGE_OF_NOTES] = 1
    app.run()
    assert listed() == [f"note {number}" for number in range(ON_PAGE)]
    app.text_area(key="note_text").input("note new")
    next(button for button in app.button if button.label == "Keep this place").click().run()
    assert listed()[-1] == "note new"
    for note in notes[ON_PAGE:]:
        app.button(key=f"delete {note.id}").click().run()
    assert listed() == ["note new"]
    NotesFile(folder / "mine.notes.json", "mine").edit(lambda notes: notes[:ON_PAGE])
    assert len([text for text in words(app.run()) if text.startswith("note ")]) == ON_PAGE


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


def test_a_run_without_rounds_offers_no_panels(folder):
    write_runs(folder / "mine.jsonl", make_run(Random(3), []))
    app = with_panel("Nodes", trace="mine")
    assert not app.exception
    assert not app.pills
    assert not app.dataframe


@pytest.fixture
def models(monkeypatch) -> FakeDecode:
    """Models that are here and answer at once."""
    monkeypatch.setattr(WheelModel, "is_here", True)
    loaded = SimpleNamespace(target=SimpleNamespace(dtype="torch.bfloat16"), drafters={"strong": Lookup(ngram=2)})
    monkeypatch.setattr("treegraft.branch.load_pair", lambda request, progress: loaded)
    monkeypatch.setattr("treegraft.branch.choices", lambda pair, question: [
        Choice(30, b" yes", -10_000, 0, -20_000, 0, True), Choice(31, b" <b>no", -300_000, 1, None, None, False)])
    return FakeDecode(free=True).install(monkeypatch)


def write_repeatable(folder: Path) -> Run:
    """A run that could be one of the default pair."""
    run = make_run(Random(3), [(2, 4)] * 3)
    run.header.target.name, run.header.policy = "smollm2", PolicyInfo(name="eagle2", drafters=[1])
    run.header.target.dtype, run.header.drafters[1].name = "float32", "strong"
    run.header.drafters[1].settings = {"ngram": 2}
    write_runs(folder / "mine.jsonl", run)
    return run


def test_models_are_asked_and_a_token_is_forced(folder, models):
    write_repeatable(folder)
    app = with_panel("Ask the models", trace="mine", round="1")
    assert words(app)[0].startswith("After node 0 of round 1: \u2026")
    app.button(key="ask_now").click().run()
    wait_until(lambda: not app.session_state["ask"].snapshot().is_live)
    app.run()
    assert not app.exception
    table = app.dataframe[0].value
    assert table["token"].tolist() == ["\u00b7yes", "\u00b7<b>no"]
    assert table["rank of strong"].tolist() == ["1", "cannot propose it"]
    asked = app.session_state["ask"].question
    assert (asked.dtype, asked.settings) == ("float32", {"ngram": "2"})
    assert any(caption.value.startswith("Recorded in float32\\, this ran in bfloat16") for caption in app.caption)
    app.selectbox(key="force_token").set_value(31).run()
    app.button(key="force_now").click().run()
    wait_until(lambda: not app.session_state["branch_run"].snapshot().is_live)
    app.run()
    made = app.session_state["branch_run"].request
    assert (made.prompt.tokens[-1], made.prompt.branch.round, made.drafters) == (31, 1, ("strong",))
    assert (made.dtype, made.drafter_settings) == ("float32", {"strong": {"ngram": "2"}})
    assert any(text.startswith("Recorded: 4 rounds") for text in words(app))
    assert app.button(key="open_branch")
    assert list(folder.glob("branch-of-mine-round-1-*.jsonl.zst"))


def test_models_that_cannot_be_asked_are_explained(folder, monkeypatch):
    write_runs(folder / "mine.jsonl", make_run(Random(3), [(2, 4)] * 3))
    assert "not one of the named pairs" in with_panel("Ask the models", trace="mine").info[0].value
    monkeypatch.setattr(WheelModel, "is_here", False)
    assert "Fetch it on the Record page" in with_panel("Ask the models", trace="eagle2").info[0].value


def test_a_run_that_cannot_be_repeated_says_why(folder, models):
    run = write_repeatable(folder)
    run.header.policy.settings = {"budget": -3}
    write_runs(folder / "odd.jsonl", run)
    app = with_panel("Ask the models", trace="odd", round="0")
    app.button(key="force_now").click().run()
    assert not app.exception
    assert "cannot be repeated" in app.error[0].value


def test_a_branch_names_the_run_that_it_leaves(folder, models):
    run = write_repeatable(folder)
    run.header.prompt.branch = Branch(trace="mine", round=2, node=-1, token=30, own=1)
    write_runs(folder / "other.jsonl", run)
    app = opened(trace="other")
    assert words(app)[0] == "It leaves mine in round 2 after the bonus, where \u201c\u00b7w30\u201d was forced."
    assert app.button(key="branch_origin")
    run.header.prompt.branch.trace = "gone"
    write_runs(folder / "another.jsonl", run)
    assert "branch_origin" not in [button.key for button in opened(trace="another").button]
