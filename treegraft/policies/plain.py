"""No drafting: one target forward a token. The baseline of every comparison."""

from __future__ import annotations

from dataclasses import dataclass

from treegraft.policies.base import Policy, Round


@dataclass
class Plain(Policy):
    """Plain decoding: the target alone, one token a round."""

    name = "plain"

    @property
    def capacity(self) -> int:
        return 1

    def draft(self, round: Round) -> None:
        """Leave the root alone in its tree."""
