"""What several drafters do in one tree, told with its numbers."""

from __future__ import annotations

import pytest

from tests.view.examples import PIECES, grafted, retrieved
from treegraft.trace.records import Decide, Gate, Graft, Learn, Rescore, Reselect
from treegraft.view.explain import Explainer
from treegraft.view.stages import decide, gate, graft, learn, rescore, reselect, rises
from treegraft.view.words import render


def words(sentence) -> str:
    names = ["lookup", "small", "successors"]
    return render(sentence, lambda token: PIECES[token].decode(), lambda drafter: names[drafter])


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


@pytest.mark.parametrize(("changes", "told"), [
    ({}, "Drafting stops after layer 2: the confidence of 0.137 is not above the threshold of 0.140."),
    ({"value": 0.14}, "Drafting stops after layer 2: the confidence of 0.140 is not above the threshold of 0.140."),
    ({"stop": False, "value": 0.5},
     "Drafting goes on after layer 2: the confidence of 0.500 is above the threshold of 0.140."),
    ({"measure": "best offered log-prob\u202e", "value": -3.21, "threshold": -4.0},
     "Drafting stops after layer 2: the best offered log-prob\\u202e of −3.210 is above the threshold of −4.000."),
])
def test_gates(changes, told):
    event = {"layer": 2, "measure": "confidence", "value": 0.1366, "threshold": 0.14, "stop": True, "stage": "d1"}
    assert words(gate(Gate(**(event | changes)))) == told


@pytest.mark.parametrize(("merged", "replaced", "shortfall", "told"), [
    ([], 0, 0, "3."),
    ([4], 0, 0, "3, 1 of which was drafted, too."),
    ([4, 5], 2, 0, "3, 2 of which were drafted, too; 2 free places go to other tokens."),
    ([], 1, 1, "3; 1 free place goes to other tokens; 1 place stays empty."),
    ([], 0, 2, "3; 2 places stay empty."),
    ([4], 0, 2, "3, 1 of which was drafted, too; 2 places stay empty."),
    ([4], 1, 2, "3, 1 of which was drafted, too; 1 free place goes to other tokens; 2 places stay empty."),
    ([], 3, 0, "3; 3 free places go to other tokens."),
])
def test_grafts(merged, replaced, shortfall, told):
    event = Graft(stage="d1\u202e", drafter=2, drafted=24, retrieved=36, nodes=[4, 5, 6], merged=merged,
                  replaced=replaced, shortfall=shortfall)
    assert words(graft(event)) == (
        f"In stage d1\\u202e the budget goes to 24 drafted and 36 retrieved tokens. successors retrieves {told}")


def test_learning():
    event = Learn(drafter=2, k=2, tokens=[1, 2], successors=[3, -1, 4, 5])
    assert words(learn(event)) == "successors learns from the target what follows 2 tokens."
    assert words(learn(Learn(drafter=2, k=2, tokens=[], successors=[]))) == "successors learns nothing new."


def test_retrieved_nodes_tell_their_row_and_who_else_proposed_them():
    explain = Explainer(retrieved().rounds[0])
    told = {node: [words(sentence) for sentence in explain.node(node)] for node in range(9)}
    assert told[1][0] == "Kept: rank 1 of 5 by score."
    assert told[1][2:] == ["Proposed by both: small drafted it, and successors retrieved it."]
    assert told[4][0] == "Kept although only rank 5 of 5 by score: it was retrieved, too."
    assert told[5] == ["Pruned: rank 4 of 5 by score, 0.30 nats below the last of the 3 kept."]
    assert told[6][0] == "Kept: retrieved, to fill the budget beside 4 drafted tokens."
    assert told[6][2:] == ["Retrieved: rank 2 in the row that successors has for “The”."]
    assert told[7][2:] == ["Retrieved: rank 3 in the row that successors has for “ sky”.",
                           "Grafted: successors continues a branch of small with it, in layer 2."]


def test_the_events_of_a_round_with_retrieved_tokens():
    explain = Explainer(retrieved().rounds[0])
    told = [words(explain.event(event)) for event in explain.events]
    assert told[4] == ("successors reads 3 new tokens from its rows; 2 more were in the tree already; 1 is a graft onto"
                       " branches of another drafter.")
    assert told[6] == ("7 tokens go to the target: 4 drafted, of which the last chosen by score has −1.00 nats, and 3"
                       " retrieved.")
    assert words(explain.summary()) == (
        "2 of 7 tokens accepted, 1 of them retrieved; with the target’s own “ moon” the round wrote 3 tokens.")
    explain.events[4].merged = explain.events[4].grafted = []
    assert words(explain.event(explain.events[4])) == "successors reads 3 new tokens from its rows."


def test_a_round_of_retrieved_tokens_alone_has_its_sentences():
    run = retrieved()
    record = run.records[0]
    record.events[:7] = [
        record.events[4], Graft(stage="d0", drafter=2, drafted=0, retrieved=3, nodes=[1, 2, 3]), record.events[6]]
    expand, _, prune, verify, accept = record.events[:5]
    for column in ("token", "parent", "origin", "score", "proposers"):
        values = getattr(record.nodes, column)
        setattr(record.nodes, column, [values[0], *values[-3:]])
    record.nodes.parent = [-1, 0, 0, 1]
    expand.nodes, expand.merged, expand.grafted, prune.kept = [1, 2, 3], [], [], [0, 1, 2, 3]
    verify.order, verify.argmax, verify.logprob, verify.walk = [0, 1, 2, 3], [18] * 4, [0, -5, -5, -5], []
    accept.path, accept.bonus = [], 18
    explain = Explainer(run.rounds[0])
    assert words(explain.event(prune)) == "3 retrieved tokens go to the target."
    assert words(explain.event(accept)) == "No drafted token accepted; the target goes its own way with “The”."
    assert words(explain.node(1)[0]) == "Kept: retrieved, to fill the budget beside 0 drafted tokens."
