"""Graft: where it stops, what it keeps, retrieves and merges, and that no place is left over without a word."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.policies.ranking import ScriptedRows, after
from tests.policies.scripted import Scripted, worked_example
from treegraft.policies import Eagle2
from treegraft.policies.base import Round
from treegraft.policies.graft import STAGES, Graft
from treegraft.policies.templates import envelope
from treegraft.settings import SettingError
from treegraft.trace import records
from treegraft.trace.records import Expand, Gate, Prune
from treegraft.tree import DraftTree

ROOT_TOKEN = 1
FULL_ROWS = after(1, 2, 3, 4, 5, 6, 7, 8)


def draft(rows=None, *, limit=1000, probabilities=worked_example, **changed) -> Round:
    policy = Graft(**changed)
    drafters = [Scripted(0, probabilities), ScriptedRows(FULL_ROWS if rows is None else rows)]
    round = Round(DraftTree(ROOT_TOKEN, 10, policy.capacity), drafters, limit=limit)
    policy.draft(round)
    return round


def stopping(stage: str, rows=None, **changed) -> Round:
    taus = {f"tau_{name}": float(name == stage) for name in STAGES}
    return draft(rows, **taus | changed)


def of_kind(round: Round, kind: type) -> list:
    return [event for event in round.events if type(event) is kind]


def paths(round: Round, nodes) -> set[tuple[int, ...]]:
    """The tokens on the way to each of `nodes`."""
    return {tuple(round.tree.token[round.tree.path(node)][1:].tolist()) for node in nodes}


# --- gates ----------------------------------------------------------------------------------------------------------


def test_a_gate_compares_the_best_path_so_far_with_its_threshold():
    round = draft(tau_d0=0.5, tau_d1=0.3, tau_d5=0.06)
    gates = of_kind(round, Gate)
    assert [(gate.layer, gate.stage, gate.threshold, gate.stop) for gate in gates] == [
        (1, "d0", 0.5, False), (2, "d1", 0.3, False), (6, "d5", 0.06, True)]
    assert [gate.value for gate in gates] == pytest.approx([0.6, 0.36, 0.6**6], rel=1e-4)
    assert {gate.measure for gate in gates} == {"confidence"}
    assert len(of_kind(round, Expand)) == 7


@pytest.mark.parametrize(("changed", "layers"), [
    ({"tau_d0": 0.6001}, 1), ({"tau_d0": 0.5999, "tau_d1": 0.37}, 2), ({"tau_d0": 0, "tau_d1": 0, "tau_d5": 0}, 9),
    ({"tau_d0": 0, "tau_d1": 0, "tau_d5": 0.05}, 6), ({"gates": "0,2,6", "tau_d1": 0.22}, 3),
    ({"tau_d0": 0, "tau_d1": 0, "tau_d5": 1.0, "depth": 6}, 6)])
def test_a_round_stops_where_its_gates_say(changed, layers):
    round = draft(**changed)
    assert len({event.layer for event in of_kind(round, Expand) if event.drafter == 0}) == layers


def test_a_gate_behind_the_last_layer_has_nothing_to_stop():
    assert [gate.stage for gate in of_kind(draft(tau_d5=1.0, depth=6), Gate)] == ["d0", "d1"]


def test_thresholds_that_nobody_set_are_the_papers():
    assert Graft().thresholds == (0.14, 0.14, 0.5)
    assert Graft(tau_d1=0.0).thresholds == (0.14, 0.0, 0.5)


@pytest.mark.parametrize("gates", ["1", "0,1", "0,1,1", "5,1,0", "0;1;5", "0,1,5,7", "a,b,c", "0,1,500"])
def test_gates_that_are_none_are_refused(gates):
    with pytest.raises(SettingError, match="three depths that increase, such as 0,1,5"):
        Graft(gates=gates)


# --- a round that no gate stops -------------------------------------------------------------------------------------


def test_without_a_stop_the_tree_is_the_base_policys():
    round = draft(tau_d0=0, tau_d1=0, tau_d5=0)
    base = Round(DraftTree(ROOT_TOKEN, 10, 2000), [Scripted(0)], limit=1000)
    Eagle2(budget=59, depth=9).draft(base)
    assert round.tree.token.tolist() == base.tree.token.tolist()
    assert round.kept.tolist() == base.kept.tolist()
    assert [type(event) for event in round.events] == [type(event) for event in base.events]
    assert round.drafters[1].asked == []


# --- a round that stops ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stage", "drafted", "retrieved"), [("d0", 7, 52), ("d1", 23, 36), ("d5", 39, 20)])
def test_a_stopped_round_keeps_its_share_and_fills_the_budget(stage, drafted, retrieved):
    round = stopping(stage)
    graft, = of_kind(round, records.Graft)
    assert (graft.stage, graft.drafted, graft.retrieved, graft.shortfall) == (stage, drafted, retrieved, 0)
    assert len(round.kept) == 60
    best = Round(DraftTree(ROOT_TOKEN, 10, 2000), [Scripted(0)], limit=1000)
    Eagle2(budget=drafted, depth={"d0": 1, "d1": 2, "d5": 6}[stage]).draft(best)
    assert set(best.kept.tolist()) <= set(round.kept.tolist())


def test_the_root_can_be_left_out_of_the_budget():
    round = stopping("d1", root_counts=False)
    graft, = of_kind(round, records.Graft)
    assert (graft.drafted, graft.retrieved, len(round.kept)) == (24, 36, 61)


def test_retrieved_nodes_hang_from_the_root_by_rank_and_are_recorded():
    rows = after(4, 5, 6, 7, 8)
    round = stopping("d0", rows, top_k=3, budget=20)
    graft, expand = of_kind(round, records.Graft)[0], of_kind(round, Expand)[-1]
    assert (expand.drafter, expand.parents, expand.nodes) == (1, [0], list(range(4, round.tree.size)))
    assert expand.scores == [None] * len(expand.nodes)
    for node, rank in zip(expand.nodes, expand.rank, strict=True):
        token, above = round.tree.token[node], round.tree.token[round.tree.parent[node]]
        assert rows[above][rank] == token
    assert set(graft.nodes) == {*expand.nodes, *expand.merged}
    prune = round.events[-1]
    assert type(prune) is Prune
    assert (prune.rule, prune.kept) == ("graft", round.kept.tolist())
    assert set(graft.nodes) <= set(prune.kept)


def test_a_retrieved_node_that_was_drafted_is_one_node_and_frees_its_place():
    """The rows say what the drafter says, so all that d0 retrieves at level 1 has been drafted and is kept."""
    round = stopping("d0")
    graft, = of_kind(round, records.Graft)
    template, ranks = envelope(60), set(range(8))
    assert {round.tree.token[node] - ROOT_TOKEN - 1 for node in graft.merged if round.tree.depth[node] == 1} <= ranks
    assert (round.tree.proposers[graft.merged] == 3).all()
    assert (round.tree.origin[graft.merged] == 0).all()
    kept_from_the_start = 7
    free = sum(node in round.kept[: kept_from_the_start + 1] for node in graft.merged)
    assert graft.replaced == free > 0
    stage_paths = {tuple(rank + 1 for rank in path) for path in template.stage("d0").paths[1:]}
    steps = {tuple(np.diff([ROOT_TOKEN, *path]) % 10) for path in paths(round, graft.nodes)}
    assert stage_paths <= steps
    assert len(steps - stage_paths) == graft.replaced


def test_empty_rows_give_their_places_to_the_next_drafted_nodes():
    round = stopping("d1", rows={})
    graft, = of_kind(round, records.Graft)
    assert (graft.nodes, graft.replaced, graft.shortfall) == ([], 36, 0)
    base = Round(DraftTree(ROOT_TOKEN, 10, 2000), [Scripted(0)], limit=1000)
    Eagle2(budget=59, depth=2).draft(base)
    assert round.kept.tolist() == base.kept.tolist()


def test_what_no_source_can_fill_is_said():
    round = stopping("d0", rows={ROOT_TOKEN: [2, 9]})
    graft, = of_kind(round, records.Graft)
    assert graft.shortfall == 59 - (len(round.kept) - 1) == 49
    assert round.note == "49 of 59 places are empty: no more was drafted or retrieved"


def test_the_end_of_the_context_clips_the_round():
    round = stopping("d0", limit=5)
    assert len(round.kept) == 6
    assert round.note == "budget 59 clipped to 5: the context ends"
    assert round.events[-1].budget == 5


def test_nine_levels_are_nine_gathers():
    round = stopping("d0")
    assert len(round.drafters[1].asked) == 9


# --- other placements -----------------------------------------------------------------------------------------------


def test_pruning_alone_leaves_the_places_empty():
    round = stopping("d1", placement="none")
    assert len(round.kept) == 24
    assert of_kind(round, records.Graft) == []
    assert round.drafters[1].asked == []


def test_fixed_retrieves_in_every_round_beside_a_full_draft():
    round = draft(placement="fixed", tau_d0=1.0)
    assert of_kind(round, Gate) == []
    graft, = of_kind(round, records.Graft)
    assert (graft.stage, graft.drafted, graft.retrieved) == ("d5", 39, 20)
    assert max(event.layer for event in of_kind(round, Expand)) == 9


def test_tails_continue_the_best_leaves_with_one_token_each_in_turn():
    rows = {token: [(token + 5) % 10] for token in range(10)}
    round = stopping("d1", rows, top_k=3, budget=14, placement="tail")
    tree, expand = round.tree, of_kind(round, Expand)[-1]
    graft, = of_kind(round, records.Graft)
    drafted = [node for node in round.kept[1:].tolist() if node not in graft.nodes]
    leaves = sorted((node for node in drafted if not set(tree.children(node)) & set(drafted)),
                    key=lambda node: (-tree.score[node], tree.depth[node], node))
    assert expand.parents == leaves
    assert (tree.parent[expand.nodes] != 0).all()
    wanted = [(leaf, (int(tree.token[leaf]) + 5) % 10) for leaf in leaves]
    found = [(int(tree.parent[node]), int(tree.token[node])) for node in graft.nodes]
    assert found[: len(leaves)] == wanted[: len(found)]
    assert len(round.kept) == 14
    assert len(found) > len(leaves)


# --- properties -----------------------------------------------------------------------------------------------------


@st.composite
def retrievers(draw):
    """Rows of any length below eight, some empty."""
    return {token: draw(st.lists(st.integers(0, 9), max_size=8, unique=True)) for token in range(10)}


@st.composite
def drafters(draw):
    """Probabilities of the next token that are a function of the last one."""
    table = [draw(st.lists(st.integers(1, 200), min_size=10, max_size=10)) for _ in range(10)]
    return [[weight / sum(row) for weight in row] for row in table]


@given(rows=retrievers(), table=drafters(), stage=st.sampled_from(["", *STAGES]), budget=st.integers(2, 90),
       top_k=st.integers(1, 6), depth=st.integers(1, 8), limit=st.integers(0, 100), root_counts=st.booleans(),
       placement=st.sampled_from(["root", "tail", "none", "fixed"]))
@settings(max_examples=150, deadline=None)
def test_every_round_is_full_or_says_why(rows, table, stage, budget, top_k, depth, limit, root_counts, placement):
    round = stopping(stage, rows, limit=limit, probabilities=table.__getitem__, budget=budget, top_k=top_k,
                     depth=depth, root_counts=root_counts, placement=placement)
    tree, kept = round.tree, round.kept.tolist()
    assert kept == sorted(set(kept))
    assert set(tree.parent[kept[1:]].tolist()) <= set(kept)
    places = min(budget - root_counts, limit)
    assert len(kept) - 1 <= places
    for graft in of_kind(round, records.Graft):
        assert len(kept) - 1 + graft.shortfall == places
        assert graft.shortfall == 0 or round.note
        assert set(graft.nodes) <= set(kept)
    assert len(set(zip(tree.parent.tolist(), tree.token.tolist(), strict=True))) == tree.size
    assert (tree.depth[1:] == tree.depth[tree.parent[1:]] + 1).all()


@given(table=drafters(), taus=st.tuples(*[st.floats(0, 1)] * 3), top_k=st.integers(1, 5), depth=st.integers(1, 8),
       placement=st.sampled_from(["root", "tail", "none", "fixed"]))
@settings(max_examples=80, deadline=None)
def test_gates_decide_alike_by_the_ungated_tree(table, taus, top_k, depth, placement):
    changed = dict(zip(("tau_d0", "tau_d1", "tau_d5"), taus, strict=True)) | {
        "top_k": top_k, "depth": depth, "placement": placement}
    policy, live = Graft(**changed), draft(probabilities=table.__getitem__, **changed)
    ungated = Round(DraftTree(ROOT_TOKEN, 10, policy.capacity), live.drafters, limit=1000)
    policy.ungated.draft(ungated)
    again = Round(DraftTree(ROOT_TOKEN, 10, policy.capacity), [Scripted(0, table.__getitem__), live.drafters[1]],
                  limit=1000)
    policy.settled(ungated.tree).draft(again)
    assert again.kept.tolist() == live.kept.tolist()
    assert again.tree.token.tolist() == live.tree.token.tolist()
