"""A replay of a recorded run equals a live run with the same settings; what was not recorded, it says."""

from __future__ import annotations

import msgspec
import pytest

from tests.analysis.recordings import NAMES, PROMPTS, made_scheduler, recorded
from treegraft.analysis.costs import microseconds
from treegraft.analysis.known import output_logprobs
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.sweep import caveats
from treegraft.analysis.whatif import WhatIf, change, policy_of
from treegraft.policies import Chain, Eagle2, Lookup, TreeGraft
from treegraft.scheduler.choices import every_choice
from treegraft.settings import SettingError
from treegraft.trace import records
from treegraft.trace.records import Clock, CostCurve, Decide
from treegraft.trace.runs import Run
from treegraft.tree import NEG_INF

POLICY = TreeGraft(budget=20, top_k=4, layers=4, schedule="scheduler", survive_empty=True)


@pytest.fixture(scope="module", params=NAMES)
def run(request):
    """One run with each pair of drafters, recorded under every choice of calls."""
    return recorded(request.param, PROMPTS[0], change(POLICY, schedule="always"), level="exhaustive").run


@pytest.fixture(scope="module")
def copied():
    """A run whose weak drafter copies, for headers that are edited by hand."""
    return recorded(("lookup", "strong"), PROMPTS[0], change(POLICY, schedule="always"), level="exhaustive").run


def names_of(run) -> list[str]:
    return [drafter.name for drafter in run.header.drafters]


def same_rounds(replay, live) -> None:
    """A replay and a live run agree on every round: where, what was kept and accepted, and what the models read."""
    assert [one.context for one in replay.rounds] == [record.context for record in live.records]
    assert [one.accepted for one in replay.rounds] == [round.accepted for round in live.rounds]
    assert [one.verified.kept.tolist() for one in replay.rounds] == [round.event("prune").kept for round in live.rounds]
    assert [list(one.forwards) for one in replay.rounds] == [
        [(forward.model, forward.tokens) for forward in record.forwards] for record in live.records]


def test_the_recorded_run_itself(run):
    same_rounds(WhatIf(run).replay(), run)


@pytest.mark.parametrize("changed", [
    {"schedule": "never"}, {"schedule": "1"}, {"schedule": "1,3"}, {"schedule": "2"}, {"budget": 5}, {"budget": 40},
    {"layers": 2}, {"layers": 3, "schedule": "1,2", "budget": 9}, {"survive_empty": False, "schedule": "2"}])
def test_other_settings_as_if_they_had_run(run, changed):
    whatif = WhatIf(run)
    policy = change(whatif.policy, **changed)
    live = recorded(names_of(run), PROMPTS[0], policy).run
    assert live.output == run.output
    same_rounds(whatif.replay(policy), live)


@pytest.mark.parametrize(("threshold", "call_budget"), [(0.0, 5), (-0.5, 5), (0.3, 5), (-10.0, 2), (-0.5, 1)])
def test_thresholds_and_call_budgets_as_if_they_had_run(run, threshold, call_budget):
    whatif = WhatIf(run)
    whatif.use(made_scheduler())
    policy = change(POLICY, threshold=threshold, call_budget=call_budget)
    live = recorded(names_of(run), PROMPTS[0], policy, scheduler=made_scheduler(),
                    clock=run.header.clock).run
    replay = whatif.replay(policy)
    same_rounds(replay, live)
    decisions = [[event.call for event in record.events if isinstance(event, Decide)] for record in live.records]
    assert [list(one.grown.calls) for one in replay.rounds] == decisions


def test_thresholds_change_how_often_the_scheduler_calls(run):
    whatif = WhatIf(run)
    whatif.use(made_scheduler())
    calls = [whatif.replay(change(POLICY, threshold=threshold)).calls for threshold in (-50, 0, 50)]
    assert calls[0] >= calls[1] >= calls[2] == 0 < calls[0]


@pytest.mark.parametrize("policy", [Eagle2(budget=12, top_k=4, depth=4), Chain(length=4)], ids=lambda one: one.name)
@pytest.mark.parametrize("name", ["strong", "eagle3"])
def test_dense_recordings_of_other_policies(policy, name):
    run = recorded([name], PROMPTS[1], policy, level="dense").run
    same_rounds(WhatIf(run).replay(), run)
    narrower = change(policy, **({"budget": 6, "depth": 3} if policy.name == "eagle2" else {"length": 2}))
    same_rounds(WhatIf(run).replay(narrower), recorded([name], PROMPTS[1], narrower).run)


