"""How the next token is chosen: the target's favourite, or a draw from its distribution, and by which rule."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treegraft.settings import Configurable, SettingError, setting
from treegraft.verify import RULE_OF, RULES

if TYPE_CHECKING:
    from treegraft.policies.base import Policy

COOLEST = 0.01
"""The lowest temperature above 0: below, scaled logits leave the range of float32."""

LARGEST_SEED = 2**53 - 1
"""Exact in JavaScript, too."""

FITTING = "fitting"
"""The rule that fits what the policy drafts."""

ON_REQUEST = ("traversal", "typical")
"""Rules that no policy takes of its own accord."""


@dataclass
class Sampling(Configurable):
    """The choices of a run that samples. At temperature 0, the default, decoding is greedy and nothing is drawn.

    Where `seed` is None, one is drawn.
    """

    name = "sampling"

    temperature: float = setting(
        0.0, f"0 takes the target's favourite; above ({COOLEST} at least), tokens are drawn, and the higher the more "
             "evenly.", low=0.0, high=10.0)
    top_k: int = setting(0, "Draw from this many best tokens alone; 0: from all.", low=0, high=2**20)
    top_p: float = setting(1.0, "Draw from the fewest best tokens that have this probability together.", low=0.0,
                           high=1.0)
    min_p: float = setting(0.0, "Draw from tokens with at least this share of the best one's probability.", low=0.0,
                           high=1.0)
    rule: str = setting(FITTING, "The acceptance rule: the one that fits the draft, traversal (drawn drafts), or "
                                 "typical (changes the distribution).", choices=(FITTING, *ON_REQUEST))
    seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.temperature, self.top_p, self.min_p = float(self.temperature), float(self.top_p), float(self.min_p)
        if 0 < self.temperature < COOLEST:
            raise SettingError(f"temperature was {self.temperature}; allowed: 0 (greedy), or {COOLEST} to 10.")
        if self.temperature == 0:
            self._refuse_without_draws()
        if self.seed is None and self.temperature > 0:
            self.seed = secrets.randbelow(2**32)
        if self.seed is not None and not (type(self.seed) is int and 0 <= self.seed <= LARGEST_SEED):
            raise SettingError(f"seed was {self.seed!r}; allowed: whole numbers from 0 to {LARGEST_SEED}.")

    def _refuse_without_draws(self) -> None:
        """Errors: `SettingError` for a choice that says how to draw, where nothing is drawn."""
        for name, value in self.settings.items():
            default = type(self).__dataclass_fields__[name].default
            if value != default:
                raise SettingError(f"{name} was {value!r}, but at temperature 0 nothing is drawn. Give a temperature "
                                   f"above 0, or leave {name} out.")


def seed_of(seed: int | None, number: int) -> int | None:
    """The seed of run `number` (from 0) of those that a user gave one seed: each has random numbers of its own, else
    the numbers that wrote one text would also decide the next one, which would not be distributed as the target's."""
    return None if seed is None else (seed + number) % (LARGEST_SEED + 1)


def rules_for(policy: Policy) -> list[str]:
    """The acceptance rules that can verify what `policy` drafts where the target samples; its own comes first."""
    own = RULE_OF[policy.drafts]
    return [own, *(name for name in ON_REQUEST if policy.drafts in RULES[name].drafting)]


def rule_for(policy: Policy, sampling: Sampling) -> str:
    """The acceptance rule of a run. Errors: `SettingError` for one that does not fit what the policy drafts."""
    if sampling.temperature == 0:
        if policy.drafts != "best":
            raise SettingError(f"{policy.name} was to draw its draft at random, which needs a temperature above 0; "
                               "decoding at temperature 0 is greedy. Give a temperature, or set drafting=best.")
        return "greedy"
    fitting = rules_for(policy)
    if sampling.rule not in (FITTING, *fitting):
        named = ", ".join(f"{name}{'' if RULES[name].lossless else ' (changes the distribution)'}" for name in fitting)
        raise SettingError(f"rule was {sampling.rule!r}, which takes drafts whose tokens were drawn; what "
                           f"{policy.name} drafts here can be verified by: {named}. chain draws with drafting=iid, "
                           "static and sequoia with drafting=iid or drafting=distinct.")
    return fitting[0] if sampling.rule == FITTING else sampling.rule
