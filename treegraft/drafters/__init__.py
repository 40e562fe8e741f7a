"""The drafters, by kind. A new one is a module and a line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treegraft.drafters.base import Drafter

DRAFTERS = {"lookup": "treegraft.drafters.lookup:Lookup", "successors": "treegraft.drafters.successors:Successors",
            "ngram": "treegraft.drafters.ngram:Ngram", "logitspec": "treegraft.drafters.logitspec:LogitSpec",
            "lookahead": "treegraft.drafters.lookahead:Lookahead",
            "datastore": "treegraft.drafters.datastore:Datastore", "eagle3": "treegraft.drafters.eagle3:Eagle3",
            "block": "treegraft.drafters.block:Block", "lm": "treegraft.drafters.lm:LM"}
"""Module and class of each kind, imported when it is asked for: neural drafters bring torch along."""

SCORING = frozenset({"lm", "eagle3"})
"""The kinds that give every token a probability, after any node."""

WITH_MODEL = SCORING | {"block"}
"""The kinds that run a model; the others cost next to nothing."""

RANKING = frozenset({"successors"})
"""The kinds that rank next tokens by the last token alone."""

FROM_TEXT = frozenset({"lookup", "ngram", "logitspec"})
"""The kinds that their settings and the text of a run make up: a replay runs them live."""

RETRIEVING = frozenset({"datastore"})
"""The kinds that copy from texts which no trace holds, and grow their whole tree at once."""


def drafter_class(kind: str) -> type[Drafter]:
    """The class of a kind in `DRAFTERS`."""
    module, _, name = DRAFTERS[kind].partition(":")
    return getattr(import_module(module), name)
