"""The What-if page's script, without a browser: what it shows is what the library replays."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import zstandard
from streamlit.testing.v1 import AppTest

import treegraft
from app_pages.what_if import real
from app_pages.what_if.command import command, quoted
from app_pages.what_if.missing import can_be_recorded
from treegraft.analysis.cost_profile import CostProfile, plain_milliseconds
from treegraft.analysis.text import visible
from treegraft.analysis.whatif import WhatIf, change
from treegraft.analysis.whatif_numbers import tokens_per_second
from treegraft.live import Snapshot
from treegraft.trace.records import Header
from treegraft.view.library import DEMOS

PAGE = Path(__file__).parents[2] / "app_pages" / "what_if" / "page.py"
SECONDS = 120
AS_MEASURED = CostProfile()


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))


def opened(name: str, **parameters: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    for key, value in {"trace": name, **parameters}.items():
        app.query_params[key] = value
    app.run()
    assert not app.exception
    return app


def slider(app: AppTest, setting: str):
    return next(one for one in app.slider if one.key.endswith(f" {setting}"))


def whatif_of(name: str) -> WhatIf:
    return WhatIf(treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0])


def shown(app: AppTest) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def expected(whatif: WhatIf, profile: CostProfile = AS_MEASURED, **settings) -> dict[str, str]:
    replay = whatif.replay(change(whatif.policy, **settings))
    rate = tokens_per_second(whatif, replay, profile)
    ratio = rate * plain_milliseconds(whatif, profile) / 1000 / (len(whatif.output) - 1)
    return {"tau": f"{replay.tau:.2f}", "tokens/s": f"{rate:.2f}", "against plain": f"{ratio:.2f}",
            "draft forwards a round": f"{replay.draft_forwards / len(replay.rounds):.2f}",
            "rounds": str(len(replay.rounds))}


@pytest.mark.parametrize(("name", "setting", "value"), [
    ("eagle2", "budget", 6), ("eagle2", "depth", 2), ("graft", "tau_d0", 0.9), ("treegraft", "threshold", 50.0),
    ("treegraft", "call_budget", 1), ("repetition", "budget", 2)])
def test_a_moved_slider_gives_the_number_of_the_library(name, setting, value):
    app, whatif = opened(name), whatif_of(name)
    assert shown(app) == expected(whatif)
    slider(app, setting).set_value(value).run()
    assert not app.exception
    assert shown(app) == expected(whatif, **{setting: value})
    assert shown(app) != expected(whatif)
    assert app.query_params["set"] == f"{setting}:{value}"


def test_a_link_sets_what_it_names_and_refuses_nonsense():
    app = opened("eagle2", set="budget:6,depth:1000000,nobody:3")
    assert shown(app) == expected(whatif_of("eagle2"), budget=6)
    assert "depth" in app.warning[0].value
    app = opened("eagle2", set="budget:500")
    assert "from 1 to 160" in app.warning[0].value
    assert shown(app) == expected(whatif_of("eagle2"), budget=160)


def test_a_slower_target_changes_speeds_alone():
    app, whatif = opened("eagle2"), whatif_of("eagle2")
    app.selectbox(key="what if target").set_value(4.0).run()
    assert shown(app) == expected(whatif, CostProfile(target=4.0))
    assert shown(app)["tau"] == expected(whatif)["tau"]


def test_a_link_keeps_the_costs_and_only_those_on_offer():
    app = opened("eagle2", costs="4,0.5")
    assert shown(app) == expected(whatif_of("eagle2"), CostProfile(target=4.0, drafters=0.5))
    app.selectbox(key="what if target").set_value(2.0).run()
    assert app.query_params["costs"] == "2,0.5"
    app.selectbox(key="what if target").set_value(1.0)
    app.selectbox(key="what if drafters").set_value(1.0).run()
    assert "costs" not in app.query_params
    for nonsense in ("1e9,1", "2", "nan,2", "2,2,2"):
        assert shown(opened("eagle2", costs=nonsense)) == expected(
            whatif_of("eagle2"), CostProfile(drafters=2.0 if nonsense == "nan,2" else 1.0))


def test_a_recording_that_was_written_anew_begins_with_its_own_settings(tmp_path):
    path = tmp_path / "recordings" / "mine.jsonl"
    path.parent.mkdir()
    with (DEMOS / "eagle2.jsonl.zst").open("rb") as file:
        header, rest = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read().split(b"\n", 1)
    path.write_bytes(header + b"\n" + rest)
    app = opened("mine", set="budget:150")
    assert slider(app, "budget").value == 150
    told = json.loads(header)
    told["policy"]["settings"]["budget"] = 2
    path.write_bytes(json.dumps(told).encode() + b"\n" + rest)
    os.utime(path, (1, 1))
    del app.query_params["set"]
    app.run()
    assert not app.exception
    assert slider(app, "budget").value == 2


def test_what_cannot_be_known_is_said():
    app = opened("eagle2", set="top_k:12")
    assert "cannot be replayed" in app.warning[0].value
    assert not app.metric
    assert [text.value for text in app.text] == [
        "None of the 14 values of budget tried can be replayed with the other settings as they are."]
    app = opened("question")
    assert any("level dense" in text.value for text in app.text)


@pytest.mark.parametrize("setting", ["top_k:12", "depth:20"])
def test_settings_that_cannot_be_replayed_get_one_piece_of_advice_and_no_chart(setting):
    app = opened("eagle2", set=setting)
    (warning,) = app.warning
    assert "to know their numbers" in warning.value
    assert "level" not in warning.value
    assert not app.get("plotly_chart")


def test_the_knee_is_looked_for_between_the_steps():
    app = opened("repetition")
    told = [element.proto.body for element in app.get("html") if "knee" in element.proto.body]
    assert len(told) == 2
    assert all("is 5." in text for text in told)


def test_plain_decoding_is_not_measured_against_itself():
    app = opened("plain")
    assert "against plain" not in shown(app)
    assert "tokens/s" in shown(app)


def test_the_numbers_say_that_the_prompt_is_left_out():
    assert any("Reading the prompt is left out" in caption.value for caption in opened("eagle2").caption)


@pytest.mark.parametrize("view", ["Trees", "Temperature", "Run it for real"])
@pytest.mark.parametrize("name", ["eagle2", "graft", "treegraft"])
def test_every_view_opens(name, view):
    app = opened(name)
    app.segmented_control(key="what if view").set_value(view).run()
    assert not app.exception
    if view == "Trees":
        assert len(app.get("bidi_component")) == 2


def test_without_the_models_it_shows_the_command():
    app = opened("eagle2", set="budget:16")
    app.segmented_control(key="what if view").set_value("Run it for real").run()
    assert "--set budget=16 --set top_k=10" in app.code[0].value
    assert "--level dense" in app.code[0].value


def header_of(name: str) -> Header:
    return treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0].header


def test_the_command_names_all_that_makes_the_recording():
    words = shlex.split(command(header_of("graft"), {"budget": 12}, "dense"))
    assert [words[place + 1] for place, word in enumerate(words) if word == "--drafter"] == ["eagle3", "successors"]
    assert {"budget=12", "tau_d0=0.14", "successors.learn=committed", "float32", "dense"} < set(words)
    stopped = shlex.split(command(header_of("stopped"), {}, "dense"))
    assert stopped[stopped.index("--stop") + 1] == "8."


def test_the_command_makes_a_recording_that_can_be_replayed():
    header = header_of("graft")
    header.drafters[1].settings, header.drafters[1].state = {"learn": "all"}, "history"
    assert "successors.learn=committed" in shlex.split(command(header, {}, "dense"))
    assert can_be_recorded(header)
    header.drafters[1].settings = {"window": 7}
    assert not can_be_recorded(header)


@pytest.mark.parametrize("text", ["plain", "two words", "a\nb\t'c' \\d", "\u202e\x85\U000e0001 é"])
def test_a_word_of_the_command_is_what_the_shell_reads(text):
    bash = shutil.which("bash") or pytest.skip("there is no bash")
    told = subprocess.run([bash, "-c", f"printf %s {quoted(text)}"], capture_output=True, check=True,
                          env={"LC_ALL": "C.UTF-8"})
    assert told.stdout.decode() == text
    assert visible(quoted(text)) == quoted(text)


class Recorded:
    """Stands in for a live run that has ended as the demo did."""

    def __init__(self, request) -> None:
        self.request = request

    def start(self) -> Recorded:
        return self

    def snapshot(self) -> Snapshot:
        path = DEMOS / "eagle2.jsonl.zst"
        return Snapshot(state="finished", run=treegraft.open(path).runs[0], path=path)


def test_a_run_for_real_asks_for_the_settings_and_stands_beside_the_prediction(monkeypatch):
    monkeypatch.setattr(real, "why_not", lambda header: "")
    monkeypatch.setattr(real, "LiveRun", Recorded)
    app, whatif = opened("eagle2", set="budget:6"), whatif_of("eagle2")
    app.segmented_control(key="what if view").set_value("Run it for real").run()
    next(button for button in app.button if button.label == "Run it for real").click().run()
    assert not app.exception
    request, header = app.session_state["real run"].request, whatif.run.header
    assert (request.policy.budget, request.prompt, request.level) == (6, header.prompt.messages, header.level)
    assert (request.dtype, request.drafter_settings) == ("float32", {"eagle3": {}})
    found = app.dataframe[-1].value.set_index("")
    guess, recorded = whatif.replay(change(whatif.policy, budget=6)), whatif.replay()
    assert found.loc["tau", "predicted"] == guess.tau != found.loc["tau", "outcome"] == recorded.tau
    assert (found.loc["rounds", "predicted"], found.loc["rounds", "outcome"]) == (
        len(guess.rounds), len(recorded.rounds))
    assert any("token for token" in text.value for text in app.text)


def ran_for_real(monkeypatch, name: str, **parameters: str) -> AppTest:
    monkeypatch.setattr(real, "why_not", lambda header: "")
    monkeypatch.setattr(real, "LiveRun", Recorded)
    app = opened(name, **parameters)
    app.segmented_control(key="what if view").set_value("Run it for real").run()
    next(button for button in app.button if button.label == "Run it for real").click().run()
    assert not app.exception
    return app


def test_a_run_for_real_has_the_drafters_of_the_recording(monkeypatch):
    request = ran_for_real(monkeypatch, "graft").session_state["real run"].request
    assert request.drafter_settings == {"eagle3": {}, "successors": {"learn": "committed"}}


def test_an_outcome_names_its_settings_when_others_are_chosen(monkeypatch):
    app = ran_for_real(monkeypatch, "eagle2", set="budget:6,depth:2")
    slider(app, "budget").set_value(34).run()
    assert not app.exception
    assert "**Run with budget 6\\, depth 2**" in [heading.value for heading in app.markdown]
    assert any("again with budget 34, depth 2" in text.value for text in app.text)


def test_an_outcome_in_another_number_format_says_so(monkeypatch):
    def elsewhere(work: Recorded) -> Snapshot:
        now = finished(work)
        now.run.header.target.dtype = "bfloat16"
        return now

    finished = Recorded.snapshot
    monkeypatch.setattr(Recorded, "snapshot", elsewhere)
    app = ran_for_real(monkeypatch, "eagle2")
    assert any("Recorded in float32\\, this ran in bfloat16" in caption.value for caption in app.caption)
