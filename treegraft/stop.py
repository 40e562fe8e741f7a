"""When a text ends: end-of-text tokens, stop strings, and the limits on new tokens and context."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field


@dataclass
class Stop:
    """Reads the output token by token and says where it ends.

    `eos` are end-of-text ids, `strings` end the text at the token that completes one of them, `max_new_tokens` and
    `room` (tokens that the context still takes after the prompt) cut it. `piece` gives the bytes of a token. At the
    same token, end-of-text and stop strings win over the limits.
    """

    eos: Collection[int]
    strings: Sequence[str]
    max_new_tokens: int
    room: int
    piece: Callable[[int], bytes]
    reason: str = ""
    new_tokens: int = 0
    _needles: list[bytes] = field(init=False)
    _tail: bytes = field(default=b"", init=False)

    def __post_init__(self) -> None:
        self._needles = [text.encode() for text in self.strings if text]

    def take(self, tokens: Sequence[int]) -> int:
        """Add tokens to the output; returns how many of them belong to it. Sets `reason` when the text ended."""
        for count, token in enumerate(tokens, start=1):
            self.new_tokens += 1
            self.reason = self._ends(token)
            if self.reason:
                return count
        return len(tokens)

    def _ends(self, token: int) -> str:
        if token in self.eos:
            return "eos"
        if self._needles and self._completes_string(token):
            return "stop"
        if self.new_tokens >= self.max_new_tokens:
            return "length"
        return "context" if self.new_tokens >= self.room else ""

    def _completes_string(self, token: int) -> bool:
        text = self._tail + self.piece(token)
        self._tail = text[-max(map(len, self._needles)):]
        return any(needle in text for needle in self._needles)
