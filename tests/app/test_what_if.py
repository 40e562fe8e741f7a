"""The What-if page's script, without a browser: what it shows is what the library replays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import zstandard
from streamlit.testing.v1 import AppTest

import treegraft
from app_pages.what_if import real
from treegraft.analysis.cost_profile import CostProfile, plain_milliseconds
from treegraft.analysis.whatif import WhatIf, change
from treegraft.analysis.whatif_numbers import tokens_per_second
from treegraft.live import Snapshot
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
    return {"tau": f"{replay.tau:.2f}", "tokens/s": f"{rate:.2f}", "speed over plain decoding": f"{ratio:.2f}",
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
    app = opened("question")
    assert any("level dense" in text.value for text in app.text)


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
    found = app.dataframe[-1].value.set_index("")
    guess, recorded = whatif.replay(change(whatif.policy, budget=6)), whatif.replay()
    assert found.loc["tau", "predicted"] == guess.tau != found.loc["tau", "outcome"] == recorded.tau
    assert (found.loc["rounds", "predicted"], found.loc["rounds", "outcome"]) == (
        len(guess.rounds), len(recorded.rounds))
    assert any("token for token" in text.value for text in app.text)
