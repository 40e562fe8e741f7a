"""The player in a real browser, mostly on its own page: what it finds, jumps to and draws is what the library reads."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import Page, expect

import treegraft
from tests.browser.tree import expect_marks
from tests.strategies import VOCAB, make_run, write_runs
from tests.view.examples import drawn, example, grafted, retrieved
from treegraft.analysis.oracle import reach
from treegraft.trace import Run
from treegraft.trace.records import NATS
from treegraft.view.export import node_rows, replay_html
from treegraft.view.library import DEMOS
from treegraft.view.model import WINDOW_ROUNDS, run_view

pytestmark = pytest.mark.browser

HOSTILE = ["<img src=x onerror=window.hacked=1>", "\u202eevil", "x" * 10_000]


@pytest.fixture
def play(page: Page, tmp_path: Path):
    """Opens a run in the player's own page, offline."""
    numbers = itertools.count()

    def start(run: Run, place: str = "") -> Page:
        file = tmp_path / f"replay{next(numbers)}.html"
        file.write_text(replay_html(run), encoding="utf-8")
        page.goto(f"file://{file}{place}")
        expect(page.locator(".tg-tree")).to_be_visible()
        return page
    return start


def demo(name: str) -> Run:
    return treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0]


def find(page: Page, text: str) -> None:
    page.get_by_label("Search tokens").fill(text)
    page.keyboard.press("Enter")


def test_searches_find_what_the_table_of_nodes_holds(play):
    run = demo("graft")
    view = run_view(run)
    rows = [row for round in view["rounds"] for row in node_rows(view, round)]
    drafted = [row for row in rows if row["node"]]
    bonuses = [view["pieces"][round["bonus"]["token"]] for round in view["rounds"]]
    token = drafted[5]["token"]
    p = [math.exp(round["logprob"][node] / NATS) for round in view["rounds"]
         for node, fate in enumerate(round["fate"]) if fate == "a"]
    expected = {
        "accepted": sum(row["fate"] == "accepted" for row in drafted),
        "p<0.5 AND accepted": sum(one < 0.5 for one in p),
        "drafter=successors": sum(row["drafter"] == "successors" for row in drafted),
        "grafted": sum(row["grafted"] for row in drafted),
        "not (depth<3 or pruned)": sum(row["depth"] >= 3 and row["fate"] != "pruned" for row in rows) + sum(
            round["walk"] is not None and len(run.rounds[round["index"]].path) >= 2 for round in view["rounds"]),
        "rejected and q>0.5": sum(row["fate"] == "rejected" and (row["q"] or 0) > 0.5 for row in drafted),
        f"#{token}": sum(row["token"] == token for row in rows) + sum(
            round["bonus"]["token"] == token for round in view["rounds"]),
        "ARRAY": sum("array" in row["text"].lower() for row in rows) + sum("array" in text.lower() for text in bonuses),
        '"accepted"': 0,
    }
    page = play(run)
    for query, count in expected.items():
        find(page, query)
        words = f"of {count}" if count else "No hit"
        expect(page.locator(".tg-find-count"), query).to_contain_text(words)
    assert all(expected[query] for query in expected if query != '"accepted"')


def test_a_hit_is_marked_by_shape_pinned_and_left_again(play):
    run = demo("graft")
    first = next(round for round in run.rounds if "accepted" in round.fates)
    page = play(run, f"#round={first.index}")
    page.keyboard.press("/")
    page.keyboard.type("accepted")
    page.keyboard.press("Enter")
    expect(page.locator(".tg-find-count")).to_contain_text("1 of ")
    expect(page.locator(".tg-tree .tg-hit-mark")).to_have_count(first.accepted)
    expect(page.locator(".tg-found-round")).to_have_count(sum("accepted" in round.fates for round in run.rounds))
    expect(page.locator(".tg-sheet-ids")).to_contain_text(f"node {first.path[0]}")
    page.get_by_label("only these").check()
    expect(page.locator(".tg-player.tg-only")).to_have_count(1)
    page.locator(".tg-stage").focus()
    page.keyboard.press("n")
    expect(page.locator(".tg-find-count")).to_contain_text("2 of ")
    page.keyboard.press("Shift+N")
    expect(page.locator(".tg-find-count")).to_contain_text("1 of ")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(page.locator(".tg-hit-mark")).to_have_count(0)


