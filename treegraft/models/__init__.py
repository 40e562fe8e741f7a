"""Models: where they come from, how they are loaded, and the cache that lets them verify a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from treegraft.models.loader import Pair, TargetModel, load

__all__ = ["Pair", "TargetModel", "load"]


def __getattr__(name: str):
    """Import the loader, and with it torch, when somebody asks for it: listing models must not cost seconds."""
    if name in __all__:
        from treegraft.models import loader

        return getattr(loader, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
