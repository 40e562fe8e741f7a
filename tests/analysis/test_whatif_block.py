"""Blocks are in a dense trace: a replay cuts, keeps and continues them as a live run does."""

from __future__ import annotations

import functools

import pytest

from tests import tiny_blocks
from tests.analysis.recordings import FAMILY, PROMPTS, recorded_with
from tests.analysis.test_whatif import same_rounds
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import WhatIf, change
from treegraft.drafters.base import Drafter
from treegraft.drafters.successors import Successors
from treegraft.policies import Block, GraftBlock
from treegraft.policies.base import Policy
from treegraft.trace.runs import Run


def drafters(policy: Policy, learn: str = "committed") -> list[Drafter]:
    block = tiny_blocks.drafter_of(tiny_blocks.random_net(block=4), FAMILY,
                                   head=tiny_blocks.taught_head(FAMILY, 4, PROMPTS[1]))
    return [block, Successors(learn=learn)][: len(policy.roles)]


@functools.cache
def run_of(name: str, level: str = "dense", learn: str = "committed") -> Run:
    policy = {"block": Block(), "graft-block": GraftBlock(tau=0.5)}[name]
    return recorded_with(drafters(policy, learn), PROMPTS[1], policy, level=level, new_tokens=16).run


@pytest.mark.parametrize(("name", "changed"), [
    ("block", {}), ("block", {"length": 1}), ("block", {"length": 2}), ("graft-block", {}),
    ("graft-block", {"tau": 0.0}), ("graft-block", {"length": 2})], ids=str)
def test_a_replay_equals_a_live_run(name, changed):
    run = run_of(name)
    whatif = WhatIf(run)
    policy = change(whatif.policy, **changed)
    live = recorded_with(drafters(policy), PROMPTS[1], policy, new_tokens=16).run
    assert live.output == run.output
    same_rounds(whatif.replay(policy), live)


def test_a_probe_is_the_whole_block_whatever_its_policy_takes_of_it():
    policy = Block(length=1)
    run = recorded_with(drafters(policy), PROMPTS[1], policy, level="dense", new_tokens=8).run
    assert len(run.probes) == len(run.output) - 1
    for probe in run.probes:
        assert probe.parent == [-1, 0, 1, 2]
        assert probe.logprob[0] is None
        assert all(value <= 0 for value in probe.logprob[1:])


def test_without_probes_a_replay_is_refused():
    with pytest.raises(NotRecorded, match="no probe of block behind 23 tokens; record it with --level dense"):
        WhatIf(run_of("block", "run")).replay()


def test_what_was_learned_from_verified_trees_cannot_be_replayed():
    with pytest.raises(NotRecorded, match=r"successors\.learn=committed"):
        WhatIf(run_of("graft-block", "dense", "all"))
