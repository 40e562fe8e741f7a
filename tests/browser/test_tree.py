"""The Tree page in a real browser: what it shows is what the library reads from the trace."""

from __future__ import annotations

import math
import re
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, expect

import treegraft
from tests.browser.tree import click_mark, crosses, expect_marks, marks
from tests.strategies import VOCAB, make_run, write_runs
from tests.view.examples import drawn, grafted, retrieved
from treegraft.trace.records import NATS, Prompt, Tried
from treegraft.view.library import DEMOS, traces
from treegraft.view.model import WINDOW_ROUNDS, label, run_view

pytestmark = pytest.mark.browser

HOSTILE = ["<img src=x onerror=window.hacked=1>", "\u202eevil", "x" * 10_000,
           "</script><script>window.hacked=1</script>"]


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """Recordings of every kind that the tests need."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "recordings"
    folder.mkdir()
    write_runs(folder / "long.jsonl.zst", make_run(Random(5), [(2, 4)] * (2 * WINDOW_ROUNDS + 10)))
    hostile = make_run(Random(6), [(3, 5)] * 6)
    hostile.pieces = {token: HOSTILE[token % len(HOSTILE)].encode() for token in range(VOCAB)}
    hostile.header.prompt = Prompt(tokens=hostile.header.prompt.tokens, text=HOSTILE[0])
    hostile.header.drafters[0].name = HOSTILE[0]
    write_runs(folder / "hostile.jsonl.zst", hostile)
    write_runs(folder / "begun.jsonl", make_run(Random(9), []))
    write_runs(folder / "several.jsonl", *(make_run(Random(seed), [(2, 3)] * 3) for seed in (7, 8)))
    write_runs(folder / "grafted.jsonl", grafted())
    write_runs(folder / "retrieved.jsonl", retrieved())
    write_runs(folder / "drawn.jsonl", drawn())
    write_runs(folder / "threshold.jsonl", drawn("typical", [
        Tried(node=1, p=-40_000, u=0.09, accepted=True), Tried(node=2, p=-120_000, u=0.09, accepted=True),
        Tried(node=3, p=-10_000, u=0.09, accepted=True), Tried(node=4, p=-250_000, u=0.09, accepted=False)], [1, 3]))
    return home


@pytest.fixture(scope="module")
def app(serve, home: Path) -> str:
    return serve(home)


@pytest.fixture(scope="module")
def demo() -> tuple[str, treegraft.Run]:
    """A bundled demo with a strong drafter, opened by the library."""
    name = "question"
    return name, treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0]


def visit(page: Page, app: str, **parameters: object) -> None:
    page.goto(f"{app}/?" + "&".join(f"{name}={value}" for name, value in parameters.items()))
    expect(page.locator(".tg-tree")).to_be_visible()


def place(page: Page, **expected: object) -> None:
    """Wait until the address holds these parameters (None: does not hold it)."""
    def holds(url: str) -> bool:
        found = parse_qs(urlparse(url).query)
        return all(found.get(name) == (None if value is None else [str(value)]) for name, value in expected.items())
    page.wait_for_url(holds)


def facts(page: Page) -> dict[str, str]:
    """The node sheet's list of facts."""
    names = page.locator(".tg-facts dt").all_inner_texts()
    values = page.locator(".tg-facts dd").all_inner_texts()
    return {name: value.strip() for name, value in zip(names, values, strict=True)}


def probability(logprob: int) -> str:
    p = math.exp(logprob / NATS)
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def test_keys_step_through_events_and_rounds(page, app, demo):
    name, run = demo
    last = len(run.rounds[3].record.events) - 1
    visit(page, app, trace=name, round=3)
    place(page, round=3, event=last)
    page.keyboard.press("ArrowLeft")
    place(page, round=3, event=last - 1)
    page.keyboard.press("Shift+ArrowRight")
    place(page, round=4)
    expect(page.locator(".tg-round-name")).to_contain_text(f"Round 4 of 0 to {len(run.rounds) - 1}")
    page.keyboard.press("End")
    place(page, round=len(run.rounds) - 1)
    page.keyboard.press("Home")
    place(page, round=0)


