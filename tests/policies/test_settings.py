"""Settings of policies: ranges, and what a tree may grow to."""

from __future__ import annotations

import pytest

from treegraft.policies import POLICIES, Eagle2
from treegraft.settings import SettingError, settings_of


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_every_setting_says_what_it_is_and_what_is_allowed(policy):
    for item in settings_of(policy):
        assert item.help
        assert item.allowed
        if item.low is not None:
            with pytest.raises(SettingError, match=f"{item.name} was .* allowed: {item.low} to {item.high}"):
                policy(**{item.name: item.low - 1})


def test_a_tree_that_would_be_too_large_is_refused_with_its_size():
    with pytest.raises(SettingError, match="can draft 127040 nodes"):
        Eagle2(top_k=64, depth=32)


def test_capacity_of_eagle2_is_its_pool():
    assert Eagle2(top_k=10, depth=5).capacity == 1 + 10 + 4 * 100


@pytest.mark.parametrize(("text", "value"), [("32", 32), ("1", 1)])
def test_typed_settings(text, value):
    assert Eagle2.from_text({"budget": text}).budget == value


@pytest.mark.parametrize(("values", "words"), [
    ({"budget": "many"}, "budget was 'many'"), ({"bugdet": "3"}, "no setting 'bugdet'; it has: budget, top_k, depth")])
def test_mistyped_settings_are_named(values, words):
    with pytest.raises(SettingError, match=words):
        Eagle2.from_text(values)
