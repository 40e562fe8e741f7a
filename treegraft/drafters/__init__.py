"""The drafters, by kind. A new one is a module and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treegraft.drafters.base import Drafter

DRAFTERS = {"lookup": "treegraft.drafters.lookup:Lookup", "eagle3": "treegraft.drafters.eagle3:Eagle3",
            "lm": "treegraft.drafters.lm:LM"}
"""Module and class of each kind, imported when it is asked for: neural drafters bring torch along."""

WITH_MODEL = frozenset({"lm", "eagle3"})
"""The kinds that run a model; the others cost next to nothing, and give no probabilities."""


def drafter_class(kind: str) -> type[Drafter]:
    """The class of a kind in `DRAFTERS`."""
    module, _, name = DRAFTERS[kind].partition(":")
    return getattr(import_module(module), name)