def test_events_show_the_nodes_that_were_there(page, app, demo):
    name, run = demo
    round, view = run.rounds[2], run_view(run, 2, 1)["rounds"][0]
    drawn = [node for node, row in enumerate(view["rows"]) if row is not None]
    visit(page, app, trace=name, round=2, event=0)
    for state in round.states[1:]:
        there = sum(state.born[node] for node in drawn)
        expect_marks(page, there)
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    expect_marks(page, round.accepted, "accepted")


def test_a_rejected_node_can_be_told_without_its_colour(page, app, demo):
    name, run = demo
    number = next(at for at, one in enumerate(run.rounds) if "rejected" in one.fates)
    visit(page, app, trace=name, round=number, event=0)
    assert not crosses(page)
    visit(page, app, trace=name, round=number)
    expect_marks(page, run.rounds[number].fates.count("rejected"), "rejected")
    assert sorted(crosses(page)) == sorted(marks(page, "rejected"))


def test_play_runs_by_itself(page, app, demo):
    visit(page, app, trace=demo[0], round=1, event=0)
    page.keyboard.press(" ")
    place(page, round=1, event=2)
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_a_clicked_node_shows_the_numbers_of_the_trace(page, app, demo):
    name, run = demo
    number, round = next((at, one) for at, one in enumerate(run.rounds) if one.accepted)
    node, verify, nodes = round.path[0], round.event("verify"), round.record.nodes
    visit(page, app, trace=name, round=number)
    click_mark(page, "accepted")
    place(page, node=node)
    expect(page.locator(".tg-sheet-ids")).to_contain_text(f"token {nodes.token[node]} · node {node}")
    expect(page.locator(".tg-sheet-token")).to_have_text(label(run.pieces[nodes.token[node]]))
    assert facts(page)["Target’s p"] == probability(verify.logprob[verify.order.index(node)])
    assert facts(page)["Drafter’s q"] == probability(nodes.score[node] - nodes.score[nodes.parent[node]])
    assert facts(page)["Rank under target"] == "1"
    term = page.locator(".tg-term", has_text="Rank under target")
    term.focus()
    assert "1 is its favourite" in term.evaluate("term => getComputedStyle(term, '::after').content")
    assert facts(page)["Score"] == f"{nodes.score[node] / NATS:.2f} nats".replace("-", "−")
    page.keyboard.press("Escape")
    place(page, node=None)


def test_the_next_rejection_opens_the_sheet_of_what_was_rejected(page, app, demo):
    name, run = demo
    visit(page, app, trace=name, round=0, event=0)
    page.keyboard.press("r")
    expect(page.locator(".tg-fate")).to_have_text("rejected")
    page.wait_for_url(re.compile(r"node=\d+"))
    number, node = (int(parse_qs(urlparse(page.url).query)[name][0]) for name in ("round", "node"))
    assert run.rounds[number].fates[node] == "rejected"


def test_streamlit_does_not_hear_the_keys(page, app, demo):
    visit(page, app, trace=demo[0], round=0, event=0)
    page.keyboard.press("c")
    place(page, round=0, event=1)
    expect(page.get_by_role("dialog")).to_have_count(0)


def signs(page: Page, name: str) -> int:
    """How many drawn nodes carry a sign or a ring of this name."""
    return page.locator(f".tg-stage .tg-{name}").count()


def test_the_next_call_shows_the_decision_and_its_frontier(page, app):
    visit(page, app, trace="grafted", round=0, event=0)
    expect(page.locator(".tg-tag")).to_have_text("Layer 1: skip")
    page.keyboard.press("c")
    place(page, round=0, event=2)
    expect(page.locator(".tg-tag-call")).to_have_text("Layer 2: call")
    expect(page.locator(".tg-event")).to_contain_text("expects that to save 1.25 ms, more than the threshold")
    assert signs(page, "frontier-stayed") == 2
    assert facts(page) == {"Schedule": "scheduler", "Calls left": "3", "Margin": "1.25 ms", "Threshold": "0.50 ms",
                           "Frontier": "2 nodes"}
    expect(page.locator(".tg-moves tr").nth(1)).to_have_text("Frontier kept by a call50%")
    page.keyboard.press("c")
    expect(page.locator(".tg-toast")).to_have_text("No further call in this recording.")


