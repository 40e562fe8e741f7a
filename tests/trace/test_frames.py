"""Rounds and nodes as tables, trees as graphs."""

from __future__ import annotations

import math
from random import Random

import networkx
import pytest
from hypothesis import given, settings

import treegraft.trace as tt
from tests.strategies import make_run, runs, write_runs
from treegraft.trace.frames import piece_text
from treegraft.trace.records import TARGET, Decide, Expand, Gate, Graft, Learn, Rescore


@pytest.fixture
def trace(tmp_path):
    return tt.open(write_runs(tmp_path / "t.jsonl", *(make_run(Random(seed), [(3, 4)] * 3) for seed in (1, 2))))


def test_rounds_frame(trace):
    frame = trace.rounds_frame()
    assert list(zip(frame["run"], frame["round"], strict=True)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    for row, round in zip(frame.to_dict("records"), trace.rounds, strict=True):
        record, verify = round.record, round.event("verify")
        assert row["context"] == record.context
        assert row["nodes"] == len(record.nodes.token) - 1
        assert row["kept"] == len(verify.order) - 1
        assert row["depth"] == max(round.tree.depth[verify.order])
        assert row["accepted"] == round.fates.count("accepted")
        assert row["bonus"] == round.event("accept").bonus
        assert row["new_tokens"] + row["discarded"] == len(round.path) + 1
        events = record.events
        assert row["calls"] == sum(event.call for event in events if isinstance(event, Decide))
        assert row["grafted"] == sum(len(event.grafted) for event in events if isinstance(event, Expand))
        assert row["rescored"] == sum(len(event.nodes) for event in events if isinstance(event, Rescore))
        grafts = [event for event in events if isinstance(event, Graft)]
        assert row["stage"] == "".join(event.stage for event in events if isinstance(event, Gate) and event.stop)
        assert row["retrieved"] == sum(len(event.nodes) for event in grafts)
        assert row["merged"] == sum(len(event.merged) for event in grafts)
        assert row["shortfall"] == sum(event.shortfall for event in grafts)
        assert row["learned"] == sum(len(event.tokens) for event in events if isinstance(event, Learn))
        assert row["draft_us"] == record.times["draft"]
        assert row["target_us"] == sum(one.microseconds for one in record.forwards if one.model == TARGET)
        assert (row["drafter1_forwards"], row["drafter0_forwards"]) == (1, 0)
        assert row["target_kv"] == record.kv[TARGET]
    assert all((frame[name] > 0).any() for name in ("retrieved", "merged", "shortfall", "learned"))
    assert frame["stage"].any()
    assert frame.groupby("run")["new_tokens"].sum().tolist() == [len(run.output) - 1 for run in trace.runs]


def test_nodes_frame(trace):
    frame = trace.nodes_frame()
    assert len(frame) == sum(len(round.record.nodes.token) for round in trace.rounds)
    for (run, number), part in frame.groupby(["run", "round"]):
        round = trace.runs[run].rounds[number]
        nodes, verify = round.record.nodes, round.event("verify")
        logprob = dict(zip(verify.order, verify.logprob, strict=True))
        assert part["fate"].tolist() == round.fates
        assert part["depth"].tolist() == round.tree.depth.tolist()
        for row in part.to_dict("records"):
            node = row["node"]
            expected = -math.inf if nodes.score[node] is None else nodes.score[node] / 100_000
            assert row["score"] == expected
            assert row["kept"] == (node in logprob)
            assert row["piece"] == piece_text(round.run.pieces, nodes.token[node])
            if node and node in logprob:
                assert row["target_logprob"] == logprob[node] / 100_000
            else:
                assert math.isnan(row["target_logprob"])
            made = round.record.events[row["event"]] if node else None
            assert made is None or node in made.nodes
            assert row["grafted"] == (made is not None and node in made.grafted)
            first = made.scores[made.nodes.index(node)] if made else 0
            assert row["first_score"] == (-math.inf if first is None else first / 100_000)
            assert row["retrieved"] == any(node in event.nodes for event in round.record.events
                                           if isinstance(event, Graft))
            if made and made.rank:
                assert row["rank"] == made.rank[made.nodes.index(node)]
            else:
                assert math.isnan(row["rank"])
            if made and made.match:
                assert row["match"] == made.match[made.nodes.index(node)]


def test_frames_of_a_trace_without_rounds(tmp_path):
    trace = tt.open(write_runs(tmp_path / "t.jsonl", make_run(Random(1), [])))
    assert len(trace.rounds_frame()) == len(trace.nodes_frame()) == 0


@settings(deadline=None)
@given(runs(min_rounds=1))
def test_graph_is_the_tree(run):
    for round in run.rounds:
        tree = round.to_networkx()
        assert networkx.is_arborescence(tree)
        assert sorted(tree.edges) == sorted(zip(round.record.nodes.parent[1:], range(1, len(tree)), strict=True))
        assert [fate for _, fate in tree.nodes(data="fate")] == round.fates
        assert networkx.shortest_path_length(tree, 0) == {node: tree.nodes[node]["depth"] for node in tree}
