"""What follows from measurements, on numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treegraft.bench.samples import BARE, ENGINE, GENERATE, PLAIN, VERIFY, Difference, ForwardTime, Sample
from treegraft.bench.summary import Spread, complete, forward_ratios, spread, summarise


def sample(row: str, repeat: int, prompt: int, tokens: int, microseconds: int, **fields) -> Sample:
    values = {"rounds": tokens, "accepted": 0} | fields
    return Sample(row, repeat, prompt, tuple(range(tokens)), microseconds, **values)


def rows_of(samples, differences=()) -> dict:
    return {row.name: row for row in summarise(samples, differences)}


def test_spread_is_median_and_quartiles():
    assert spread([4, 1, 3, 2, 5]) == Spread(3, 2, 4, 5)
    assert spread([7]) == Spread(7, 7, 7, 1)
    assert spread([]) is None


def test_a_machine_that_slows_down_changes_no_ratio():
    """The second repeat takes ten times as long: ratios are taken inside of a repeat and prompt."""
    samples = []
    for repeat, slow in ((0, 1), (1, 10)):
        for prompt in (0, 1):
            samples.append(sample(GENERATE, repeat, prompt, 10, 1000 * slow))
            samples.append(sample("fast", repeat, prompt, 10, 500 * slow))
    row = rows_of(samples)["fast"]
    assert row.over_generate == Spread(2, 2, 2, 4)
    assert row.set_over_generate == Spread(2, 2, 2, 2)
    assert row.tokens_per_second.median == (20_000 + 2_000) / 2


def test_ratios_are_of_speeds_so_a_longer_text_is_no_faster():
    samples = [sample(GENERATE, 0, 0, 10, 1000), sample("long", 0, 0, 20, 2000), sample(PLAIN, 0, 0, 10, 500)]
    rows = rows_of(samples)
    assert rows["long"].over_generate.median == 1
    assert rows["long"].over_plain.median == 0.5
    assert rows[GENERATE].over_plain.median == 0.5
    assert rows[PLAIN].over_generate.median == 2


def test_the_set_weighs_prompts_by_their_length_and_pairs_do_not():
    samples = [sample(GENERATE, 0, 0, 100, 1000), sample(GENERATE, 0, 1, 100, 1000),
               sample("row", 0, 0, 100, 250), sample("row", 0, 1, 100, 1000)]
    row = rows_of(samples)["row"]
    assert row.over_generate == Spread(2.5, 1.75, 3.25, 2)
    assert row.set_over_generate.median == pytest.approx(2000 / 1250)


def test_without_our_plain_loop_nothing_is_compared_with_it():
    assert rows_of([sample(GENERATE, 0, 0, 4, 10)])[GENERATE].over_plain is None


def test_tau_adds_up_rounds_before_it_divides():
    samples = [sample(GENERATE, 0, 0, 4, 10), sample("row", 0, 0, 4, 10, rounds=1, accepted=3),
               sample("row", 0, 1, 4, 10, rounds=9, accepted=0), sample(GENERATE, 0, 1, 4, 10)]
    rows = rows_of(samples)
    assert rows["row"].tau == 1.3
    assert rows[GENERATE].tau == 1
    assert rows_of([sample(GENERATE, 0, 0, 1, 10, rounds=0)])[GENERATE].tau is None


def test_shares_of_time():
    times = {"phases": {"draft": 300, "verify": 600, "commit": 100}, "forwards": 900, "prefill": 250}
    samples = [sample(GENERATE, 0, 0, 4, 10), sample("row", 0, 0, 4, 1250, **times),
               sample("row", 0, 0, 4, 1500, **times, recorded=True, recording=25)]
    row = rows_of(samples)["row"]
    assert row.phases == {"draft": 0.3, "verify": 0.6, "commit": 0.1}
    assert row.prefill == 0.2
    assert row.host.median == pytest.approx(0.1)
    assert row.recording.median == 25 / 1250
    assert row.recorded_time.median == 1500 / 1250
    assert row.over_generate.count == 1


def test_rows_that_do_not_tell_their_phases_have_no_shares():
    row = rows_of([sample(GENERATE, 0, 0, 4, 10)])[GENERATE]
    assert (row.phases, row.prefill, row.host, row.recording, row.recorded_time) == ({}, None, None, None, None)


def test_prompts_are_counted_once_by_their_worst_output():
    samples = [sample(name, repeat, prompt, 4, 10)
               for name in (GENERATE, "row") for repeat in (0, 1) for prompt in range(4)]
    differences = [Difference("row", 1, 3, 1e-6, True), Difference("row", 1, 2, 1e-6, True),
                   Difference("row", 2, 3, 1e-6, True), Difference("row", 2, 1, 0.7, False)]
    row = rows_of(samples, differences)["row"]
    assert (row.same, row.near_ties, row.differing) == (2, 1, 1)
    assert rows_of(samples, differences)[GENERATE].same == 4


def test_only_passes_that_every_row_finished_count():
    samples = [sample(GENERATE, 0, 0, 4, 10), sample("row", 0, 0, 4, 10), sample("row", 0, 1, 4, 10)]
    assert complete(samples, rows=2) == samples[:2]
    assert complete(samples[:1], rows=2) == []


def test_a_cut_repeat_is_left_out_of_the_speed_of_the_set():
    samples = [sample(GENERATE, 0, 0, 10, 1000), sample(GENERATE, 0, 1, 10, 1000), sample(GENERATE, 1, 0, 10, 1)]
    assert rows_of(samples)[GENERATE].tokens_per_second == Spread(10_000, 10_000, 10_000, 1)
    assert rows_of(samples[2:])[GENERATE].tokens_per_second.count == 1


def test_forwards_are_compared_within_a_turn():
    times = []
    for repeat, slow in ((0, 1), (1, 3), (2, 2)):
        for what, tokens, time in ((BARE, 1, 100), (ENGINE, 1, 110), (VERIFY, 1, 200), (VERIFY, 16, 300),
                                   ("small", 1, 50)):
            times.append(ForwardTime(what, tokens, repeat, time * slow))
    found = {(ratio.what, ratio.tokens): ratio for ratio in forward_ratios(times)}
    assert found.keys() == {(ENGINE, 1), (VERIFY, 16), ("small", 1)}
    assert found[ENGINE, 1].spread == Spread(1.1, 1.1, 1.1, 3)
    assert found[ENGINE, 1].milliseconds == 0.22
    assert (found[VERIFY, 16].spread.median, found[VERIFY, 16].against) == (1.5, "verify(1)")
    assert found["small", 1].spread.median == 0.25


def test_a_turn_that_was_cut_is_left_out():
    times = [ForwardTime(ENGINE, 1, 0, 10), ForwardTime(BARE, 1, 0, 10), ForwardTime(ENGINE, 1, 1, 99)]
    assert forward_ratios(times)[0].spread.count == 1
    assert forward_ratios([replace(times[0])]) == []