def test_a_rescoring_marks_what_rose_and_fell(page, app):
    visit(page, app, trace="grafted", round=0, event=3)
    expect(page.locator(".tg-tag")).to_have_text("Rescore")
    assert [signs(page, f"move-{name}") for name in ("risen", "fallen", "lost")] == [1, 1, 1]
    rows = page.locator(".tg-moves tbody tr")
    expect(rows).to_have_count(3)
    assert [row.replace("\t", " ") for row in rows.all_inner_texts()] == [
        "·is −0.70 → −0.20 2 → 1", "·sky −0.50 → −0.80 1 → 2", "·blue none → −9.00 3"]
    click_mark(page, "risen")
    place(page, node=2)
    assert facts(page)["Score"] == "−0.70 → −0.20 nats"
    expect(page.locator(".tg-why")).to_contain_text("small rescored it in layer 2: −0.70 nats before, −0.20 nats")
    page.keyboard.press("ArrowRight")
    place(page, event=4)
    assert signs(page, "move") == 0


def test_a_reselection_outlines_the_old_frontier_and_the_new_one(page, app):
    visit(page, app, trace="grafted", round=0, event=4)
    expect(page.locator(".tg-tag")).to_have_text("Reselect")
    assert [signs(page, f"frontier-{name}") for name in ("stayed", "joined", "left")] == [1, 1, 1]
    assert [words.split("\n")[0].strip() for words in page.locator(".tg-group").all_inner_texts()] == [
        "1 stayed", "1 new", "1 left"]


def test_the_next_graft_pins_the_best_of_its_tokens(page, app):
    visit(page, app, trace="grafted", round=0, event=0)
    page.keyboard.press("g")
    place(page, round=0, event=5, node=4)
    expect(page.locator(".tg-why")).to_contain_text("Grafted: small continues a branch of lookup with it, in layer 2.")
    edges = page.locator(".tg-stage .tg-edge.tg-graft-1")
    expect(edges).to_have_count(2)
    assert {edge.get_attribute("stroke-dasharray") for edge in edges.all()} == {"3 2"}
    page.keyboard.press("Escape")
    expect(page.locator(".tg-legend")).to_contain_text("grafted by small")


def test_a_wall_stands_where_a_gate_stopped_drafting(page, app):
    visit(page, app, trace="retrieved", round=0, event=1)
    expect(page.locator(".tg-tag")).to_have_text("Gate d0: go")
    wall = page.locator(".tg-stage .tg-wall")
    expect(wall).to_have_css("opacity", "0")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tg-tag")).to_have_text("Gate d1: stop")
    expect(page.locator(".tg-event")).to_contain_text(
        "Drafting stops after layer 2: the confidence of 0.549 is not above the threshold of 0.550.")
    expect(wall).to_have_css("opacity", "1")
    expect(wall).to_have_text("drafting stopped: d1")
    x = float(wall.locator("line").get_attribute("x1"))
    assert max(column for column, _ in marks(page)) < x
    assert [row.split() for row in page.locator(".tg-moves tbody tr").all_inner_texts()] == [
        ["d0", "0.607", "0.140", "go"], ["d1", "0.549", "0.550", "stop"]]
    page.keyboard.press("End")
    expect(page.locator(".tg-legend")).to_contain_text("drafting stopped here")


def test_the_next_graft_shows_how_the_budget_was_shared(page, app):
    visit(page, app, trace="retrieved", round=0, event=0)
    page.keyboard.press("g")
    place(page, round=0, event=5, node=None)
    expect(page.locator(".tg-tag")).to_have_text("Graft d1")
    expect(page.locator(".tg-event")).to_contain_text("the budget goes to 2 drafted and 6 retrieved tokens")
    share = page.locator(".tg-share")
    expect(share).to_have_attribute("aria-label", "2 drafted to 6 retrieved")
    widths = [share.locator(f".tg-share-{name}").bounding_box()["width"] for name in ("drafted", "retrieved")]
    assert widths[1] == pytest.approx(3 * widths[0], rel=0.05)
    assert facts(page) == {"Share drafted": "2", "Share retrieved": "6", "Retrieved": "5", "Drafted, too": "2",
                           "Given to others": "2", "Empty places": "1"}
    expect_marks(page, 3, "found")
    expect_marks(page, 2, "again")
    page.keyboard.press("g")
    expect(page.locator(".tg-toast")).to_have_text("No further graft in this recording.")


