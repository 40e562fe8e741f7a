"""What a benchmark measures: decodes of prompts, and single model forwards. Times are microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field

GENERATE = "generate: plain"
"""The row that all others are compared with: transformers' plain `generate`."""

PLAIN = "plain"
"""The row of our own loop without drafting."""


@dataclass(frozen=True)
class Sample:
    """One decode of one prompt by one row.

    `microseconds` is the wall time from the prompt's token ids to the list `output` of all new token ids, the one that
    ends the text included; every row is timed and counted like this. `rounds` are the target's forwards that verified
    something, `accepted` the tokens that they added beyond one each. `recorded` tells the rows apart that write a trace
    while they decode; `recording` is the recorder's own share of their time.

    Our own loop also says where its time went: `prefill`, the `phases` of all rounds, and the model `forwards` inside
    of them.
    """

    row: str
    repeat: int
    prompt: int
    output: tuple[int, ...]
    microseconds: int
    rounds: int
    accepted: int
    recorded: bool = False
    recording: int = 0
    prefill: int = 0
    phases: dict[str, int] = field(default_factory=dict)
    forwards: int = 0

    @property
    def tokens(self) -> int:
        """New tokens: the one counter of all rows."""
        return len(self.output)

    @property
    def in_rounds(self) -> int:
        """Microseconds of all rounds."""
        return sum(self.phases.values())


@dataclass(frozen=True)
class Difference:
    """An output that is not plain `generate`'s: from which new token on, and how much `generate` preferred its own.

    `margin` is the distance in nats between the target's best two tokens at that place; `near_tie` says that rounding
    can explain the difference.
    """

    row: str
    prompt: int
    place: int
    margin: float
    near_tie: bool


BARE, ENGINE, VERIFY = "bare model call", "engine forward", "verify"


@dataclass(frozen=True)
class ForwardTime:
    """One forward over `tokens` tokens: `BARE`, `ENGINE`, `VERIFY`, or the name of a drafter."""

    what: str
    tokens: int
    repeat: int
    microseconds: int
