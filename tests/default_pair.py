"""What the default pair has drafters for."""

from __future__ import annotations

from treegraft.drafters import SCORING
from treegraft.models.pairs import PAIRS
from treegraft.policies import POLICIES, Policy


def has_drafters(policy: type[Policy]) -> bool:
    """Whether each role of the policy finds a drafter of its own."""
    free = dict(PAIRS["smollm2"].drafters)
    for role in policy.roles:
        name = next((name for name, spec in free.items() if role.fits(spec.kind, spec.kind in SCORING)), None)
        if name is None:
            return False
        del free[name]
    return True


HERE = [name for name, policy in POLICIES.items() if has_drafters(policy)]
ELSEWHERE = [name for name in POLICIES if name not in HERE]