def test_a_retrieved_token_tells_its_row_and_who_else_proposed_it(page, app):
    visit(page, app, trace="retrieved", round=0, node=7)
    expect(page.locator(".tg-why")).to_contain_text("Retrieved: rank 3 in the row that successors has for")
    found = facts(page)
    assert (found["Row"], found["Rank by score"]) == ("rank 3 in the row of \u00b7sky", "no score")
    assert found["Drafter"] == "successors, layer 2"
    visit(page, app, trace="retrieved", round=0, node=1)
    expect(page.locator(".tg-why")).to_contain_text("Proposed by both: small drafted it, and successors retrieved it.")
    assert facts(page)["Also by"] == "successors"
    page.keyboard.press("Escape")
    expect(page.locator(".tg-legend")).to_contain_text("retrieved by successors")


def test_learned_rows_stand_above_what_they_were(page, app):
    visit(page, app, trace="retrieved", round=0)
    expect(page.locator(".tg-tag")).to_have_text("Accept")
    page.keyboard.press("ArrowRight")
    place(page, round=0, event=9)
    expect(page.locator(".tg-tag")).to_have_text("Learn")
    expect(page.locator(".tg-stage-sheet h3")).to_have_text("Learned by successors")
    rows = page.locator(".tg-rows dd")
    assert page.locator(".tg-rows dt").all_inner_texts() == ["The", "\u00b7sky", "\u00b7air"]
    assert [" ".join(row.split()) for row in rows.all_inner_texts()] == [
        "\u00b7sky \u00b7sea \u00b7sun before: \u00b7sky \u00b7air \u00b7sun",
        "\u00b7blue \u00b7is before: \u00b7was \u00b7is \u00b7blue", "\u00b7sun before: nothing"]
    assert page.locator(".tg-rows .tg-fresh-token").all_inner_texts() == ["\u00b7sea", "\u00b7sun"]


def bars(trial) -> list[list[str]]:
    """The bars of a tried child: token and probability."""
    return [row.split() for row in trial.locator(".tg-bars tr").all_inner_texts()]


def test_a_sampled_acceptance_replays_as_bars(page, app):
    visit(page, app, trace="drawn", round=0)
    expect(page.locator(".tg-heading")).to_contain_text("rule points, temperature 1, top-p 0.9, seed 1")
    expect(page.locator(".tg-stage-sheet h3")).to_have_text("Accepted by the rule “points”")
    expect(page.locator(".tg-stage-sheet")).to_contain_text("Accept with p; else take the token out of p (EAGLE-2).")
    assert facts(page) == {"Accepted": "1", "Expected": "1.92, from the recorded probabilities"}
    expect(page.locator(".tg-summary")).to_contain_text(
        "Expected accepted length 1.92, computed from the recorded probabilities.")
    assert page.locator(".tg-stage-sheet h4").all_inner_texts() == ["After The", "After \u00b7sea"]
    trials = page.locator(".tg-trial").all()
    assert [trial.locator(".tg-fate").inner_text() for trial in trials] == [
        "not accepted", "accepted", "not accepted", "drawn"]
    assert [trial.locator(".tg-verdict .tg-number").inner_text() for trial in trials[:3]] == [
        "u 0.750 \u2265 chance 0.670", "u 0.250 < chance 0.913", "u 0.970 \u2265 chance 0.951"]
    assert [bars(trial) for trial in trials] == [
        [["\u00b7sky", "0.670"], ["\u00b7sea", "0.301"], ["\u00b7sun", "0.018"]],
        [["\u00b7sea", "0.913"], ["\u00b7sun", "0.056"], ["\u00b7sky", "0"]],
        [["\u00b7is", "0.951"], ["\u00b7was", "0.037"], ["\u00b7blue", "0.009"]],
        [["\u00b7was", "0.756"], ["\u00b7blue", "0.186"], ["\u00b7is", "0"]]]
    widths = [bar.evaluate("bar => new DOMMatrix(getComputedStyle(bar, '::before').transform).a")
              for bar in trials[0].locator(".tg-bars .tg-meter").all()]
    assert widths == pytest.approx([1, 0.301 / 0.670, 0.018 / 0.670], abs=0.01)
    trials[1].get_by_role("button").click()
    place(page, round=0, node=2)
    expect(page.locator(".tg-why")).to_contain_text(
        "the p that was left of the target’s was 0.913, and u 0.250, below it.")
    found = facts(page)
    assert (found["Chance"], found["Expected below"]) == ("0.301", "0.95 tokens")


