"""Replays of the policies that grow trees from ranks and probabilities: what was recorded, and what was not."""

from __future__ import annotations

from contextlib import suppress

import pytest

from tests.analysis.recordings import PROMPTS, recorded
from tests.analysis.test_whatif import same_rounds
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import WhatIf, change
from treegraft.policies import Cascade, Ddd, OptTree, Sequoia, SpecExec, Static, Talon

POLICIES = [
    Static(), Sequoia(budget=12, depth=4), Sequoia(budget=12, depth=4, size="fastest"),
    Ddd(budget=12, top_k=4, depth=5, checks="1,2,3", threshold=0.6), OptTree(budget=10, threshold=0.1, depth=5),
    Talon(budget=14, top_k=4), SpecExec(budget=16, beams=6, width=4, depth=5), Cascade(top_k=2, early=2, late=2)]
CHANGES = {
    "static": {"tree": "[[0], [1], [0, 0]]"}, "sequoia": {"budget": 6}, "ddd": {"threshold": 0.9},
    "opt-tree": {"threshold": 0.6}, "specexec": {"depth": 2}, "cascade": {"budget": 3}}
"""Settings whose trees lie within those of `POLICIES`."""

BEYOND = {
    "static": {"tree": "[[0], [0, 1], [0, 1, 0], [0, 1, 0, 2], [0, 1, 0, 2, 0]]"},
    "sequoia": {"budget": 60, "depth": 6, "size": "budget"}, "ddd": {"threshold": 0.0, "depth": 7},
    "opt-tree": {"budget": 40}, "talon": {"budget": 40}, "specexec": {"width": 9}, "cascade": {"early": 4}}
"""Settings that ask the drafters for more."""


def recording(policy, level: str = "run"):
    names = ["lookup", "strong"] if policy.name == "cascade" else ["strong"]
    return recorded(names, PROMPTS[0], policy, level=level, new_tokens=16).run


@pytest.fixture(scope="module", params=POLICIES, ids=lambda policy: f"{policy.name}-{policy.capacity}")
def run(request):
    return recording(request.param, "dense")


def test_the_recorded_run_itself(run):
    same_rounds(WhatIf(run).replay(), run)


def test_other_settings_as_if_they_had_run(run):
    whatif = WhatIf(run)
    if whatif.policy.name in CHANGES:
        policy = change(whatif.policy, **CHANGES[whatif.policy.name])
        same_rounds(whatif.replay(policy), recording(policy))


def test_what_was_not_recorded_is_said(run):
    whatif = WhatIf(run)
    with pytest.raises(NotRecorded):
        whatif.replay(change(whatif.policy, **BEYOND[whatif.policy.name]))


@pytest.mark.parametrize("policy", [OptTree(budget=4, threshold=0.1, depth=5), Talon(budget=5, top_k=4),
                                    SpecExec(budget=5, beams=6, width=4, depth=5)], ids=lambda policy: policy.name)
def test_smaller_budgets_that_steer_growth_are_replayed_or_refused(policy):
    """A smaller budget can go deeper than a larger one did, where the larger one was spent on siblings."""
    whatif = WhatIf(recording(change(policy, budget=12), "dense"))
    with suppress(NotRecorded):
        same_rounds(whatif.replay(policy), recording(policy))
