"""The value system: backward induction over every choice, against a search by brute force."""

from __future__ import annotations

import functools
import itertools

import pytest

from tests.analysis.recordings import PROMPTS, made_scheduler, recorded
from treegraft.analysis.recorded import NotRecorded
from treegraft.analysis.whatif import WhatIf, change
from treegraft.policies import TreeGraft
from treegraft.scheduler.choices import every_choice
from treegraft.scheduler.endpoints import best_mask, compare, gain
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.values import Values, microseconds_per_token, padded
from treegraft.trace.records import CostCurve

LAYERS = 3
POLICY = TreeGraft(budget=12, top_k=3, layers=LAYERS, schedule="always", survive_empty=True)


@pytest.fixture(scope="module", params=[("lookup", "strong"), ("lookup", "eagle3")])
def values(request) -> Values:
    run = recorded(request.param, PROMPTS[0], POLICY, level="exhaustive", new_tokens=12).run
    return Values(WhatIf(run))


def brute_force(values: Values) -> list[float]:
    """The least time behind every position, by trying all masks everywhere."""
    whatif = values.whatif

    @functools.cache
    def least(place: int) -> float:
        if place >= values.places:
            return 0.0
        times = []
        for mask in itertools.product((False, True), repeat=LAYERS):
            grown, verified = whatif.grow(place, POLICY, mask), whatif.verify(place, POLICY, mask)
            times.append(values._cost(place, grown, verified) + least(place + verified.taken))
        return min(times)

    return [least(place) for place in range(values.places + 1)]


def test_best_times_are_those_of_a_full_search(values):
    assert values.best.tolist() == pytest.approx(brute_force(values))


def test_the_value_of_a_choice_is_the_best_that_can_follow(values):
    for place in (0, values.places // 2, values.places - 1):
        for before, (call, skip) in values.states(place).items():
            for choice, value in ((True, call), (False, skip)):
                chosen = (*before, choice)
                rest = [values._time(place, leaf) for leaf in values.leaves[place]
                        if leaf.choices[: len(chosen)] == chosen]
                assert value == -min(rest)


def test_following_the_better_choice_gives_the_best_time(values):
    for place in range(values.places):
        before, states = (), values.states(place)
        while before in states:
            call, skip = states[before]
            assert max(call, skip) == pytest.approx(-values.best[place])
            before = (*before, call > skip)


def test_the_oracle_is_as_fast_as_its_values_say_and_no_schedule_is_faster(values):
    speeds = {one.name.split(" ")[0]: one for one in compare_with_scheduler(values)}
    assert speeds["oracle"].tokens_per_second >= max(one.tokens_per_second for one in speeds.values()) * 0.98
    assert values.oracle.milliseconds == pytest.approx(values.best[0], rel=0.05)


def compare_with_scheduler(values: Values):
    values.whatif.use(made_scheduler())
    return compare([values], best_mask([values]))


def test_the_best_mask_is_no_slower_than_the_endpoints(values):
    mask = best_mask([values])
    fixed = values.fixed(mask).milliseconds
    for schedule in ("never", "always"):
        assert fixed <= values.whatif.replay(change(POLICY, schedule=schedule)).milliseconds
    speeds = compare_with_scheduler(values)
    assert gain(speeds, speeds[2].name) >= 0


def test_rows_hold_every_state_that_occurs_once(values):
    rows = values.dataset(prompt=7)
    assert set(rows.prompt) == {7}
    assert rows.features.shape == (len(rows), len(FEATURES))
    assert len(rows) + rows.impossible == values.places * (2**LAYERS - 1)
    first = rows.depth == 1
    assert first.sum() == values.places
    for place, margin in zip(rows.position[first], rows.margin[first], strict=True):
        call, skip = values.states(int(place))[()]
        assert margin == call - skip
    layer = FEATURES.index("layer")
    assert (rows.features[:, layer] * LAYERS).round().tolist() == rows.depth.tolist()


def test_a_call_that_saves_time_has_a_positive_margin(values):
    """Free calls pay where they accept more; the first one never pays where it costs a fortune."""
    cheap, dear = (Values(with_strong_cost(values, cost)) for cost in (0, 10**9))
    assert cheap.dataset(0).margin.max() > 0
    rows = dear.dataset(0)
    first = rows.features[:, FEATURES.index("call_share")] == 0
    assert first.sum() > values.places
    assert rows.margin[first].max() < -1e5
    assert not any(any(dear.best_choices(place)) for place in range(dear.places))


def with_strong_cost(values: Values, cost: int) -> WhatIf:
    whatif = WhatIf(values.whatif.run)
    whatif.curves = whatif.curves | {1: CostCurve(model=1, context=64, points=[(1, cost), (64, cost)])}
    return whatif


def test_catching_up_is_charged_when_tokens_are_committed(values):
    """Without a call the strong drafter reads nothing, and owes every token that the round writes."""
    whatif, place = values.whatif, 0
    never = padded((), LAYERS)
    grown, verified = whatif.grow(place, POLICY, never), whatif.verify(place, POLICY, never)
    rate = microseconds_per_token(whatif.curves[1]) / 1000
    plain = whatif.estimate([(-1, len(verified.kept))]) / 1000
    assert values._cost(place, grown, verified) == pytest.approx(plain + rate * verified.taken)


def test_a_text_of_one_token_has_no_states():
    run = recorded(("lookup", "strong"), PROMPTS[0], POLICY, level="exhaustive", new_tokens=1).run
    values = Values(WhatIf(run))
    assert len(values.dataset(0)) == 0
    assert (values.oracle.rounds, values.best.tolist()) == ([], [0])


def test_values_need_costs():
    run = recorded(("lookup", "strong"), PROMPTS[0], POLICY, level="exhaustive", new_tokens=4).run
    run.header.costs = []
    with pytest.raises(NotRecorded, match="cost curves"):
        Values(WhatIf(run))


def test_what_ways_have_in_common_is_drafted_once_and_changes_nothing(values):
    """Against every way grown on its own."""
    alone = WhatIf(values.whatif.run)
    alone.constants = values.whatif.constants
    for place in range(values.places):
        tried = []
        every_choice(lambda choices, place=place, tried=tried: tried.append(tuple(choices)) or len(
            alone.grow(place, POLICY, choices).decisions), LAYERS)
        assert values.whatif.grow_every(place, POLICY) == tried
        for choices in tried:
            ours, theirs = values.whatif.grow(place, POLICY, choices), alone.grow(place, POLICY, choices)
            assert (ours.tree._columns == theirs.tree._columns).all()
            assert (ours.tree.mask == theirs.tree.mask).all()
            assert (ours.kept.tolist(), ours.decisions, ours.passes, ours.read) == (
                theirs.kept.tolist(), theirs.decisions, theirs.passes, theirs.read)


# --- every choice ---------------------------------------------------------------------------------------------------


def test_every_choice_is_tried_once():
    tried = []
    assert every_choice(lambda choices: tried.append(choices) or 3, layers=3) == 8
    assert sorted(tried) == sorted(itertools.product((False, True), repeat=3))


def test_choices_behind_the_end_of_a_round_are_not_varied():
    """A round that ends after a skip has one decision fewer."""
    tried = []

    def draft(choices):
        tried.append(choices)
        return next((place + 1 for place, call in enumerate(choices) if not call), len(choices))

    every_choice(draft, layers=4)
    assert sorted(tried) == sorted({(True,) * calls + (False,) * (4 - calls) for calls in range(5)})