def test_a_lossy_rule_is_called_lossy_in_heading_and_panel(page, app):
    visit(page, app, trace="threshold", round=0)
    lossy = "the text is not distributed as the target’s own"
    expect(page.locator(".tg-heading .tg-note")).to_have_text(
        f"rule typical, temperature 1, top-p 0.9, seed 1 (lossy: {lossy})")
    expect(page.locator(".tg-stage-sheet .tg-note")).to_have_text(f"Lossy: {lossy}.")
    words = page.locator(".tg-trial .tg-verdict .tg-number")
    expect(words).to_have_text(["p 0.670 > threshold 0.090", "p 0.301 > threshold 0.090", "p 0.905 > threshold 0.090",
                                "p 0.082 \u2264 threshold 0.090"])
    assert not page.locator(".tg-trial", has_text="goes to zero").count()


def test_events_of_a_layer_stand_together(page, app):
    visit(page, app, trace="grafted", round=0, event=4)
    expect(page.locator(".tg-step-name")).to_have_text(
        ["Layer 1: skip", "Layer 2: call", "Prune", "Verify", "Accept"])
    expect(page.locator(".tg-layer.tg-here .tg-step")).to_have_count(4)
    page.locator(".tg-step").nth(3).click()
    place(page, event=3)


def test_a_link_opens_the_place_that_it_was_copied_at(page, app, demo):
    name, run = demo
    number, round = next((at, one) for at, one in enumerate(run.rounds) if "rejected" in one.fates)
    node = round.fates.index("rejected")
    visit(page, app, trace=name, round=number, event=len(round.record.events) - 1, node=node)
    expect(page.locator(".tg-sheet-ids")).to_contain_text(f"node {node}")
    page.get_by_label("Save or share").click()
    page.get_by_role("menuitem", name="Copy link").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    page.goto("about:blank")
    page.goto(copied)
    expect(page.locator(".tg-round-name")).to_contain_text(f"Round {number} of")
    expect(page.locator(".tg-sheet-ids")).to_contain_text(f"node {node}")


@pytest.mark.parametrize("parameters", [
    {"round": 999_999}, {"round": -1}, {"event": 77, "node": 99_999}, {"round": "x"}])
def test_links_to_nowhere_open_the_nearest_place(page, app, demo, parameters):
    visit(page, app, trace=demo[0], **parameters)
    expect(page.locator(".tg-round-name")).to_contain_text("Round")
    expect(page.get_by_test_id("stException")).to_have_count(0)


def test_the_text_leads_to_its_round(page, app, demo):
    visit(page, app, trace=demo[0], round=0)
    page.locator(".tg-chunk.tg-link").nth(5).click()
    place(page, round=5)


def test_a_long_run_comes_in_windows(page, app):
    visit(page, app, trace="long")
    page.keyboard.press("End")
    last = 2 * WINDOW_ROUNDS + 9
    place(page, round=last)
    expect(page.locator(".tg-round-name")).to_contain_text(f"Round {last} of 0 to {last}")
    page.keyboard.press("Home")
    place(page, round=0)


def test_hostile_tokens_stay_text(page, app):
    visit(page, app, trace="hostile", round=2)
    page.keyboard.press("l")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".tg-sheet-head")).to_be_visible()
    assert page.locator(".tg-player img").count() == 0
    assert page.evaluate("window.hacked") is None
    assert "\u202e" not in page.locator(".tg-player").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def open_panel(page: Page, name: str) -> None:
    page.get_by_role("radio", name=name, exact=True).click()


def test_the_panels_follow_the_player(page, app, demo):
    name, run = demo
    visit(page, app, trace=name, round=2)
    open_panel(page, "Nodes")
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    open_panel(page, "Figure")
    expect(page.locator(".js-plotly-plot .scatterlayer").first).to_be_visible()
    place(page, trace=name, round=2)
    open_panel(page, "Mask and caches")
    expect(page.get_by_text("Round 2: what must hold")).to_be_visible()
    page.locator(".tg-chunk.tg-link").nth(3).click()
    place(page, round=3)
    expect(page.get_by_text("Round 3: what must hold")).to_be_visible()
    expect(page.get_by_text(f"= context {run.records[3].context} +").first).to_be_visible()


