"""The sentences that the views use, as templates with values, so that the player can fill in thousands of them itself.

Fields are written `{name:kind}`. The kinds are `count`, `text`, `nats`, `score` (nats, or that there is none), `prob`,
`p` (the same as "p = 0.5") and `ms` (integers as the trace has them), `number` and `level` (with two and three
decimals), `token` and `tokens` (token ids), `drafter` (a drafter id), and `one|many`, which picks a word by the count.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

from treegraft.trace.records import NATS

TEMPLATES = {
    "root": "Root: the target chose it before this round, and every drafted token continues from here.",
    "kept": "Kept: rank {rank:count} of {pool:count} by score.",
    "kept one": "Kept: it was the only drafted token.",
    "kept all": "Kept: all {pool:count} drafted {pool:token|tokens} fitted the budget.",
    "kept for others": "Kept although only rank {rank:count} of {pool:count} by score: a better token below needs it.",
    "kept retrieved": "Kept: retrieved, to fill the budget beside {chosen:count} drafted {chosen:token|tokens}.",
    "kept again": "Kept although only rank {rank:count} of {pool:count} by score: it was retrieved, too.",
    "pruned": "Pruned: rank {rank:count} of {pool:count} by score, {gap:nats} nats below the last of the {kept:count}"
              " kept.",
    "pruned level": "Pruned: rank {rank:count} of {pool:count} by score, level with the last of the {kept:count} kept.",
    "pruned with parent": "Pruned although rank {rank:count} of {pool:count} by score: the tokens before it did not fit"
                          " into the budget of {budget:count}.",
    "pruned otherwise": "Pruned by the rule {rule:text}: rank {rank:count} of {pool:count} by score.",
    "pruned unscored": "Pruned: no drafter scored it, and the budget is {budget:count}.",
    "accepted first": "Accepted: it is the target\u2019s first choice after {parent:token}, with {p:p}.",
    "accepted": "Accepted: the target took it after {parent:token}, with {p:p}.",
    "discarded": "Discarded: the target accepted it, but the text had ended before it.",
    "rejected": "Rejected: after {parent:token} the target preferred {chosen:token} by {gap:nats} nats,"
                " {best:p} against {p:prob}.",
    "rejected tie": "Rejected: after {parent:token} the target found it and {chosen:token} exactly as likely, {p:p}; of"
                    " equals it takes the token with the lower id.",
    "rejected unknown": "Rejected: after {parent:token} the target chose {chosen:token}.",
    "accepted typical": "Accepted: its p of {was:prob} is above the threshold of {u:level}.",
    "rejected typical": "Rejected: its p of {was:prob} is not above the threshold of {u:level}.",
    "rejected beside": "Rejected: its p of {was:prob} is above the threshold of {u:level}, but another branch was"
                       " accepted.",
    "rejected untried": "Rejected: not tried, as {chosen:token} was accepted before it.",
    "accepted path": "Accepted: the chance of the whole path to it was {chance:level} and u {u:level}, below it.",
    "rejected path": "Rejected: the chance of the whole path to it was {chance:level} and u {u:level}: not accepted.",
    "unreached path": "Not reached: the chance of the whole path to it was {chance:level} and u {u:level}: not"
                      " accepted.",
    "accepted within": "Accepted: it lies on a path that was accepted as a whole.",
    "unreached parent": "Not reached: its parent {parent:token} was rejected.",
    "unreached ancestor": "Not reached: {ancestor:token}, further up its branch, was rejected.",
    "unreached end": "Not reached: the text ended before it.",
    "own branch first": "On its own branch it was the target\u2019s first choice, with {p:p}.",
    "own branch": "On its own branch the target gave it {p:p}.",
    "bonus": "The target\u2019s own choice after {parent:token}, with {p:p}. It is the root of the next round.",
    "bonus unknown": "The target\u2019s own choice after {parent:token}. It is the root of the next round.",
    "bonus discarded": "The target\u2019s own choice after {parent:token}, discarded: the text had ended before it.",
    "bonus drawn": "Drawn from the target\u2019s distribution after {parent:token}, with {p:p}. It is the root"
                   " of the next round.",
    "bonus drawn unknown": "Drawn from the target\u2019s distribution after {parent:token}. It is the root of the next"
                           " round.",
    "bonus drawn left": "Drawn after {parent:token} from what the rejected tokens left of the target\u2019s"
                        " distribution, with {p:p}. It is the root of the next round.",
    "bonus drawn left unknown": "Drawn after {parent:token} from what the rejected tokens left of the target\u2019s"
                                " distribution. It is the root of the next round.",
    "rescored": "{drafter:drafter} rescored it in layer {layer:count}: {before:score} before, {after:score} after.",
    "rescored again": "{drafter:drafter} rescored it {times:count} times, last in layer {layer:count}: {before:score}"
                      " at first, {after:score} in the end.",
    "grafted": "Grafted: {drafter:drafter} continues a branch of {other:drafter} with it, in layer {layer:count}.",
    "retrieved": "Retrieved: rank {place:count} in the row that {drafter:drafter} has for {parent:token}.",
    "retrieved too": "Proposed by both: {other:drafter} drafted it, and {drafter:drafter} retrieved it.",
    "unreachable": "{drafter:drafter} cannot propose it, and scored it below all that it can.",
    "expand": "{drafter:drafter} extends {parents:count} {parents:node|nodes} by {nodes:count} new"
              " {nodes:token|tokens}.",
    "expand merged": "{drafter:drafter} extends {parents:count} {parents:node|nodes} by {nodes:count} new"
                     " {nodes:token|tokens}; {merged:count} more {merged:was|were} in the tree already.",
    "expand copied": "{drafter:drafter} copies {nodes:count} {nodes:token|tokens}; the longest match is {match:count}"
                     " {match:token|tokens} long.",
    "expand unmatched": "{drafter:drafter} finds no match to copy from and takes {nodes:count} {nodes:token|tokens}"
                        " that the context holds most often.",
    "expand ranked": "{drafter:drafter} reads {nodes:count} new {nodes:token|tokens} from its rows.",
    "expand ranked merged": "{drafter:drafter} reads {nodes:count} new {nodes:token|tokens} from its rows;"
                            " {merged:count} more {merged:was|were} in the tree already.",
    "expand known": "{drafter:drafter} proposes nothing new: {merged:count} {merged:token was|tokens were} in the tree"
                    " already.",
    "expand nothing": "{drafter:drafter} has nothing to propose.",
    "decide call": "{strong:drafter} is called: the scheduler expects that to save {margin:number} ms, more than the"
                   " threshold of {threshold:number} ms. Calls left before this one: {left:count}.",
    "decide skip": "{strong:drafter} is not called: the scheduler expects that to save {margin:number} ms, not more"
                   " than the threshold of {threshold:number} ms. Calls left: {left:count}.",
    "decide spent": "{strong:drafter} is not called: the round has no calls left. The scheduler expects one to save"
                    " {margin:number} ms; the threshold is {threshold:number} ms.",
    "decide call fixed": "{strong:drafter} is called, as the schedule \u201c{rule:text}\u201d has it.",
    "decide skip fixed": "{strong:drafter} is not called, as the schedule \u201c{rule:text}\u201d has it.",
    "rescore": "{drafter:drafter} reads the whole tree; {nodes:count} {nodes:score changes|scores change}: {rose:count}"
               " rose, {fell:count} fell.",
    "rescore nothing": "{drafter:drafter} reads the whole tree; no score changes.",
    "rescore unreachable": "{drafter:drafter} reads the whole tree; {nodes:count} {nodes:score changes|scores change}:"
                           " {rose:count} rose, {fell:count} fell. It cannot propose {unreachable:count} of the"
                           " tokens.",
    "reselect": "The best {after:count} of {pool:count} nodes are the new frontier: {stayed:count} of the"
                " {before:count} in it {stayed:stays|stay}, {earlier:count} {earlier:comes|come} from earlier layers.",
    "reselect same": "The frontier stays as it was, the best {after:count} of {pool:count} {pool:node|nodes}.",
    "reselect nothing": "None of {pool:count} nodes is chosen: the frontier is empty.",
    "gate go": "Drafting goes on after layer {layer:count}: the {measure:text} of {value:level} is {compared:text} the"
               " threshold of {threshold:level}.",
    "gate stop": "Drafting stops after layer {layer:count}: the {measure:text} of {value:level} is {compared:text} the"
                 " threshold of {threshold:level}.",
    "learn": "{drafter:drafter} learns from the target what follows {rows:count} {rows:token|tokens}.",
    "learn nothing": "{drafter:drafter} learns nothing new.",
    "prune": "The best {kept:count} of {pool:count} drafted tokens go to the target; the last of them has a score of"
             " {cut:nats} nats.",
    "prune otherwise": "{kept:count} of {pool:count} drafted tokens go to the target, by the rule {rule:text}.",
    "prune grafted": "{kept:count} {kept:token goes|tokens go} to the target: {chosen:count} drafted, of which the last"
                     " chosen by score has {cut:nats} nats, and {retrieved:count} retrieved.",
    "prune retrieved": "{kept:count} retrieved {kept:token goes|tokens go} to the target.",
    "prune nothing": "All that was drafted goes to the target, {kept:count} {kept:token|tokens}; the budget is"
                     " {budget:count}.",
    "verify": "The target reads {order:count} {order:token|tokens} in one forward pass.",
    "verify timed": "The target reads {order:count} {order:token|tokens} in one forward pass of {time:ms} ms.",
    "accept": "{path:count} {path:token|tokens} accepted, {tokens:tokens}; then the target goes its own way with"
              " {bonus:token}.",
    "accept to the end": "{path:count} {path:token|tokens} accepted, {tokens:tokens}, to the end of the branch; the"
                         " target adds {bonus:token}.",
    "accept ended": "{path:count} {path:token|tokens} accepted, {tokens:tokens}; the text ends there, and the"
                    " target\u2019s own {bonus:token} is discarded.",
    "accept cut": "The target agrees with {path:count} {path:token|tokens}, {tokens:tokens}; the text ends after"
                  " {taken:count} of them, and the rest is discarded.",
    "accept none": "No drafted token accepted; the target goes its own way with {bonus:token}.",
    "accept undrafted": "Nothing was drafted; the target goes on with {bonus:token}.",
    "accept drawn": "{path:count} {path:token|tokens} accepted, {tokens:tokens}; then {bonus:token} is drawn.",
    "accept drawn to the end": "{path:count} {path:token|tokens} accepted, {tokens:tokens}, to the end of the branch;"
                               " then {bonus:token} is drawn.",
    "accept drawn none": "No drafted token accepted; {bonus:token} is drawn.",
    "accept drawn undrafted": "Nothing was drafted; {bonus:token} is drawn.",
    "expected": "Expected accepted length {expected:number}, computed from the recorded probabilities.",
    "event": "{kind:text}: this version has no words for it.",
    "round": "{path:count} of {kept:count} drafted tokens accepted; with the target\u2019s own"
             " {bonus:token} the round wrote {written:count} {written:token|tokens}.",
    "round grafted": "{path:count} of {kept:count} tokens accepted, {found:count} of them retrieved; with"
                     " the target\u2019s own {bonus:token} the round wrote {written:count} {written:token|tokens}.",
    "round undrafted": "Nothing was drafted: the target wrote {bonus:token} alone.",
    "round at the end": "The text ended in this round: {written:count} {written:token|tokens} written,"
                        " {discarded:count} discarded.",
    "stop rejected": "It went no further because none of the {below:count} tokens drafted after {parent:token} was"
                     " accepted.",
    "stop rejected one": "It went no further because the one token drafted after {parent:token} was not accepted.",
    "stop end": "It went no further because nothing was drafted after {parent:token}.",
    "stop gate": "It went no further because nothing was drafted after {parent:token}: a gate had stopped drafting"
                 " after layer {layer:count}.",
    "oracle": "Accepted {path:count}; the grown tree held {grown:count} right {grown:token|tokens} in a row.",
    "oracle pruned": "Accepted {path:count}; the grown tree held {grown:count} right {grown:token|tokens} in a"
                     " row; {lost:count} {lost:was|were} pruned.",
    "oracle alone": "On its own, {drafter:drafter} held {alone:count}.",
}

for _key in ("expand", "expand merged", "expand copied", "expand unmatched", "expand ranked", "expand ranked merged"):
    TEMPLATES[f"{_key} grafted"] = (TEMPLATES[_key][:-1] + "; {grafted:count} {grafted:is a graft|are grafts} onto"
                                    " branches of another drafter.")

for _order, _p in (("", "the target\u2019s p was {was:prob}"),
                   (" later", "the p that was left of the target\u2019s was {was:prob}")):
    _after, _and_q = f"after {{parent:token}} {_p}", " and the drafter\u2019s q {q:prob}"
    TEMPLATES[f"accepted by p{_order}"] = f"Accepted: {_after}, and u {{u:level}}, below it."
    TEMPLATES[f"rejected by p{_order}"] = f"Rejected: {_after} and u {{u:level}}: not accepted."
    TEMPLATES[f"accepted by q{_order}"] = f"Accepted: {_after}{_and_q}, and u {{u:level}}, below p / q."
    TEMPLATES[f"rejected by q{_order}"] = f"Rejected: {_after}{_and_q}, and u {{u:level}}: not accepted."

GRAFT = ("In stage {stage:text} the budget goes to {drafted:count} drafted and {retrieved:count} retrieved"
         " {retrieved:token|tokens}. {drafter:drafter} retrieves {nodes:count}")
GRAFT_PARTS = {
    "merged": ", {merged:count} of which {merged:was|were} drafted, too",
    "replaced": "; {replaced:count} free {replaced:place goes|places go} to other tokens",
    "shortfall": "; {shortfall:count} {shortfall:place stays|places stay} empty",
}
"""What the sentence about a graft adds where there is something to say, in this order."""

for _parts in chain.from_iterable(combinations(GRAFT_PARTS, size) for size in range(len(GRAFT_PARTS) + 1)):
    TEMPLATES[" ".join(("graft", *_parts))] = GRAFT + "".join(GRAFT_PARTS[part] for part in _parts) + "."

GROWTH_PARTS = {
    "calls": "{strong:drafter} was called in {calls:count} of {layers:count} {layers:layer|layers}",
    "copied": "{copied:count} {copied:token was|tokens were} copied from the context",
    "grafted": "{grafted:count} {grafted:token was|tokens were} grafted",
    "pruned": "{pruned:count} drafted {pruned:token was|tokens were} pruned",
}
"""What the sentence about a tree's growth holds where there is something to say, in this order."""

