"""The Scheduler page's script, without a browser."""

from __future__ import annotations

import html
import re
from pathlib import Path
from random import Random

import pytest
from streamlit.testing.v1 import AppTest

import treegraft
from app_pages.scheduler.missing import DEMOS as OFFERED
from tests.analysis.recordings import PROMPTS, made_scheduler, recorded
from tests.strategies import make_run, write_runs
from tests.view.examples import grafted
from treegraft.analysis.decisions import decisions
from treegraft.analysis.regret import verdict
from treegraft.analysis.whatif import WhatIf, change
from treegraft.policies import TreeGraft
from treegraft.scheduler.values import Values
from treegraft.view.library import DEMOS, traces
from treegraft.view.scheduler_charts import CALL, SKIP

PAGE = Path(__file__).parents[2] / "app_pages" / "scheduler" / "page.py"
SECONDS = 120
PARTS = ("Decisions", "Value tree", "Threshold")
POLICY = TreeGraft(budget=12, top_k=3, layers=3, survive_empty=True)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The folder of the user's own recordings."""
    monkeypatch.setenv("TREEGRAFT_HOME", str(tmp_path))
    folder = tmp_path / "recordings"
    folder.mkdir()
    return folder


def opened(part: str = PARTS[0], **parameters: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=SECONDS)
    for name, value in parameters.items():
        app.query_params[name] = value
    app.session_state["scheduler part"] = part
    return app.run()


def tiny(level: str = "exhaustive", new_tokens: int = 8, scheduler: bool = True, **settings: object):
    """A run of tiny models."""
    return recorded(("lookup", "strong"), PROMPTS[0], change(POLICY, **settings), level=level, new_tokens=new_tokens,
                    scheduler=made_scheduler() if scheduler else None).run


def texts(app: AppTest) -> str:
    told = [html.unescape(re.sub("<[^>]*>", "", one.proto.body)) for one in app.get("html")]
    return "\n".join([*told, *(one.value for one in (*app.text, *app.caption, *app.markdown))])


def metrics(app: AppTest) -> dict[str, str]:
    return {one.label: one.value for one in app.metric}


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("name", OFFERED)
def test_every_part_is_drawn(name, part):
    app = opened(part, trace=name)
    assert not app.exception
    assert len(app.get("plotly_chart")) == (1 if part == "Value tree" else 2)


def test_the_summary_is_the_library_s():
    run = treegraft.open(DEMOS / "treegraft.jsonl.zst").runs[0]
    made, found = decisions(run), verdict(Values(WhatIf(run)))
    app = opened(trace="treegraft")
    shown = metrics(app)
    assert shown["Decisions"] == str(len(made))
    assert shown["Calls"].startswith(f"{sum(one.call for one in made)} ")
    assert shown["Oracle agrees"] == f"{found.decisions.agreement:.0%}"
    assert shown["Time lost"] == f"{found.lost:,.0f} ms"
    assert shown["Share of the time"] == f"{found.share:.0%}"


def test_a_link_chooses_the_decision():
    app = opened(trace="treegraft", round="3", layer="2")
    assert [one.value for one in app.subheader] == ["Round 3, layer 2"]
    assert f"2 {CALL}" in [option.content for option in app.get("button_group")[0].proto.options]
    app.slider[0].set_value(5).run()
    assert [one.value for one in app.subheader] == ["Round 5, layer 2"]


@pytest.mark.parametrize("parameters", [{"round": "999"}, {"layer": "9" * 99}, {"round": "x", "layer": "-1"}])
def test_senseless_links_show_the_first_decision(parameters):
    app = opened(trace="treegraft", **parameters)
    assert not app.exception
    assert [one.value for one in app.subheader] == ["Round 0, layer 1"]


def test_the_offered_demos_have_all_that_the_page_shows():
    for name in OFFERED:
        run = treegraft.open(traces()[name]).runs[0]
        assert decisions(run)
        assert run.header.level == "exhaustive"
        assert run.header.scheduler


def test_an_offered_demo_opens():
    app = opened(trace="chain")
    assert "chain" in texts(app)
    app.button(key="open treegraft").click().run()
    assert app.selectbox[0].value == "treegraft"
    assert app.metric
    app.run()
    assert app.selectbox[0].value == "treegraft"


@pytest.mark.parametrize("level", ["run", "dense"])
def test_other_levels_say_what_the_value_tree_needs(folder, level):
    write_runs(folder / "mine.jsonl", tiny(level))
    app = opened("Value tree", trace="mine")
    assert not app.exception
    assert f"recorded at the level {level}" in texts(app)
    assert "--level exhaustive" in app.code[0].value
    assert "Oracle agrees" not in metrics(app)
    assert metrics(app)["Decisions"]


def test_a_dense_run_has_a_sweep_or_says_why_not(folder):
    write_runs(folder / "mine.jsonl", tiny("dense"))
    app = opened("Threshold", trace="mine")
    assert not app.exception
    assert app.get("plotly_chart") or "cannot be replayed" in texts(app)


@pytest.mark.parametrize("schedule", ["always", "never", "1,3"])
def test_fixed_schedules_are_shown_as_fixed(folder, schedule):
    write_runs(folder / "mine.jsonl", tiny(schedule=schedule, scheduler=False))
    app = opened(trace="mine")
    assert not app.exception
    assert f"fixed before the run (schedule: {schedule})" in texts(app)
    assert "no scheduler" in texts(app)
    assert "Oracle agrees" in metrics(app)
    app = opened("Threshold", trace="mine")
    assert "the trace has no scheduler" in texts(app)


def test_a_run_without_clock_and_costs_says_so(folder):
    run = tiny(schedule="always", scheduler=False)
    run.header.clock, run.header.costs = None, []
    for record in run.records:
        for event in record.events:
            if hasattr(event, "features"):
                event.features, event.margin = {}, None
    write_runs(folder / "mine.jsonl", run)
    for part in PARTS:
        app = opened(part, trace="mine")
        assert not app.exception
    assert "was not recorded" in texts(opened(trace="mine"))
    assert "no clock" in texts(opened("Value tree", trace="mine"))


@pytest.mark.parametrize("part", PARTS)
def test_odd_runs_are_no_errors(folder, part):
    """No rounds, one token, foreign traces with decisions that no policy here would make, an unfinished file."""
    hostile = grafted()
    hostile.records[0].events[0].layer = 2**40
    hostile.records[0].events[0].rule = "<img src=x onerror=alert(1)>"
    hostile.records[0].events[2].features = dict.fromkeys(("layer", "<b>", "overlap"), 1e308)
    unfinished = tiny(new_tokens=6)
    unfinished.end = None
    for number, run in enumerate((tiny(new_tokens=1), hostile, unfinished, make_run(Random(1), []))):
        write_runs(folder / f"{number}.jsonl", run)
        assert not opened(part, trace=str(number)).exception, number


def test_a_decision_leads_to_its_event_in_the_tree(monkeypatch):
    gone = []
    monkeypatch.setattr("app_pages.shared.recording.go_to", lambda page, address: gone.append(address))
    app = opened(trace="treegraft", round="2", layer="3")
    run = treegraft.open(DEMOS / "treegraft.jsonl.zst").runs[0]
    app.button(key="decision in tree").click().run()
    event = run.records[2].events[int(gone[0]["event"])]
    assert (gone[0]["round"], event.layer, type(event).__name__) == ("2", 3, "Decide")
    assert SKIP not in gone[0]
