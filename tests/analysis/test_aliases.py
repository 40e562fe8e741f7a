"""Other engines' words: their values for a run counted by hand (`test_metrics.by_hand`)."""

from __future__ import annotations

import pytest

from tests.analysis.test_metrics import by_hand
from treegraft.analysis.aliases import aliases
from treegraft.analysis.metrics import summary
from treegraft.trace.records import End


def test_values_of_a_run_counted_by_hand():
    """Three rounds, one of them without a draft; 2 of 5 drafted nodes accepted; 5 output tokens."""
    counts = summary(by_hand(End(reason="stop", new_tokens=5, microseconds=1)))
    found = {(one.system, one.name): one.value for one in aliases(counts)}
    for (system, name), value in {
        ("vLLM", "Mean acceptance length"): 1 + 2 / 2,
        ("vLLM", "Avg Draft acceptance rate"): 2 / 5,
        ("vLLM", "Per-position acceptance rate"): [1 / 2, 1 / 2],
        ("vLLM", "spec_decode_num_drafts"): 2,
        ("SGLang", "spec_accept_length"): 5 / 3,
        ("SGLang", "spec_correct_drafts_histogram"): [2, 0, 1],
        ("SGLang", "spec_draft_token_num (older versions)"): 5 + 3,
        ("TensorRT-LLM", "avg_decoded_tokens_per_iter"): 5 / 3,
        ("EAGLE", "average acceptance length (papers)"): 1 + 2 / 3,
        ("EAGLE", "average acceptance length (scripts)"): 2 / 3,
        ("EAGLE", "n-alpha"): [1 / 3, 1.0],
    }.items():
        assert found[system, name] == pytest.approx(value), (system, name)


def test_nothing_has_no_ratios():
    found = {one.name: one.value for one in aliases(summary([]))}
    assert found["Mean acceptance length"] is None
    assert found["spec_accept_length"] is None
    assert found["n-alpha"] == []
