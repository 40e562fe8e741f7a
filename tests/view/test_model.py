"""The view-model says what the record says, stays small, and holds no text that could act."""

from __future__ import annotations

import json
from random import Random

from hypothesis import given

from tests.strategies import make_run, runs
from tests.view.examples import BLUE, IS, NODES, SKY, THE, WAS, example
from treegraft.trace.records import Prompt
from treegraft.view.labels import LABEL_LENGTH
from treegraft.view.model import FATES, TEXT_LENGTH, prompt_text, run_view


def test_the_columns_of_a_round_by_hand():
    view = run_view(example())
    round = view["rounds"][0]
    assert round["token"] == NODES.token
    assert round["fate"] == "oararuppp"
    assert round["q"] == [None, -50_000, -100_000, -10_000, -100_000, -30_000, -192_000, -300_000, None]
    assert round["logprob"] == [None, -40_000, -120_000, -10_000, -250_000, -5_000, None, None, None]
    assert round["born"] == [-1, 0, 0, 1, 1, 2, 3, 3, 4]
    assert round["ranks"] == {1: 0, 2: 1, 3: 0, 4: 1}
    assert round["copied"] == {5: [2, 2], 8: [1, None]}
    assert round["walk"][1] == [[IS, WAS], [-10_000, -250_000], 30_000]
    assert round["stubs"] == [[0, 300, 3, [6, 7, 8]]]
    assert (round["bonus"]["token"], round["bonus"]["parent"]) == (BLUE, 3)
    assert (round["accepted"], round["rejection"]) == (2, False)
    assert [event["kind"] for event in round["events"]] == ["expand"] * 5 + ["prune", "verify", "accept"]
    assert [event.get("call") for event in round["events"][:3]] == [True, True, False]
    assert view["pieces"][SKY] == "\u00b7sky"


def test_the_text_by_round_points_at_nodes():
    view = run_view(example(discarded=1))
    assert view["text"] == [
        {"round": -1, "tokens": [["The", "c", -1]]},
        {"round": 0, "tokens": [[" sky", "d", 1], [" is", "d", 3], [" blue", "x", -1]]}]


@given(runs())
def test_views_are_json_and_their_columns_are_aligned(run):
    view = run_view(run)
    assert json.loads(json.dumps(view))["total"] == len(run.rounds)
    for traced, round in zip(run.rounds, view["rounds"], strict=True):
        size = len(traced.record.nodes.token)
        columns = ("parent", "origin", "score", "q", "logprob", "rank", "fate", "born", "rows", "why")
        assert all(len(round[name]) == size for name in columns)
        assert round["fate"] == "".join(FATES[fate] for fate in traced.fates)
        mentioned = {*round["token"], round["bonus"]["token"]}.union(*(walk[0] for walk in round["walk"].values()))
        assert mentioned <= view["pieces"].keys()


@given(runs(min_rounds=1))
def test_the_text_of_the_view_is_the_text_of_the_run(run):
    tokens = [token for chunk in run_view(run)["text"] for token in chunk["tokens"]]
    assert sum(kind != "x" for _, kind, _ in tokens) == len(run.output)


def test_a_view_holds_a_window_of_a_long_run():
    run = make_run(Random(1), [(2, 3)] * 30)
    middle = run_view(run, first=10, rounds=5)
    assert [round["index"] for round in middle["rounds"]] == [10, 11, 12, 13, 14]
    assert (middle["first"], middle["total"]) == (10, 30)
    assert [chunk["round"] for chunk in middle["text"]] == [-1, 10, 11, 12, 13, 14]
    assert middle["text"][0]["tokens"][0][1:] == ["c", -1]
    assert len(run_view(run, size=1)["rounds"]) == 1
    assert run_view(run, first=99)["first"] == 29
    assert run_view(run, first=-5)["first"] == 0


def test_a_run_without_rounds_has_an_empty_view():
    view = run_view(make_run(Random(1), []))
    assert (view["rounds"], view["total"]) == ([], 0)


def test_long_pieces_are_cut_everywhere():
    run = example()
    run.pieces[SKY] = b"x" * 10_000
    view = run_view(run)
    assert len(view["pieces"][SKY]) == LABEL_LENGTH
    assert max(len(text) for chunk in view["text"] for text, _, _ in chunk["tokens"]) == TEXT_LENGTH


def test_no_text_of_a_trace_keeps_controls():
    run = example()
    run.pieces = {token: "\u202e\x07<b>".encode() for token in run.pieces}
    run.header.target.name = run.header.policy.name = run.header.drafters[0].name = "\u202e\x07"
    run.header.prompt = Prompt(tokens=[THE], text="\u202e\x07")
    run.records[0].note = "\u202e\x07"
    text = json.dumps(run_view(run), ensure_ascii=False)
    assert "\u202e" not in text
    assert "\\u0007" not in text


def test_the_prompt_is_what_the_user_said():
    run = example()
    assert prompt_text(run) == "Why is the sky blue?"
    run.header.prompt.messages = None
    assert prompt_text(run) == "rendered"
    run.header.prompt.text = None
    assert prompt_text(run) == "The sky sea"
