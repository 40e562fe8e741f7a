"""Kinds of tokens, told by their bytes, and how the target judged drafted tokens of each kind."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from treegraft.analysis.metrics import ratio
from treegraft.analysis.reached import Judged, Place

KINDS = {
    "word start": "Holds a Latin letter, and no letter, digit or apostrophe stands before the first one, neither in the"
                  " token nor at the end of the token before it.",
    "continuation": "Holds a Latin letter, and a letter, a digit or an apostrophe stands before the first one.",
    "digit": "Holds a digit (of any script) and no letter.",
    "punctuation": "Other visible signs: full stops, commas, quotation marks, brackets of prose, signs of money.",
    "code": "Holds one of { } [ ] < > = _ \\ | ; # ^ * ~ ` @ + / % & $.",
    "non-Latin": "Holds a letter of another script or a picture such as an emoji, or bytes that are only part of a"
                 " character.",
    "white space": "Nothing but spaces, tabs and line breaks.",
    "other": "Nothing visible, no bytes at all, control characters, or a marker such as <|im_end|>.",
}
"""All kinds and what makes a token one of each. A token is of the first that fits, in the order other, white space,
non-Latin, code, word start or continuation, digit, punctuation."""

MARKER = re.compile(r"\s*<\|.*\|>\s*", re.DOTALL)
CODE = frozenset("{}[]<>=_\\|;#^*~`@+/%&$")
LATIN_1 = 0xFF
"""The last character up to which a symbol (the degree sign, say) does not count as a picture."""

TAIL = 16
"""Bytes at the end of the token before that are looked at."""


def kind_of(piece: bytes | None, before: bytes | None = b"") -> str:
    """The kind (one of `KINDS`) of a token with the bytes `piece` that follows one with the bytes `before`; None where
    they are not known."""
    text = (piece or b"").decode("utf-8", "replace")
    if MARKER.fullmatch(text) or not any(map(is_shown, text)):
        return "white space" if text and text.isspace() else "other"
    if any(map(is_foreign, text)):
        return "non-Latin"
    if not CODE.isdisjoint(text):
        return "code"
    first = next((place for place, letter in enumerate(text) if letter.isalpha()), None)
    if first is None:
        return "digit" if any(unicodedata.category(letter)[0] == "N" for letter in text) else "punctuation"
    ahead = text[first - 1] if first else (before or b"")[-TAIL:].decode("utf-8", "ignore")[-1:]
    return "continuation" if ahead and (ahead in "'\u2019" or unicodedata.category(ahead)[0] in "LNM") else "word start"


def is_shown(letter: str) -> bool:
    """Whether it is neither white space nor a control, format or unassigned character."""
    return unicodedata.category(letter)[0] not in "ZC" and not letter.isspace()


def is_foreign(letter: str) -> bool:
    """Whether it is a letter of another script, a picture, or stands for bytes that are no character."""
    category = unicodedata.category(letter)
    if letter == "\ufffd" or (category == "So" and ord(letter) > LATIN_1):
        return True
    return category[0] == "L" and ord(letter) > LATIN_1 and "LATIN" not in unicodedata.name(letter, "").split()


@dataclass(frozen=True)
class KindRow:
    """The judged nodes of one kind, and how many `wanted` tokens of that kind rounds wrote, accepted or as bonus."""

    kind: str
    accepted: int
    rejected: int
    wanted: int
    accepted_in: list[Place]
    rejected_in: list[Place]

    @property
    def share(self) -> float | None:
        """Accepted / (accepted + rejected)."""
        return ratio(self.accepted, self.accepted + self.rejected)

    @property
    def covered(self) -> float | None:
        """Accepted / wanted: how much of the text of that kind was drafted."""
        return ratio(self.accepted, self.wanted)


def by_kind(found: Judged, pieces: Callable[[Place, int], bytes | None]) -> list[KindRow]:
    """The kinds that occur, in the order of `KINDS`; `pieces` gives the bytes of a token in the run of a place."""
    known: dict[tuple[int, int, int], str] = {}

    def kind(place: Place, token: int, before: int) -> str:
        key = place[0], token, before
        if key not in known:
            known[key] = kind_of(pieces(place, token), pieces(place, before))
        return known[key]

    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    places: dict[tuple[str, bool], dict[Place, None]] = defaultdict(dict)
    for node in found.nodes:
        its = kind(node.place, node.token, node.before)
        counts[its][0 if node.accepted else 1] += 1
        counts[its][2] += node.accepted
        places[its, node.accepted][node.place] = None
    for round in found.rounds:
        if round.bonus:
            counts[kind(round.place, *round.bonus)][2] += 1
    return [KindRow(its, *counts[its], list(places[its, True]), list(places[its, False]))
            for its in KINDS if its in counts]
