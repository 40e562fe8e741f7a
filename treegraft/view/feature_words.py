"""The scheduler's 17 features in plain words: what each is called, what it means, and its value for reading."""

from __future__ import annotations

import math
from typing import NamedTuple

from treegraft.scheduler.features import CALL_BITS
from treegraft.view.labels import name


class Words(NamedTuple):
    """A feature's `title` and `meaning`, and the `form` in which its value is shown."""

    title: str
    meaning: str
    form: str


WORDS = {
    "prompt_length": Words("Prompt length", "Tokens of the prompt. The network sees the logarithm of one more.",
                           "tokens"),
    "target_ms": Words("Target's time", "Milliseconds of one verification of a full tree, measured before the run.",
                       "ms"),
    "strong_ms": Words("Strong drafter's time", "Milliseconds of one call over a full frontier, measured before the "
                       "run.", "ms"),
    "cost_ratio": Words("Target's time / strong's", "How many calls take as long as one verification. The network "
                        "sees the logarithm.", "times"),
    "layer": Words("Layer", "How deep into the round: this layer's number as a share of all layers.", "share"),
    "call_share": Words("Calls so far", "Layers of this round that have called, as a share of all layers.", "share"),
    **{f"called_{layer}": Words(f"Layer {layer} called", f"Whether layer {layer} of this round was a call.", "yes")
       for layer in range(1, CALL_BITS + 1)},
    "frontier_depth": Words("Frontier's depth", "Mean depth of the nodes that would be expanded next; the root is 0.",
                            "number"),
    "frontier_leaves": Words("Childless in frontier", "Share of the frontier's nodes that have no children yet.",
                             "share"),
    "collapse_debt": Words("Levels a call falls back", "How many levels the frontier would rise towards the root, on "
                           "average, if a call chose it anew by the present scores.", "number"),
    "from_past_layers": Words("Chosen from other levels", "Share of the frontier that a call would choose from levels "
                              "that the present one has left.", "share"),
    "overlap": Words("Frontier kept by a call", "Share of the frontier that a call would choose and that is in the "
                     "present one.", "share"),
    "reselected_score": Words("Chosen nodes' score", "Mean score, in nats, of the frontier that a call would choose; 0 "
                              "where no node has one.", "nats"),
}
"""By name of the feature, in the network's order."""


def told(feature: str, value: float) -> tuple[str, str]:
    """What a feature is called, and its value, for reading; one that this version does not know stays as it is."""
    return (WORDS[feature].title, readable(feature, value)) if feature in WORDS else (name(feature), f"{value:.3g}")


def readable(feature: str, value: float) -> str:
    """A feature's value for reading; the logarithms are undone."""
    match WORDS[feature].form:
        case "tokens" if value < 40:
            return f"{math.expm1(value):,.0f} tokens"
        case "times" if abs(value) < 40:
            return f"{math.exp(value):.3g} times"
        case "ms":
            return f"{value:.4g} ms"
        case "share":
            return f"{value:.0%}" if abs(value) < 1e3 else f"{value:.3g}"
        case "yes":
            return {0.0: "no", 1.0: "yes"}.get(value, f"{value:.3g}")
        case "nats":
            return f"{value:.3g} nats"
    return f"{value:.3g}"
