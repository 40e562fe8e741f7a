"""What the events of a round did, and what the player needs of each."""

from __future__ import annotations

import copy

from hypothesis import given

from tests.strategies import runs
from tests.view.examples import example, grafted, retrieved
from treegraft.trace.records import DrafterInfo, Expand, Rescore
from treegraft.view.events import event_views, growth, strong_drafters, timeline
from treegraft.view.model import run_view


def views() -> list[dict]:
    run = grafted()
    return event_views(run.records[0].events, strong_drafters(run.header))


def test_raised_scores_are_changes_and_count_for_later_children():
    # Node 2 is raised from -1 nat to -0.9 before its child 5 comes with a score of -1.3.
    run = example()
    record = run.records[0]
    record.events[1] = Expand(layer=2, drafter=1, parents=[1], nodes=[3, 4], scores=[-60_000, -150_000],
                              merged=[2], raised=[2], raised_scores=[-90_000])
    record.nodes = copy.deepcopy(record.nodes)
    record.nodes.score[2] = -90_000
    round = run_view(run)["rounds"][0]
    assert round["changes"] == [(1, 2, -100_000, -90_000)]
    assert round["score"][2] == -90_000
    assert round["q"][2] == -100_000
    assert round["q"][5] == -40_000


@given(runs(min_rounds=1))
def test_births_and_scores_agree_with_the_replay(run):
    for traced in run.rounds:
        record = traced.record
        grown = growth(timeline(record), record.nodes)
        for number, state in enumerate(traced.states[1:]):
            assert [born <= number for born in grown.born] == list(state.born)
            scores = list(record.nodes.score)
            for _, node, before, _ in reversed([change for change in grown.changes if change[0] > number]):
                scores[node] = before
            assert [score for score, born in zip(scores, state.born, strict=True) if born] == [
                score for score, born in zip(state.scores, state.born, strict=True) if born]
            rescored = [change for change in grown.changes if change[0] == number]
            event = record.events[number]
            if isinstance(event, Rescore):
                assert rescored == list(zip([number] * len(event.nodes), event.nodes, event.before, event.after,
                                            strict=True))


def test_titles_and_layers():
    assert [(view["title"], view.get("layer")) for view in views()] == [
        ("Layer 1: skip", 1), ("Layer 1", 1), ("Layer 2: call", 2), ("Rescore", 2), ("Reselect", 2), ("Layer 2", 2),
        ("Prune", None), ("Verify", None), ("Accept", None)]


def test_a_call_is_the_layer_of_the_strong_drafter():
    assert [view.get("call", False) for view in views()] == [False, False, True, True, True, True, False, False, False]


def test_the_strong_drafter_is_the_second_one_or_the_only_one_with_a_model():
    header = grafted().header
    header.drafters[0].kind = "eagle3"
    assert strong_drafters(header) == {1}
    header.policy.drafters = [0]
    header.drafters = header.drafters[:1]
    assert strong_drafters(header) == {0}
    header.drafters = [DrafterInfo(id=0, kind="lookup", name="lookup")]
    assert strong_drafters(header) == set()


def test_a_drafter_that_runs_no_model_makes_no_calls():
    header = retrieved().header
    assert header.policy.drafters == [1, 2]
    assert strong_drafters(header) == {1}
    header.drafters[2].kind = "something new"
    assert strong_drafters(header) == {2}


def test_decisions_show_the_frontier_that_they_were_made_on():
    skip, call = views()[0], views()[2]
    assert skip["from"] == [0]
    assert call["from"] == [2, 3]
    assert (call["rule"], call["left"], call["margin"], call["threshold"]) == ("scheduler", 3, 1.25, 0.5)
    assert call["features"] == [("Layer", "40%"), ("Frontier kept by a call", "50%")]


def test_what_a_call_changed_and_chose():
    rescore, reselect, expand = views()[3:6]
    assert rescore["unreachable"] == [3]
    assert (reselect["before"], reselect["after"], reselect["pool"]) == ([2, 3], [1, 2], 4)
    assert expand["grafted"] == [4, 5]
    round = run_view(grafted())["rounds"][0]
    assert round["changes"] == [(3, 1, -50_000, -80_000), (3, 2, -70_000, -20_000), (3, 3, None, -900_000)]
    assert round["grafted"] == [4, 5]


def test_features_are_text_and_bounded():
    run = grafted()
    run.records[0].events[2].features = {"\u202e" + str(number): 1.0 for number in range(1000)}
    features = event_views(run.records[0].events, {1})[2]["features"]
    assert len(features) == 64
    assert features[0] == ("\\u202e0", "1")


def test_what_a_gate_and_a_graft_show():
    run = retrieved()
    views = event_views(run.records[0].events, {1})
    assert [view["title"] for view in views] == [
        "Layer 1", "Gate d0: go", "Layer 2", "Gate d1: stop", "Layer 2", "Graft d1", "Prune", "Verify", "Accept",
        "Learn"]
    assert [view["layer"] for view in views[:5]] == [1, 1, 2, 2, 2]
    gate, graft = views[3], views[5]
    assert (gate["measure"], gate["value"], gate["threshold"], gate["stop"]) == ("confidence", 0.5488, 0.55, True)
    assert (graft["drafted"], graft["retrieved"], graft["replaced"], graft["shortfall"]) == (2, 6, 2, 1)
    assert (graft["nodes"], graft["merged"]) == ([1, 6, 4, 7, 8], [1, 4])


def test_gates_and_grafts_without_a_name():
    events = retrieved().records[0].events
    events[3].stage = events[5].stage = ""
    titles = [view["title"] for view in event_views(events, {1})]
    assert (titles[3], titles[5]) == ("Gate: stop", "Graft")


def test_the_wall_stands_behind_what_was_drafted_when_a_gate_stopped():
    round = run_view(retrieved())["rounds"][0]
    assert round["wall"] == [3, 2, "d1"]
    run = retrieved()
    run.records[0].events[1].stop, run.records[0].events[1].stage = True, "\u202e"
    assert run_view(run)["rounds"][0]["wall"] == [1, 1, "\\u202e"]
    assert run_view(grafted())["rounds"][0]["wall"] is None


def test_retrieved_and_merged_nodes_and_their_ranks():
    round = run_view(retrieved())["rounds"][0]
    assert round["row"] == {6: 1, 7: 2, 8: 0}
    assert (round["retrieved"], round["merged"]) == ([1, 4, 6, 7, 8], [1, 4])
    assert (round["pool"], round["kept"], round["rank"]) == (5, 3, [0, 1, 3, 2, 5, 4, 6, 7, 8])
