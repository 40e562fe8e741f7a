"""Prompt lookup decoding (github.com/apoorvumang/prompt-lookup-decoding)."""

from __future__ import annotations

from dataclasses import dataclass

from treegraft.policies.base import Role
from treegraft.policies.retrieval import Retrieval
from treegraft.settings import setting


@dataclass
class PromptLookup(Retrieval):
    """One chain, copied from where the last tokens of the text occurred first."""

    name = "prompt-lookup"
    roles = (Role("drafter", "copies one run from the context", scores_tokens=False, kinds=("ngram",)),)

    budget: int = setting(10, "Tokens of the chain that the target verifies at most.", low=1, high=64)
