"""Drafters that need the text alone run live in a replay; those that also ask the target have its rows in the trace."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests import tiny
from tests.analysis.recordings import PROMPTS, recorded_with
from tests.analysis.test_whatif import same_rounds
from tests.datastore.test_store import store_of
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import WhatIf
from treegraft.drafters.datastore import Datastore
from treegraft.drafters.logitspec import LogitSpec as LogitSpecDrafter
from treegraft.drafters.ngram import Ngram
from treegraft.models.answers import WALK_TOP_K
from treegraft.policies import LogitSpec, PromptLookup, Rest

FEW = WALK_TOP_K - 1
"""Guesses for which the rounds' own rows suffice."""

TEXTS = np.random.default_rng(5).integers(0, tiny.VOCAB, (200, 30)).tolist()


def datastore() -> Datastore:
    return Datastore(store=store_of(TEXTS, tiny.VOCAB), vocab=tiny.VOCAB, shortest=1)


CASES = {
    "ngram": (PromptLookup(), lambda: Ngram(ngram=2, whole=False), "run"),
    "logitspec, few guesses": (LogitSpec(), lambda: LogitSpecDrafter(guesses=FEW), "run"),
    "logitspec": (LogitSpec(), LogitSpecDrafter, "dense"),
    "rest": (Rest(budget=20), lambda: datastore(), "dense"),
}


@functools.cache
def whatif_of(case: str) -> WhatIf:
    policy, drafter, level = CASES[case]
    return WhatIf(recorded_with([drafter()], PROMPTS[1], policy, level=level).run)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("budget", [None, 3, 12])
def test_a_replay_equals_a_live_run(case, budget):
    policy, drafter, _ = CASES[case]
    whatif = whatif_of(case)
    wanted = policy if budget is None else type(policy)(budget=budget)
    same_rounds(whatif.replay(wanted), recorded_with([drafter()], PROMPTS[1], wanted).run)


@pytest.mark.parametrize("level", ["run", "dense"])
def test_probes_hold_only_rows_that_the_rounds_lack(level):
    run = recorded_with([LogitSpecDrafter(guesses=FEW)], PROMPTS[1], LogitSpec(), level=level).run
    assert run.probes == []


def test_without_enough_rows_a_replay_is_refused():
    run = recorded_with([LogitSpecDrafter()], PROMPTS[1], LogitSpec()).run
    with pytest.raises(NotRecorded, match="asks for the target's 61 best tokens, and the rounds hold 8: record with "
                                          "--level dense"):
        WhatIf(run)


def test_rows_that_lack_tokens_are_no_rows():
    run = recorded_with([LogitSpecDrafter(guesses=FEW)], PROMPTS[1], LogitSpec()).run
    run.rounds[2].event("verify").walk[0].tokens.pop()
    with pytest.raises(NotRecorded, match="8 best tokens"):
        WhatIf(run)


def test_more_of_a_datastore_than_was_recorded_is_refused():
    with pytest.raises(NotRecorded, match=r"holds the 20 best nodes of datastore .*: record with a larger budget"):
        whatif_of("rest").replay(Rest(budget=21))


def test_all_of_a_datastore_serves_any_budget():
    few = [text[:2] for text in TEXTS]
    drafter = Datastore(store=store_of(few, tiny.VOCAB), vocab=tiny.VOCAB, shortest=1)
    whatif = WhatIf(recorded_with([drafter], PROMPTS[1], Rest(budget=40), level="dense").run)
    assert whatif.replay(Rest(budget=60)).nodes == whatif.replay().nodes > 0


def test_without_probes_a_datastore_is_not_in_the_trace():
    run = recorded_with([datastore()], PROMPTS[1], Rest()).run
    with pytest.raises(NotRecorded, match="no probe of datastore behind 23 tokens; record it with --level dense"):
        WhatIf(run).replay()
