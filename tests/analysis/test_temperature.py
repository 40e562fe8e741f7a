"""The expected accepted length at other temperatures, against distributions that are known whole."""

from __future__ import annotations

import numpy as np
import pytest

import treegraft
from treegraft.analysis.temperature import bounds, expected_accepted
from treegraft.trace.records import NATS
from treegraft.view.library import DEMOS

TEMPERATURES = np.array([0.3, 0.7, 1.0, 1.5])


@pytest.mark.parametrize("seed", range(20))
def test_the_true_probability_lies_between_the_bounds(seed):
    random = np.random.default_rng(seed)
    whole = random.dirichlet(np.full(30, 0.3))
    known = {token: float(np.log(whole[token])) for token in np.argsort(-whole)[: random.integers(1, 10)].tolist()}
    found = bounds(known, TEMPERATURES, len(whole))
    for place, temperature in enumerate(TEMPERATURES):
        true = whole ** (1 / temperature) / (whole ** (1 / temperature)).sum()
        for token in known:
            low, high = found[token][:, place]
            assert low - 1e-9 <= true[token] <= high + 1e-9


def test_at_temperature_one_it_is_the_recorded_probability():
    run = treegraft.open(DEMOS / "eagle2.jsonl.zst").runs[0]
    found = expected_accepted(run, TEMPERATURES)
    assert found.low[2] == pytest.approx(found.high[2], rel=1e-3)
    total = 0.0
    for round in run.rounds:
        verify, parent = round.event("verify"), round.record.nodes.parent
        reach = {0: 1.0}
        for node, value in zip(verify.order[1:], verify.logprob[1:], strict=True):
            reach[node] = reach[parent[node]] * np.exp(value / NATS)
        total += sum(reach.values()) - 1
    assert found.low[2] == pytest.approx(total / len(run.rounds), rel=1e-3)
    assert (found.low <= found.high + 1e-12).all()


def test_cold_drafts_are_accepted_as_greedy_ones_are():
    run = treegraft.open(DEMOS / "eagle2.jsonl.zst").runs[0]
    accepted = sum(len(round.path) for round in run.rounds) / len(run.rounds)
    cold = expected_accepted(run, np.array([0.02]))
    assert cold.high[0] == pytest.approx(accepted, abs=0.2)


def test_sampled_runs_have_none():
    assert expected_accepted(treegraft.open(DEMOS / "sampled.jsonl.zst").runs[0], TEMPERATURES) is None