def test_a_rejection_leads_to_its_round(page, app, demo):
    name, run = demo
    visit(page, app, trace=name, round=0)
    open_panel(page, "Rejections")
    link = page.get_by_role("button", name=re.compile(r"Round \d+$")).first
    number = int(link.inner_text().split()[-1])
    link.click()
    expect(page.locator(".tg-fate")).to_have_text("rejected")
    place(page, round=number)
    node = int(parse_qs(urlparse(page.url).query)["node"][0])
    assert run.rounds[number].fates[node] == "rejected"


def test_a_bookmark_survives_a_reload_and_leads_back(page, app):
    visit(page, app, trace="grafted", round=0, event=3, node=2)
    open_panel(page, "Notes")
    expect(page.get_by_label("Note on round 0, event 3, node 2")).to_be_visible()
    page.get_by_label("Note on round 0, event 3, node 2").fill("<b>rises</b> here")
    page.get_by_role("button", name="Keep this place").click()
    expect(page.get_by_text("<b>rises</b> here", exact=True)).to_be_visible()
    visit(page, app, trace="grafted", round=0, event=8)
    open_panel(page, "Notes")
    expect(page.get_by_text("<b>rises</b> here", exact=True)).to_be_visible()
    page.get_by_role("button", name="Round 0, event 3, node 2").click()
    place(page, round=0, event=3, node=2)


def test_exports_open_offline(page, chromium, app, demo, tmp_path):
    name, run = demo
    visit(page, app, trace=name, round=2)
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Replay page").click()
    file = tmp_path / "replay.html"
    download.value.save_as(file)
    context = chromium.new_context(offline=True)
    replay = context.new_page()
    asked: list[str] = []
    replay.on("request", lambda request: asked.append(request.url))
    replay.goto(f"file://{file}#round=2&event=0")
    expect(replay.locator(".tg-round-name")).to_contain_text(f"Round 2 of 0 to {len(run.rounds) - 1}")
    replay.keyboard.press("Shift+ArrowRight")
    replay.wait_for_url("**#round=3*")
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    context.close()


def test_a_recording_that_has_gone_is_not_offered_as_a_file(page, app, home, tmp_path):
    path = write_runs(home / "recordings" / "goes.jsonl", make_run(Random(9), [(2, 3)] * 4))
    visit(page, app, trace="goes")
    path.unlink()
    page.get_by_role("button", name="Download").click()
    expect(page.get_by_text("The recording's file is not here any more")).to_be_visible()
    expect(page.get_by_role("button", name="Trace", exact=True)).to_have_count(0)
    with page.expect_download() as download:
        page.get_by_role("button", name="Nodes as CSV").click()
    assert download.value.suggested_filename == "goes-nodes.csv"
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Acceptance").click()
    expect(page.get_by_text("The chosen recording is not here any more")).to_be_visible()


@pytest.mark.parametrize(("item", "ending", "start"), [
    ("Tree as PNG", "png", b"\x89PNG"), ("Tree as SVG", "svg", b"<svg")])
def test_pictures_are_saved(page, app, demo, tmp_path, item, ending, start):
    visit(page, app, trace=demo[0], round=2)
    page.get_by_label("Save or share").click()
    with page.expect_download() as download:
        page.get_by_role("menuitem", name=item).click()
    file = tmp_path / f"tree.{ending}"
    download.value.save_as(file)
    data = file.read_bytes()
    assert data.startswith(start)
    assert len(data) > 5_000


def test_a_file_can_be_dropped_and_a_broken_one_is_explained(page, app, tmp_path):
    visit(page, app)
    good = write_runs(tmp_path / "mine.jsonl", make_run(Random(9), [(2, 3)] * 4))
    bad = tmp_path / "broken.jsonl"
    bad.write_text('{"kind": "nothing"}\n')
    page.get_by_role("button", name="Open a file").click()
    page.locator("input[type=file]").set_input_files(good)
    expect(page.locator(".tg-round-name")).to_contain_text("of 0 to 3")
    long = {"name": "\u9577" * 120 + ".jsonl", "mimeType": "text/plain", "buffer": good.read_bytes()}
    page.locator("input[type=file]").set_input_files(long)
    place(page, trace="\u9577" * 60)
    page.locator("input[type=file]").set_input_files(bad)
    expect(page.get_by_text("This recording cannot be shown")).to_be_visible()
    expect(page.get_by_text("Line 1 of the file broken.jsonl is not the header of a treegraft trace")).to_be_visible()
    expect(page.get_by_test_id("stException")).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("combobox", name="Recording").click()
    expect(page.get_by_role("option", name="Mine")).to_be_visible()