for _parts in chain.from_iterable(combinations(GROWTH_PARTS, size) for size in range(1, len(GROWTH_PARTS) + 1)):
    TEMPLATES[" ".join(("growth", *_parts))] = "; ".join(GROWTH_PARTS[part] for part in _parts) + "."


@dataclass(frozen=True)
class Field:
    """A field of a template after the plain `text` before it; `name` is None where only text is left."""

    text: str
    name: str | None
    kind: str


def _fields(template: str) -> list[Field]:
    return [Field(text, name, kind or "") for text, name, kind, _ in string.Formatter().parse(template)]


FIELDS = {key: _fields(template) for key, template in TEMPLATES.items()}
NAMES = {key: list(dict.fromkeys(field.name for field in fields if field.name)) for key, fields in FIELDS.items()}
_NUMBER = {key: number for number, key in enumerate(TEMPLATES)}


@dataclass(frozen=True)
class Sentence:
    """A key of `TEMPLATES` and the values of its fields."""

    key: str
    values: dict[str, Any]

    def packed(self, known: Collection[str] = ()) -> list[Any]:
        """Number of the template, then the values in the order of `NAMES`, without those that the reader knows."""
        return [_NUMBER[self.key], *(self.values[name] for name in NAMES[self.key] if name not in known)]


