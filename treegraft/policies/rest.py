"""REST: retrieval-based speculative decoding (arXiv 2311.08252)."""

from __future__ import annotations

from dataclasses import dataclass

from treegraft.policies.base import Role
from treegraft.policies.retrieval import Retrieval
from treegraft.settings import setting


@dataclass
class Rest(Retrieval):
    """The most frequent continuations of the longest match in a datastore of other texts, as a trie."""

    name = "rest"
    roles = (Role("drafter", "retrieves from a datastore (a folder that `treegraft datastore` made)",
                  scores_tokens=False, kinds=("datastore",)),)

    budget: int = setting(64, "Most frequent nodes of the trie that the target verifies.", low=1, high=1023)