@pytest.mark.parametrize(("query", "wrong"), [
    ("p<0.1 and foo", "“foo” is not known here."), ("p <", "“p<” needs a value."),
    ("(accepted", "A bracket is not closed."), ("accepted rejected", "“rejected” follows without"),
    ("p<alert(1)", "“p” is compared with a number, not with “alert”."),
    ("constructor=1", "“constructor” is not known here."), ('"open', "a quote is not closed")])
def test_a_wrong_search_says_what_is_wrong_and_what_is_allowed(play, query, wrong):
    page = play(retrieved())
    find(page, query)
    expect(page.locator(".tg-find-problem")).to_contain_text(wrong)
    expect(page.locator(".tg-find-problem")).to_contain_text("Marks: root, accepted")
    expect(page.locator(".tg-hit-mark")).to_have_count(0)


def test_the_strip_shows_how_far_the_right_tokens_reached(play):
    run = demo("eagle2")
    page = play(run)
    found = [reach(round) for round in run.rounds]
    wanted = [str(count) for one in found for count in (one.verified, one.grown, one.alone[0])]
    assert page.locator(".tg-bar .tg-cell").all_inner_texts() == wanted
    lost = [round for round, one in zip(run.rounds, found, strict=True) if one.grown > round.accepted]
    assert lost
    expect(page.locator(".tg-bar .tg-gap")).to_have_count(2 * len(lost))
    page.locator(".tg-bar").nth(lost[0].index).click()
    far = found[lost[0].index]
    expect(page.locator(".tg-story")).to_contain_text(
        f"Accepted {lost[0].accepted}; the grown tree held {far.grown} right tokens in a row;"
        f" {far.grown - far.verified} {'was' if far.grown - far.verified == 1 else 'were'} pruned.")
    page.get_by_role("button", name="grown tree").press("Enter")
    expect(page.locator(".tg-toast")).to_have_text(
        "The longest run of right tokens (those of the recorded text) in a row from the root in the whole tree, pruned "
        "tokens included.")
    toast = page.locator(".tg-toast").bounding_box()
    assert toast["y"] + toast["height"] <= 900


def test_jumps_lead_to_full_accepts_divergences_and_the_worst_round(play):
    run = demo("sampled")
    page = play(run, "#round=0&event=0")
    full = next(round for round in run.rounds if round.accepted and not any(
        run_view(run, round.index, 1)["rounds"][0][name] for name in ("rejection",)))
    page.keyboard.press("a")
    expect(page.locator(".tg-round-name")).to_contain_text(f"Round {full.index} of")
    worst = min(run.rounds, key=lambda round: (round.accepted, -reach(round).grown, round.index))
    page.keyboard.press("w")
    expect(page.locator(".tg-toast")).to_contain_text(f"Round {worst.index}: {worst.accepted} accepted, worst 1 of")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("d")
    expect(page.locator(".tg-sheet-ids")).to_be_visible()
    expect(page.get_by_role("button", name="Next divergence")).to_be_visible()


