"""The output text of a run, token by token: what the drafter wrote, what the target chose, what fell off the end.

A token's text is taken from the bytes of the whole output, not from the token alone: the text of a character that is
split over several tokens belongs to the token that completes it, and the tokens before it have none.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from treegraft.trace.replay import Outcome
from treegraft.trace.runs import MISSING, Run

PREFILL = -1
"""`round` of the token in front of the first round: as a rule the one that the target chose when it read the prompt."""

Kind = Literal["drafted", "chosen", "discarded"]


@dataclass(frozen=True)
class Token:
    """One token of the output: its `id`, its part of the text, and where it came from.

    `chosen` tokens are the target's own (the first token and each round's bonus), `drafted` ones were drafted and
    accepted, `discarded` ones lie after the end of the text. `round` is `PREFILL` for the first token.
    """

    id: int
    text: str
    kind: Kind
    round: int


@dataclass(frozen=True)
class Chunk:
    """The tokens that one round added to the text."""

    round: int
    tokens: list[Token]

    @property
    def text(self) -> str:
        """Its part of the output text, without what was discarded."""
        return "".join(token.text for token in self.tokens if token.kind != "discarded")


def chunks(run: Run, first: int = 0, count: int | None = None) -> list[Chunk]:
    """The output of `run` by round: of `count` rounds (None: all) from number `first` on.

    In front stands a chunk of its own with the token that the first of these rounds starts from.
    """
    steps = run.outcomes[first:] if count is None else [round.outcome for round in run.rounds[first:first + count]]
    start = [steps[0].root] if steps else run.output[:1]
    tokens = [(PREFILL, token, "chosen") for token in start] + list(_added(steps, first))
    end = sum(kind != "discarded" for _, _, kind in tokens)
    pieces = [run.pieces.get(token, MISSING) for _, token, _ in tokens]
    texts = token_texts(pieces[:end]) + token_texts(pieces[end:])
    found: list[Chunk] = []
    for (number, token, kind), text in zip(tokens, texts, strict=True):
        if not found or found[-1].round != number:
            found.append(Chunk(number, []))
        found[-1].tokens.append(Token(token, text, kind, number))
    return found


def _added(steps: Sequence[Outcome], first: int) -> Iterator[tuple[int, int, Kind]]:
    """Round, token id and kind of each token that these rounds added, those that were discarded included."""
    for number, step in enumerate(steps, start=first):
        for place, token in enumerate(step.tokens):
            kind: Kind = "drafted" if place < len(step.tokens) - 1 else "chosen"
            yield number, token, kind if place < step.taken else "discarded"


def token_texts(pieces: Sequence[bytes]) -> list[str]:
    """Text of each token of a stream, given the tokens' bytes; joined, they are the text of the whole stream.

    Bytes that belong to no character become a replacement character; all else reads as if decoded in one go.
    """
    ends, end = [], 0
    for piece in pieces:
        end += len(piece)
        ends.append(end)
    texts: list[list[str]] = [[] for _ in pieces]
    token = place = 0
    for letter in b"".join(pieces).decode("utf-8", "surrogateescape"):
        place += 1 if _is_broken(letter) else len(letter.encode())
        while ends[token] < place:
            token += 1
        texts[token].append(letter)
    return [re.sub("[\udc80-\udcff]+", "\ufffd", "".join(letters)) for letters in texts]


def _is_broken(letter: str) -> bool:
    """Whether it stands for one byte that is not UTF-8."""
    return "\udc80" <= letter <= "\udcff"


RUNNING_TEXT = "\n\t\u200c\u200d\u3000"
"""What running text may hold besides visible letters: line breaks, joiners of emoji and letters, the wide space."""


def visible(text: str, keep: Iterable[str] = ()) -> str:
    """`text` with everything escaped that moves, hides or reorders what stands beside it, except the letters in `keep`.

    These are control characters, line breaks, bidirectional and other format characters, and unusual spaces.
    """
    return "".join(letter if letter in keep or _is_plain(letter) else _escape(letter) for letter in text)


def _is_plain(letter: str) -> bool:
    return letter == " " or unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}


def _escape(letter: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
    code = ord(letter)
    return known.get(letter) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000
                                 else f"\\U{code:08x}")


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8: Python strings may hold halves of characters, as from "\\ud83d"."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