@pytest.mark.parametrize("threshold", [-1000.0, 0.0])
def test_dense_recordings_of_what_a_scheduler_chose(threshold):
    """Calls alone, where the weak drafter runs a model too: it was never asked what a skip would have brought."""
    policy = change(POLICY, threshold=threshold)
    run = recorded(("eagle3", "strong"), PROMPTS[0], policy, level="dense", scheduler=made_scheduler()).run
    same_rounds(WhatIf(run).replay(), run)


def test_copies_are_grown_once_for_all_budgets():
    run = recorded(["lookup"], PROMPTS[1], Lookup(top_k=2, budget=20)).run
    whatif = WhatIf(run)
    for budget in (20, 12, 4, 1):
        live = recorded(["lookup"], PROMPTS[1], Lookup(top_k=2, budget=budget)).run
        same_rounds(whatif.replay(Lookup(top_k=2, budget=budget)), live)
    assert len(whatif._grown) <= len(run.output)
    assert len(live.rounds) > len(run.rounds)


def test_scores_of_generated_text_are_replayed():
    drafters = {"score_generated": True}
    policy = change(POLICY, schedule="1,2")
    run = recorded(["lookup", "strong"], PROMPTS[2], policy, level="dense", lookup=drafters).run
    same_rounds(WhatIf(run).replay(), run)
    assert run.header.drafters[0].settings["score_generated"] is True


def test_what_was_not_recorded_is_said():
    run = recorded(["lookup", "strong"], PROMPTS[0], change(POLICY, schedule="never")).run
    with pytest.raises(NotRecorded, match="--level dense or exhaustive"):
        WhatIf(run).replay(change(POLICY, schedule="always"))
    dense = recorded(["lookup", "strong"], PROMPTS[0], change(POLICY, schedule="1"), level="dense").run
    with pytest.raises(NotRecorded, match="--level exhaustive"):
        WhatIf(dense).replay(change(POLICY, schedule="always"))
    with pytest.raises(NotRecorded, match="these settings or larger ones and --level dense"):
        WhatIf(dense).replay(change(POLICY, schedule="1", top_k=5))
    with pytest.raises(NotRecorded, match="no scheduler"):
        WhatIf(dense).replay(change(POLICY, schedule="scheduler"))


@pytest.mark.parametrize("settings", [{"depth": 4}, {"top_k": 3}])
def test_the_way_out_of_what_was_not_recorded_is_one(settings):
    """A policy without a scheduler has no calls to choose, so that another level gives the same refusal."""
    small = Eagle2(budget=30, top_k=2, depth=2)
    with pytest.raises(NotRecorded, match=r": record with these settings or larger ones and --level dense"):
        WhatIf(recorded(["eagle3"], PROMPTS[0], small, level="dense").run).replay(change(small, **settings))
    assert WhatIf(recorded(["eagle3"], PROMPTS[0], change(small, **settings), level="dense").run).replay(
        change(small, **settings)).rounds


def test_policies_that_this_version_does_not_have(run):
    assert policy_of(run) == change(POLICY, schedule="always")
    run.header.policy.name = "future"
    try:
        with pytest.raises(NotRecorded, match="not known to this version"):
            WhatIf(run)
    finally:
        run.header.policy.name = "treegraft"
    with pytest.raises(SettingError, match="has no setting"):
        change(POLICY, width=3)


def edited(run: Run, **header) -> Run:
    """The run with other fields in its header, as a file made by hand might have them."""
    return Run(msgspec.structs.replace(run.header, **header), run.pieces, run.prefill, run.records, run.end, run.probes)


@pytest.mark.parametrize(("header", "words"), [
    ({"decoding": records.Decoding(temperature=0.7, max_context=256)}, "sampled at temperature 0.7"),
    ({"decoding": records.Decoding()}, "0 tokens of context"),
    ({"policy": records.PolicyInfo(name="treegraft", drafters=[0])}, "treegraft takes 2 drafter"),
    ({"policy": records.PolicyInfo(name="eagle2", drafters=[0])}, "lookup cannot fill the role"),
    ({"policy": records.PolicyInfo(name="treegraft", drafters=[1, 0])}, "lookup cannot fill the role 'strong'"),
    ({"scheduler": records.SchedulerInfo(name="s", description={}, weights=b"")}, "scheduler cannot be used"),
    ({"drafters": [records.DrafterInfo(id=0, kind="lookup", name="lookup", settings={"width": 3}),
                   records.DrafterInfo(id=1, kind="lm", name="strong")]}, "settings of lookup are not those"),
    ({"drafters": [records.DrafterInfo(id=0, kind="lookup", name="lookup", settings={"ngram": 99}),
                   records.DrafterInfo(id=1, kind="lm", name="strong")]}, "ngram was 99"),
])
def test_headers_that_no_replay_can_follow(copied, header, words):
    with pytest.raises(NotRecorded, match=words):
        WhatIf(edited(copied, **header))


