"""LogitSpec: a star of chains from the target's last logits and the text (arXiv 2507.01449)."""

from __future__ import annotations

from dataclasses import dataclass

from treegraft.policies.base import Role
from treegraft.policies.retrieval import Retrieval


@dataclass
class LogitSpec(Retrieval):
    """Guess the next token but one from the target's last logits, and copy what followed each guess in the text."""

    name = "logitspec"
    roles = (Role("drafter", "guesses from the target's last logits and copies from the context", scores_tokens=False,
                  kinds=("logitspec",)),)
