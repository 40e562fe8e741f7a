"""Probes when their tree is full: what they hold is right, and the rest is not there."""

from __future__ import annotations

import pytest

from tests.analysis.recordings import PROMPTS, recorded
from treegraft import probes
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import WhatIf, change
from treegraft.policies import TreeGraft
from treegraft.trace.records import Probe
from treegraft.trace.runs import Run

POLICY = TreeGraft(budget=20, top_k=4, layers=4, schedule="always", survive_empty=True, lookback=0)
NAMES = ("eagle3", "strong")
ROOM = 60


def record() -> Run:
    return recorded(NAMES, PROMPTS[0], POLICY, level="exhaustive", new_tokens=8).run


def answers(probe: Probe) -> dict:
    """Every log-prob and row of next tokens of a probe, by the tokens on the way."""
    paths = [()]
    for parent, token in zip(probe.parent[1:], probe.token[1:], strict=True):
        paths.append((*paths[parent], token))
    rows = {paths[node]: (probe.best[row * probe.k: (row + 1) * probe.k],
                          [round(one / 100) for one in probe.best_logprobs[row * probe.k: (row + 1) * probe.k]])
            for row, node in enumerate(probe.expanded)}
    return {("row", path): row[0] for path, row in rows.items()} | {
        ("logprob", path): round(one / 100) for path, one in zip(paths, probe.logprob, strict=True) if one is not None}


def test_a_full_tree_of_places_ends_the_probe_and_spoils_nothing(monkeypatch):
    whole = record()
    monkeypatch.setattr(probes, "MAX_NODES", ROOM)
    short = record()
    assert max(len(probe.token) for probe in whole.probes) > ROOM
    assert max(len(probe.token) for probe in short.probes) == ROOM
    for one, other in zip(short.probes, whole.probes, strict=True):
        known = answers(other)
        for what, value in answers(one).items():
            assert value == pytest.approx(known[what], abs=1), what
    with pytest.raises(NotRecorded):
        WhatIf(short).replay(change(POLICY, schedule="1,2,3,4"))
