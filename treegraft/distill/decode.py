"""The tau of a short real decode: the figure that a drafter is trained for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treegraft.analysis.metrics import summary
from treegraft.models.loader import TargetModel, Wishes, pair_up
from treegraft.models.pairs import DrafterSpec
from treegraft.policies import Eagle2
from treegraft.run import record


def short_tau(target: TargetModel, kind: str, folder: Path, questions: Sequence[str], max_new_tokens: int) -> float:
    """tau (bonus counted) of greedy `eagle2` on `questions`, with the drafter in `folder` read as a user reads it."""
    wishes = Wishes(target.dtype, target.device, False, lambda stage, fraction: None)
    pair = pair_up(target, {"student": DrafterSpec(kind, folder)}, wishes)
    runs = [record(pair, question, Eagle2(), max_new_tokens=max_new_tokens, costs=False).run
            for question in questions]
    return summary(runs).tau or 1.0