def test_one_of_several_runs_can_be_chosen(page, app):
    visit(page, app, trace="several", run=1)
    expect(page.get_by_role("combobox", name="Run")).to_be_visible()
    place(page, trace="several", run=1)


PLACES = {"Acceptance": "acceptance", "What-if": "what-if", "Scheduler": "scheduler", "Compare": "compare",
          "Record": "record", "Learn": "learn", "Tree": ""}


def go(page: Page, name: str) -> None:
    """Go to a page by the navigation."""
    page.get_by_role("link", name=name, exact=True).click()
    page.wait_for_url(lambda url: urlparse(url).path == f"/{PLACES[name]}")


@pytest.mark.parametrize("first", ["Tree", "Acceptance"])
def test_what_a_link_chose_stays_chosen_on_all_pages(page, app, first):
    page.goto(f"{app}/{PLACES[first]}?trace=several&run=1")
    expect(page.get_by_role("combobox", name="Run")).to_be_visible()
    for name in [*(name for name in PLACES if name != first), first]:
        go(page, name)
        if name not in ("Record", "Learn"):
            place(page, trace="several", run=1)
            expect(page.get_by_role("combobox", name="Recording")).to_have_value("Several")
            expect(page.get_by_role("combobox", name="Run")).to_have_value(re.compile("^1: "))


def test_a_page_puts_its_recording_into_the_address_in_one_step(page, app):
    visit(page, app, trace="several", run=1)
    for name in ("Acceptance", "Scheduler"):
        before = page.evaluate("window.history.length")
        go(page, name)
        place(page, trace="several", run=1)
        assert page.evaluate("window.history.length") - before <= 2


def test_a_run_without_rounds_is_a_sentence_and_no_empty_boxes(page, app):
    page.goto(f"{app}/?trace=begun")
    stage = page.locator(".tg-stage")
    expect(stage).to_contain_text("Choose another recording, or record it again.")
    assert stage.bounding_box()["height"] < 100
    for name in ("bar-row", "seek", "text", "side"):
        expect(page.locator(f".tg-{name}")).not_to_be_visible()


def test_the_text_shows_whole_lines(page, app, demo):
    visit(page, app, trace=demo[0], round=6)
    text = page.locator(".tg-text")
    assert text.evaluate("box => box.clientHeight < box.scrollHeight")
    line = text.evaluate("box => parseFloat(getComputedStyle(box).lineHeight)")
    assert text.evaluate("box => box.scrollTop") % line == 0
    assert (text.evaluate("box => box.clientHeight") - 22) % line == 0


def test_a_wall_stands_behind_the_tree_where_stubs_hide_what_is_deepest(page, app):
    visit(page, app, trace="hostile", round=0)
    assert float(page.locator(".tg-stage .tg-wall line").get_attribute("x1")) > 100


def test_all_panels_are_in_sight_on_a_phone(page, app, demo):
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, app, trace=demo[0], round=0)
    for name in ("Rejections", "Notes"):
        box = page.get_by_role("radio", name=name, exact=True).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_the_root_stays_in_sight_where_the_branch_is_taller_than_the_frame(page, app):
    visit(page, app, trace="treegraft", round=0)
    expect(page.locator(".tg-item.tg-root")).to_be_visible()
    page.wait_for_timeout(500)
    stage, root = page.locator(".tg-stage").bounding_box(), page.locator(".tg-item.tg-root").bounding_box()
    assert stage["y"] < root["y"]
    assert root["y"] + root["height"] < stage["y"] + stage["height"]


@pytest.mark.parametrize("trace", ["question", "grafted", "retrieved", "drawn"])
@pytest.mark.parametrize("width", [390, 1440])
def test_nothing_is_wider_than_the_screen(page, app, trace, width):
    page.set_viewport_size({"width": width, "height": 844})
    visit(page, app, trace=trace, round=2, node=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert traces()