def test_the_events_as_a_list_and_the_tokens_as_a_table_need_no_pointer(play):
    run = retrieved()
    page = play(run)
    page.keyboard.press("e")
    rows = page.locator(".tg-event-list button")
    expect(rows).to_have_count(len(run.records[0].events))
    rows.nth(3).focus()
    page.keyboard.press("Enter")
    expect(rows.nth(3)).to_have_attribute("aria-current", "step")
    page.keyboard.press("ArrowDown")
    expect(rows.nth(4)).to_be_focused()
    page.keyboard.press("t")
    table = page.get_by_role("table").filter(has_text="10 of 10 tokens of round 0")
    expect(table.locator("tbody tr")).to_have_count(len(run.records[0].nodes.token) + 1)
    table.get_by_role("button", name="score").focus()
    page.keyboard.press("Enter")
    expect(table.locator("thead th[aria-sort=descending]")).to_contain_text("score")
    expect(table.locator("tbody tr").first).to_have_attribute("data-id", "1")
    table.locator("tbody button").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator(".tg-sheet-ids")).to_contain_text("node 1")


def test_copied_tokens_are_marked_in_the_text_that_they_came_from(play):
    run = demo("repetition")
    expand = run.rounds[1].record.events[0]
    page = play(run, "#round=1&event=0")
    expect(page.locator(".tg-ribbon .tg-copied")).to_have_count(len(expand.nodes))
    words = "".join(page.locator(".tg-ribbon .tg-copied").all_text_contents())
    assert words == "".join(run.pieces[run.rounds[1].record.nodes.token[node]].decode() for node in expand.nodes)
    expect(page.locator(".tg-lines path")).to_have_count(len(expand.nodes))
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tg-lines path")).to_have_count(0)


def test_a_match_of_any_length_is_marked_as_far_as_there_is_text(play):
    run = example()
    run.records[0].events[2].match, run.records[0].events[2].source = [2**53], [2]
    page = play(run, "#round=0&event=2")
    expect(page.locator(".tg-ribbon .tg-copied")).to_have_count(1)
    expect(page.locator(".tg-ribbon .tg-matched")).to_have_count(2)


def test_rescoring_walk_and_learned_rows_can_be_seen(play):
    page = play(grafted(), "#round=0&event=3")
    expect_marks(page, 3, "scored")
    expect(page.locator(".tg-notes text")).to_have_text(["1→2", "2→1"])
    page.keyboard.press("End")
    page = play(drawn())
    expect(page.locator(".tg-notes text")).to_have_text(["1", "2", "3"])
    page = play(retrieved(), "#round=0&event=9")
    expect(page.locator(".tg-tree .tg-move-learned")).to_have_count(3)


@pytest.mark.parametrize("width", [390, 1440])
def test_hostile_tokens_stay_text_in_every_view(play, width):
    run = make_run(Random(6), [(3, 5)] * 6)
    run.pieces = {token: HOSTILE[token % len(HOSTILE)].encode() for token in range(VOCAB)}
    page = play(run)
    page.set_viewport_size({"width": width, "height": 844})
    for key in ("e", "t", "/"):
        page.keyboard.press(key)
    find(page, "<img src=x onerror=alert(1)>")
    find(page, "onerror")
    expect(page.locator(".tg-find-count")).to_have_text(re.compile(r"\d+ of \d+"))
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.evaluate("window.hacked") is None
    assert page.locator(".tg-player img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_search_walks_on_into_rounds_that_are_not_loaded(page, serve, tmp_path):
    folder = tmp_path / "recordings"
    folder.mkdir()
    run = make_run(Random(5), [(1, 2)] * (WINDOW_ROUNDS + 10))
    late = WINDOW_ROUNDS + 4
    run.records[late].root = run.records[late].nodes.token[0]
    run.pieces[VOCAB] = b" needle"
    run.records[late].nodes.token[1:2] = [VOCAB]
    write_runs(folder / "long.jsonl.zst", run)
    page.goto(f"{serve(tmp_path)}/?trace=long&round=0")
    expect(page.locator(".tg-tree")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("needle")
    page.keyboard.press("Enter")
    expect(page.locator(".tg-round-name")).to_contain_text(f"Round {late} of")
    expect(page.locator(".tg-find-count")).to_contain_text("1 of 1 in rounds")
    expect(page.locator(".tg-sheet-ids")).to_contain_text(f"token {VOCAB}")