def test_a_run_that_ended_before_its_first_token(copied):
    with pytest.raises(NotRecorded, match="no prefill"):
        WhatIf(Run(copied.header, {}, None, [], None))


@pytest.mark.parametrize("clock", [None, Clock(target=9000, strong=0, call_budget=5)])
def test_calls_as_many_as_the_clock_allows_need_a_clock_that_can_tell(copied, clock):
    whatif = WhatIf(edited(copied, clock=clock))
    whatif.use(made_scheduler())
    policy = change(POLICY, call_budget=0, threshold=-50.0)
    if clock:
        assert whatif.replay(policy).calls > 0
    else:
        with pytest.raises(NotRecorded, match="none of what it looks at"):
            whatif.replay(policy)


def test_tokens_that_the_target_rules_out_have_no_score(copied):
    round = next(record for record in copied.records if record.events[-1].path)
    verify = msgspec.structs.replace(round.events[-2], logprob=[None] * len(round.events[-2].order))
    ruled_out = msgspec.structs.replace(round, events=[*round.events[:-2], verify, round.events[-1]])
    run = Run(copied.header, copied.pieces, copied.prefill, [ruled_out], None)
    assert output_logprobs(run)[0] == NEG_INF


def test_estimates_come_from_the_curves(run):
    whatif = WhatIf(run)
    curve = {one.model: one for one in run.header.costs}
    whatif.host = 1000
    assert whatif.estimate([(-1, 8), (1, 1)]) == 1000 + microseconds(curve[-1], 8) + microseconds(curve[1], 1)
    whatif.curves.pop(1)
    assert whatif.estimate([(-1, 8), (1, 1)]) is None


@pytest.mark.parametrize(("tokens", "expected"), [(1, 100), (8, 170), (12, 210), (16, 250), (32, 410)])
def test_costs_between_and_beyond_the_measured_points(tokens, expected):
    assert microseconds(CostCurve(model=0, context=9, points=[(1, 100), (8, 170), (16, 250)]), tokens) == expected


def test_noise_in_the_last_point_makes_no_time_negative():
    assert microseconds(CostCurve(model=0, context=9, points=[(1, 100), (64, 50)]), 10_000) == 50


def test_in_low_precision_replays_are_estimates(run):
    assert WhatIf(run).counted == "replayed exactly"
    assert caveats([run]) == []
    run = Run(msgspec.convert(msgspec.to_builtins(run.header), records.Header), run.pieces, run.prefill, run.records,
              run.end, run.probes)
    run.header.target.dtype = "bfloat16"
    whatif = WhatIf(run)
    assert whatif.counted == "estimated"
    assert "in bfloat16" in whatif.inexact
    assert "give the recorded rounds" in whatif.inexact
    assert caveats([run, run]) == [whatif.inexact]


def test_what_only_copies_is_replayed_exactly_in_any_precision():
    run = recorded(["lookup"], PROMPTS[1], Lookup(), level="dense").run
    run.header.target.dtype = "bfloat16"
    assert WhatIf(run).counted == "replayed exactly"


def test_a_trace_that_contradicts_itself_is_not_replayed_exactly():
    run = recorded(["lookup"], PROMPTS[1], Lookup(), level="dense").run
    told = Run(run.header, run.pieces, run.prefill, run.records[:-1], run.end, run.probes)
    assert WhatIf(told).counted == "replayed exactly"  # ended early
    verify = run.records[0].events[-2]
    assert len(verify.order) > 1
    verify.order, verify.argmax, verify.logprob = verify.order[:1], verify.argmax[:1], verify.logprob[:1]
    assert "do not lead to the rounds" in WhatIf(run).inexact


def test_a_text_that_ends_at_once_has_no_rounds():
    run = recorded(["lookup", "strong"], PROMPTS[0], change(POLICY, schedule="1"), level="dense", new_tokens=1).run
    replay = WhatIf(run).replay()
    assert (replay.rounds, replay.tau) == ([], 1)


def test_thresholds_budgets_and_schedules_choose_among_trees_that_are_grown_once(run):
    whatif = WhatIf(run)
    whatif.use(made_scheduler())
    for place in range(len(run.output) - 1):
        every_choice(lambda choices, place=place: len(whatif.grow(place, whatif.policy, choices).decisions), 4)
    grown = len(whatif._grown)
    for budget, threshold in ((3, 0.1), (10, -0.2), (20, 0.0)):
        whatif.replay(change(POLICY, threshold=threshold, budget=budget))
    assert len(whatif._grown) == grown
