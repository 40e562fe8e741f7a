"""What several drafters do in one tree, told with its numbers."""

from __future__ import annotations

import pytest

from tests.view.examples import PIECES, grafted
from treegraft.trace.records import Decide, Rescore, Reselect
from treegraft.view.explain import Explainer
from treegraft.view.stages import decide, rescore, reselect, rises
from treegraft.view.words import render


def words(sentence) -> str:
    return render(sentence, lambda token: PIECES[token].decode(), lambda drafter: ["lookup", "small"][drafter])


@pytest.mark.parametrize(("changes", "told"), [
    ({"call": True},
     "small is called: the scheduler expects that to save 1.25 ms, more than the threshold of 0.50 ms. Calls left"
     " before this one: 3."),
    ({"call": False, "margin": -0.5},
     "small is not called: the scheduler expects that to save −0.50 ms, not more than the threshold of 0.50 ms. Calls"
     " left: 3."),
    ({"call": False, "calls_left": 0},
     "small is not called: the round has no calls left. The scheduler expects one to save 1.25 ms; the threshold is"
     " 0.50 ms."),
    ({"call": True, "rule": "always", "margin": None, "threshold": None},
     "small is called, as the schedule “always” has it."),
    ({"call": False, "rule": "1,3", "threshold": None},
     "small is not called, as the schedule “1,3” has it."),
    ({"call": False, "rule": "forced"}, "small is not called, as the schedule “forced” has it."),
    ({"call": False, "rule": "\u202e", "margin": None},
     "small is not called, as the schedule “\\u202e” has it."),
])
def test_decisions(changes, told):
    event = {"layer": 2, "rule": "scheduler", "call": True, "calls_left": 3, "margin": 1.25, "threshold": 0.5} | changes
    assert words(decide(Decide(**event), 1)) == told


def test_rescoring():
    event = Rescore(layer=2, drafter=1, nodes=[1, 2, 3, 4], before=[-5, None, -5, -6], after=[-6, -7, None, -5])
    assert words(rescore(event)) == "small reads the whole tree; 4 scores change: 2 rose, 2 fell."
    event.unreachable = [3]
    assert words(rescore(event)).endswith("2 rose, 2 fell. It cannot propose 1 of the tokens.")
    assert words(rescore(Rescore(layer=2, drafter=1, nodes=[], before=[], after=[]))) == (
        "small reads the whole tree; no score changes.")


def test_any_score_is_more_than_none():
    assert [rises(*change) for change in [(None, -5), (-5, None), (None, None), (-6, -5), (-5, -6)]] == [
        True, False, False, True, False]


@pytest.mark.parametrize(("before", "after", "told"), [
    # Node 1 is at depth 1, the others at depth 2.
    ([2, 3], [1, 2],
     "The best 2 of 4 nodes are the new frontier: 1 of the 2 in it stays, 1 comes from earlier layers."),
    ([2, 3], [3, 4],
     "The best 2 of 4 nodes are the new frontier: 1 of the 2 in it stays, 0 come from earlier layers."),
    ([2, 3], [3, 2], "The frontier stays as it was, the best 2 of 4 nodes."),
    ([2, 3], [], "None of 4 nodes is chosen: the frontier is empty."),
])
def test_reselection(before, after, told):
    assert words(reselect(Reselect(layer=2, pool=4, before=before, after=after), [0, 1, 2, 2, 2])) == told


def test_nodes_tell_what_drafters_did_to_them():
    explain = Explainer(grafted().rounds[0])
    told = {node: [words(sentence) for sentence in explain.node(node)] for node in range(6)}
    assert told[1][2:] == ["small rescored it in layer 2: −0.50 nats before, −0.80 nats after."]
    assert told[3][1:] == ["small rescored it in layer 2: no score before, −9.00 nats after.",
                           "small cannot propose it, and scored it below all that it can."]
    assert told[4][2:] == ["Grafted: small continues a branch of lookup with it, in layer 2."]
    assert len(told[0]) == 1


def test_a_node_that_was_rescored_again_tells_the_first_and_the_last():
    run = grafted()
    run.records[0].events.insert(6, Rescore(layer=3, drafter=1, nodes=[1], before=[-80_000], after=[-75_000]))
    explain = Explainer(run.rounds[0])
    assert words(explain.node(1)[2]) == (
        "small rescored it 2 times, last in layer 3: −0.50 nats at first, −0.75 nats in the end.")


def test_events_count_their_grafts():
    explain = Explainer(grafted().rounds[0])
    assert words(explain.event(explain.events[5])) == (
        "small extends 2 nodes by 2 new tokens; 2 are grafts onto branches of another drafter.")
    explain.events[5].grafted, explain.events[5].merged = [4], [2]
    assert words(explain.event(explain.events[5])) == (
        "small extends 2 nodes by 2 new tokens; 1 more was in the tree already; 1 is a graft onto branches of another"
        " drafter.")
    explain.events[5].nodes = []
    assert words(explain.event(explain.events[5])) == "small proposes nothing new: 1 token was in the tree already."
