"""Policies as one line of text."""

from __future__ import annotations

import pytest

from treegraft.policy_text import choose_policies, parse_policy
from treegraft.run import RunError
from treegraft.settings import SettingError


def test_drafters_are_named_behind_the_policy(tiny_pair):
    chosen = parse_policy("treegraft@lookup+small:schedule=always,budget=9", tiny_pair)
    policy = chosen.policy
    assert (policy.name, policy.schedule, policy.budget) == ("treegraft", "always", 9)
    assert chosen.drafters == ["lookup", "small"]


def test_settings_of_a_drafter_belong_to_one_row_alone(tiny_pair):
    chosen = parse_policy("eagle2:depth=2,small.draft_vocab=9", tiny_pair)
    assert chosen.drafters is None
    here, there = chosen.pair.drafters["small"], tiny_pair.drafters["small"]
    assert (chosen.policy.depth, here.draft_vocab, there.draft_vocab) == (2, 9, 0)
    assert here.model is there.model
    assert here.vocab == there.vocab


@pytest.mark.parametrize(("text", "setting", "value"), [
    ("treegraft:schedule=1,3,budget=9", "schedule", "1,3"), ("treegraft:budget=9,schedule=2,4", "schedule", "2,4"),
    ("eagle2:budget=9,depth=2", "budget", 9)])
def test_commas_inside_a_value_stay(tiny_pair, text, setting, value):
    assert getattr(parse_policy(text, tiny_pair).policy, setting) == value


@pytest.mark.parametrize(("text", "words"), [
    ("eagle3", "no policy 'eagle3'. Known: plain"),
    ("eagle2:15", "write it as NAME:SETTING=VALUE"),
    ("eagle2:=15", "write it as NAME:SETTING=VALUE"),
    ("eagle2:width=3", "no setting 'width'"),
    ("eagle2:budget=many", "budget was 'many'"),
    ("eagle2:big.draft_vocab=3", "no drafter 'big'"),
    ("eagle2:small.ngram=3", "no setting 'ngram'"),
])
def test_policies_that_cannot_be_read_are_refused(tiny_pair, text, words):
    with pytest.raises(SettingError, match=words):
        parse_policy(text, tiny_pair)


def test_chosen_policies_can_run(tiny_pair, monkeypatch):
    assert [one.text for one in choose_policies(["lookup", "plain"], tiny_pair)] == ["lookup", "plain"]
    with pytest.raises(SettingError, match="given twice"):
        choose_policies(["plain", "plain"], tiny_pair)
    with pytest.raises(RunError, match="there is no scheduler"):
        choose_policies(["treegraft"], tiny_pair)
    monkeypatch.setattr(tiny_pair, "drafters", {})
    assert [one.text for one in choose_policies([], tiny_pair)] == ["plain"]
    with pytest.raises(RunError, match="lookup"):
        choose_policies(["lookup"], tiny_pair)