def say(key: str, **values: Any) -> Sentence:
    """A sentence; the values must be those of its template."""
    if set(values) != set(NAMES[key]):
        raise ValueError(f"the sentence {key!r} takes {NAMES[key]}, given: {list(values)}")
    return Sentence(key, values)


def nats(units: int) -> str:
    """A log-probability or score in nats, two decimals."""
    return f"{units / NATS:.2f}".replace("-", "\N{MINUS SIGN}")


def score(units: int | None) -> str:
    """A score with its unit, or that there is none."""
    return "no score" if units is None else f"{nats(units)} nats"


def bare_score(units: int | None) -> str:
    """A score without its unit."""
    return "none" if units is None else nats(units)


def number(value: float) -> str:
    """A number with two decimals."""
    return f"{value:.2f}".replace("-", "\N{MINUS SIGN}")


def level(value: float) -> str:
    """A number with three decimals."""
    return f"{value:.3f}".replace("-", "\N{MINUS SIGN}")


def chance(units: int | None) -> float:
    """The probability of a log-probability in 1e-5 nats; a trace may hold nonsense above zero."""
    return 0.0 if units is None else math.exp(min(units, 0) / NATS)


def prob(units: int | None) -> str:
    """A probability, three decimals, from a log-probability in 1e-5 nats."""
    p = chance(units)
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def equation(units: int | None) -> str:
    """A probability with its sign: "p = 0.500", "p < 0.001"."""
    return f"p = {prob(units)}".replace("= <", "< ")


def milliseconds(microseconds: int) -> str:
    return f"{microseconds / 1000:.1f}"


def render(sentence: Sentence, token: Callable[[int], str], drafter: Callable[[int], str]) -> str:
    """The sentence in words. `token` gives the display text of a token id, `drafter` the name of a drafter id."""
    formats: dict[str, Callable[[Any], str]] = {
        "count": str, "text": str, "nats": nats, "score": score, "prob": prob, "p": equation, "ms": milliseconds,
        "number": number, "level": level, "drafter": drafter,
        "token": lambda one: f"\u201c{token(one)}\u201d",
        "tokens": lambda many: f"\u201c{''.join(map(token, many))}\u201d",
    }
    words = []
    for field in FIELDS[sentence.key]:
        words.append(field.text)
        if field.name is None:
            continue
        value = sentence.values[field.name]
        one, _, many = field.kind.partition("|")
        words.append(formats[one](value) if not many else one if value == 1 else many)
    return "".join(words)
