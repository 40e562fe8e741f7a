"""A policy with its drafters and settings as one line of text, the way `treegraft bench` and `compare` take it:
`eagle2:budget=15,strong.draft_vocab=4096` or `treegraft@lookup+strong:schedule=always`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from treegraft.models import Pair
from treegraft.policies import POLICIES, Policy
from treegraft.run import RunError, choose_drafters, find_scheduler
from treegraft.sampling import Sampling, rule_for
from treegraft.settings import SettingError

DEFAULT_POLICIES = ("plain", "chain", "lookup", "prompt-lookup", "logitspec", "token-recycling", "eagle2",
                    "eagle2:budget=15,top_k=4,depth=4", "opt-tree", "talon", "graft", "treegraft@lookup+strong",
                    "treegraft@lookup+eagle3")
"""What is measured unless the user names policies; those that the pair has no drafter for are left out."""

NEXT_SETTING = re.compile(r",(?=[\w.-]+=)")
"""The comma between two settings; others belong to a value, such as `schedule=1,3`."""


@dataclass(frozen=True)
class ChosenPolicy:
    """A policy with the names of its drafters (None: the first that fit) and the pair with the drafters' settings."""

    text: str
    policy: Policy
    drafters: Sequence[str] | None
    pair: Pair

    def check(self) -> None:
        """Errors: `RunError` where the pair has no drafters or no scheduler for the policy, `SettingError` for one that
        greedy decoding, which all that measures does, cannot use."""
        rule_for(self.policy, Sampling())
        chosen = choose_drafters(self.pair, self.policy, self.drafters)
        if self.policy.needs_scheduler:
            find_scheduler(None, self.pair.target.name, chosen)


def parse_policy(text: str, pair: Pair) -> ChosenPolicy:
    """Read `NAME@DRAFTER+DRAFTER:SETTING=VALUE,DRAFTER.SETTING=VALUE,...`. Errors: `SettingError`."""
    head, _, rest = text.partition(":")
    name, _, drafters = head.partition("@")
    if name not in POLICIES:
        raise SettingError(f"--policy was {text!r}; there is no policy {name!r}. Known: {', '.join(POLICIES)}.")
    own: dict[str, str] = {}
    others: dict[str, dict[str, str]] = {}
    for part in NEXT_SETTING.split(rest) if rest else []:
        setting, equals, value = part.partition("=")
        if not (setting and equals):
            raise SettingError(f"--policy was {text!r}; write it as NAME:SETTING=VALUE,..., like eagle2:budget=15.")
        drafter, dot, inner = setting.rpartition(".")
        (others.setdefault(drafter, {}) if dot else own)[inner] = value
    policy = POLICIES[name].from_text(own)
    return ChosenPolicy(text, policy, drafters.split("+") if drafters else None, with_settings(pair, others))


def with_settings(pair: Pair, settings: Mapping[str, Mapping[str, str]]) -> Pair:
    """The pair with other settings of its drafters; models are shared, caches are not.

    Errors: `SettingError`.
    """
    drafters = dict(pair.drafters)
    for name, values in settings.items():
        if name not in drafters:
            raise SettingError(f"there is no drafter {name!r}; the pair has: {', '.join(drafters) or 'none'}.")
        made = type(drafters[name]).from_text(values).settings
        drafters[name] = replace(drafters[name], **{setting: made[setting] for setting in values})
    return replace(pair, drafters=drafters)


def choose_policies(texts: Sequence[str], pair: Pair) -> list[ChosenPolicy]:
    """The policies that the user names, each of which must run on the pair; without any, the defaults that do.

    Errors: `SettingError` and `RunError`.
    """
    if not texts:
        return list(fitting(pair))
    for number, text in enumerate(texts):
        if text in texts[:number]:
            raise SettingError(f"--policy {text} was given twice; name each policy once.")
    chosen = [parse_policy(text, pair) for text in texts]
    for one in chosen:
        one.check()
    return chosen


def fitting(pair: Pair) -> Iterator[ChosenPolicy]:
    """The default policies that the pair has drafters for."""
    for text in DEFAULT_POLICIES:
        chosen = parse_policy(text, pair)
        try:
            chosen.check()
        except RunError:
            continue
        yield chosen
