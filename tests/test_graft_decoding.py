"""Graft in the decode loop: the target's own text whatever is retrieved, and rounds that are full."""

from __future__ import annotations

import pytest

from tests import tiny
from tests.analysis.recordings import drafter_of
from tests.decoding import PROMPTS, assert_same_text, plain_generate, run
from treegraft.drafters.successors import Successors
from treegraft.models.cache import CachedModel
from treegraft.models.target import Target
from treegraft.policies.graft import Graft
from treegraft.trace.records import Gate, Prune
from treegraft.trace.records import Graft as GraftEvent

FAMILY = "llama"
GATED = {"budget": 24, "top_k": 4, "depth": 7, "tau_d0": 0.4, "tau_d1": 0.3, "tau_d5": 0.5}


@pytest.mark.parametrize("learn", ["all", "committed"])
@pytest.mark.parametrize("placement", ["root", "tail", "none", "fixed"])
def test_the_text_is_the_targets(placement, learn):
    model = tiny.target(FAMILY)
    target, policy = Target(CachedModel(model, 256)), Graft(placement=placement, **GATED)
    drafters = [drafter_of("strong"), Successors(learn=learn)]
    for number, drafter in enumerate(drafters):
        drafter.id = number
    stopped = False
    for prompt in (PROMPTS[1], PROMPTS[2]):
        output, steps, _ = run(target, policy, drafters, prompt, new_tokens=24)
        assert_same_text(model, prompt, output, plain_generate(model, prompt, 24))
        for step in steps:
            stopped |= any(isinstance(event, Gate) and event.stop for event in step.round.events)
            check_full(step.round, placement)
    assert stopped != (placement == "fixed")


def check_full(round, placement) -> None:
    """A round that retrieved holds all nodes of its budget, or says how many it lacks."""
    events = {type(event): event for event in round.events}
    if GraftEvent in events:
        assert len(round.kept) + events[GraftEvent].shortfall == GATED["budget"]
        assert round.note or not events[GraftEvent].shortfall
    else:
        assert placement == "none" or events[Prune].rule == "score"


def test_the_end_of_the_context_is_reached_with_smaller_trees():
    model = tiny.target(FAMILY)
    drafters = [drafter_of("strong"), Successors()]
    output, steps, reason = run(Target(CachedModel(model, 256)), Graft(**GATED), drafters, PROMPTS[1], new_tokens=60,
                                max_context=30)
    assert reason
    assert len(PROMPTS[1]) + len(output) <= 31
    assert any("the context ends" in step.round.note for step in steps)
    assert_same_text(model, PROMPTS[1], output, plain_generate(model, PROMPTS[1], 60)[: len(output)])
