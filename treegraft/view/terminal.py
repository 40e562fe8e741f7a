"""A round's draft tree and a run's text, drawn in the terminal.

Every fate has a symbol as well as a colour, so that the picture survives a pipe, and every token is escaped, so that a
trace cannot steer the terminal.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from treegraft.analysis.text import RUNNING_TEXT, Chunk, chunks, visible
from treegraft.trace.reader import Run, TracedRound
from treegraft.trace.records import Accept, Decide, Expand, Gate, Graft, Learn, Rescore, Reselect
from treegraft.view.acceptance import rule_view
from treegraft.view.events import grafts, growth, ranks, retrieved, timeline
from treegraft.view.explain import Explainer
from treegraft.view.labels import cut, label
from treegraft.view.labels import name as name_of
from treegraft.view.model import prompt_text
from treegraft.view.stages import rescorings
from treegraft.view.words import bare_score, level, prob, render

FATES = {
    "root": ("●", "bold"),
    "accepted": ("✓", "bold green"),
    "rejected": ("✗", "red"),
    "unreached": ("○", "dim"),
    "pruned": ("…", "dim"),
    "discarded": ("⊘", "yellow"),
    "bonus": ("★", "bold cyan"),
}
"""Symbol and style of each fate, and of the bonus token."""

MEANING = {
    "accepted": "drafted and accepted",
    "rejected": "the target chose otherwise",
    "unreached": "parent not accepted",
    "pruned": "not sent to the target",
    "discarded": "after the end of the text",
    "bonus": "the target's own token",
}

SEAM = "│"

PROMPT_LENGTH = 160

DEEPEST = 32
"""Columns of guides in front of a node; what lies further left is cut, so that deep nodes keep their text."""


@dataclass(frozen=True)
class Line:
    """One line of the picture: the guides that lead to it, and its cells."""

    guides: str
    fate: str
    label: str
    drafter: str = ""
    q: str = ""
    p: str = ""
    rank: str = ""
    u: str = ""
    score: str = ""


def show_round(round: TracedRound) -> None:
    """Print the picture of `draw_round`."""
    Console(markup=False, emoji=False, highlight=False).print(draw_round(round))


def draw_round(round: TracedRound) -> RenderableType:
    """The tree of one round: a line a verified node, the accepted path first, pruned nodes as a count below the node
    that they hang from.

    q is the drafter's probability of the token after its parent, p the target's, rank its place among the target's
    favourites (1 is the first), known where the target's choice was looked at. Where a drafter rescored the tree, score
    is a node's score in nats before and after, and each layer has a line that tells what was decided and done. So has a
    graft, and what was learned; `row 2` behind a drafter is the place of a retrieved token in the row of its parent's.
    Where the round was sampled, u is the random number that a node's chance was compared with (or the threshold), and a
    line names the rule.
    """
    rescored = any(isinstance(event, Rescore) for event in round.record.events)
    drawn = any(tried.u is not None for tried in round.event("accept").tried)
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("token", no_wrap=True, overflow="ellipsis", min_width=12)
    for name in ("drafter", "q", "p", "rank", *["u"] * drawn, *["score"] * rescored):
        table.add_column(name, no_wrap=True, overflow="ellipsis", justify="left" if name == "drafter" else "right")
    for line in _lines(round):
        symbol, style = FATES[line.fate]
        token = Text.assemble((line.guides, "dim"), (f"{symbol} {line.label}", style))
        table.add_row(token, *map(Text, (line.drafter, line.q, line.p, line.rank, *[line.u] * drawn,
                                         *[line.score] * rescored)))
    return Group(_title(round), table, *_layers(round), *_remarks(round),
                 legend(dict.fromkeys(round.fates) | {"bonus": None}))


def draw_text(run: Run) -> RenderableType:
    """The prompt of a run in one line, its output with a seam in front of each round's part, and how to read it."""
    prompt = cut(visible(" ".join(prompt_text(run).split())), PROMPT_LENGTH)
    text, parts = Text(), chunks(run)
    for chunk in parts:
        _append_chunk(text, chunk)
    note = f"{SEAM} starts a round; its last token is the target's own (underlined), those before it were drafted."
    if any(token.kind == "discarded" for chunk in parts[-1:] for token in chunk.tokens):
        note += f" {FATES['discarded'][0]} marks tokens {MEANING['discarded']}."
    return Group(Text(f"Prompt: {prompt}", "dim"), text, Text(note, "dim"))


def legend(fates: Collection[str]) -> Text:
    """The symbols of these fates and what they mean."""
    text = Text(style="dim")
    for fate, meaning in MEANING.items():
        if fate in fates:
            symbol, style = FATES[fate]
            text.append(f"{'   ' if text else ''}")
            text.append(f"{symbol} {fate}", style)
            text.append(f": {meaning}")
    return text


def _append_chunk(text: Text, chunk: Chunk) -> None:
    styles = {"drafted": FATES["accepted"][1], "chosen": "underline", "discarded": "strike dim"}
    if chunk.round >= 0:
        text.append(SEAM, "dim")
    for token in chunk.tokens:
        shown = visible(token.text, keep=RUNNING_TEXT)
        text.append(f"{FATES['discarded'][0]}{shown}" if token.kind == "discarded" else shown, styles[token.kind])


def _title(round: TracedRound) -> Text:
    record, found = round.record, retrieved(timeline(round.record)).new
    verified = len(round.event("verify").order) - 1
    rounds, nodes = len(round.run.rounds), len(round.fates) - 1 - len(found)
    more = f"{len(found)} retrieved, " if found else ""
    return Text(f"Round {round.index} (0 to {rounds - 1}), context {record.context} tokens: "
                f"{nodes} drafted, {more}{verified} verified, {round.accepted} accepted + bonus", "bold")


def _layers(round: TracedRound) -> list[Text]:
    """What was decided in each layer and what its calls did, a line a layer, what was retrieved and learned, and by
    which rule a sampled round accepted."""
    explain, told = Explainer(round), {}
    names = {drafter.id: name_of(drafter.name) for drafter in round.run.header.drafters}
    for event in round.record.events:
        sentence = render(explain.event(event), lambda token: label(round.run.pieces.get(token)),
                          lambda drafter: names.get(drafter, f"drafter {drafter}"))
        if isinstance(event, Decide | Rescore | Reselect | Gate) or (isinstance(event, Expand) and event.grafted):
            told.setdefault(f"Layer {event.layer}", []).append(sentence)
        elif isinstance(event, Accept) and explain.sampled:
            rule = rule_view(event.rule)
            expects = [] if (expects := explain.expects()) is None else [render(expects, str, str)]
            lossy = f" ({rule['lossy']})" if rule["lossy"] else ""
            told["Accept"] = [f"rule {rule['name']}{lossy}: {rule['help']}.", sentence, *expects]
        elif isinstance(event, Graft | Learn):
            told.setdefault(type(event).__name__, []).append(sentence)
    return [Text(f"{part}: {' '.join(sentences)}", "dim") for part, sentences in told.items()]


def _remarks(round: TracedRound) -> list[Text]:
    times = ", ".join(f"{name} {time / 1000:.1f} ms" for name, time in round.record.times.items())
    return [Text(visible(text), "dim") for text in (round.record.note, times) if text]


def _lines(round: TracedRound) -> Iterator[Line]:
    """The lines of the picture, top to bottom."""
    picture = _Picture(round)
    yield Line("", "root", picture.label(0))
    stack = [("", row) for row in reversed(picture.rows(0))]
    while stack:
        guides, (kind, node, last) = stack.pop()
        arm = guides + ("└─" if last else "├─")
        yield picture.line(arm if len(arm) <= DEEPEST else "…" + arm[1 - DEEPEST:], kind, node)
        if kind == "node":
            below = guides + ("  " if last else "│ ")
            stack += [(below, row) for row in reversed(picture.rows(node))]


class _Picture:
    """What the lines of a round show, looked up once."""

    def __init__(self, round: TracedRound) -> None:
        self.round, self.fates, self.pieces = round, round.fates, round.run.pieces
        self.nodes, self.parent = round.record.nodes, round.record.nodes.parent
        verify = round.event("verify")
        events = timeline(round.record)
        grown = growth(events, self.nodes)
        self.q, self.grafted = grown.q, grafts(events)
        self.row = {node: rank for node, (_, rank) in ranks(events).items()}
        self.also = {node: event.drafter for event in events if isinstance(event, Graft) for node in event.merged}
        self.rescored = {node: (changes[0][1], changes[-1][2]) for node, changes in rescorings(events, grown).items()}
        self.p = dict(zip(verify.order, verify.logprob, strict=True))
        self.rank = {child: rank for walked in verify.walk
                     for child, rank in zip(walked.children, walked.ranks, strict=True)}
        self.u = {tried.node: tried.u for tried in round.event("accept").tried}
        self.names = {drafter.id: drafter.name for drafter in round.run.header.drafters}
        self.tip = round.path[-1] if len(round.path) else 0
        self.shown: dict[int, list[int]] = {}
        self.pruned: dict[int, list[int]] = {}
        self._sort_nodes()

    def _sort_nodes(self) -> None:
        """Verified children by parent, the accepted one first, then the target's favourites; pruned nodes by the
        verified node above them."""
        anchor, path = list(range(len(self.parent))), set(self.round.path)
        for node in range(1, len(self.parent)):
            parent = self.parent[node]
            if self.fates[node] == "pruned":
                anchor[node] = anchor[parent]
                self.pruned.setdefault(anchor[node], []).append(node)
            else:
                self.shown.setdefault(parent, []).append(node)
        for family in self.shown.values():
            family.sort(key=lambda node: (node not in path, -_number(self.p.get(node))))

    def rows(self, node: int) -> list[tuple[str, int, bool]]:
        """What hangs below a node: its children, the bonus if it ends the accepted path, its pruned nodes as one."""
        rows = [("bonus", node)] if node == self.tip else []
        rows += [("node", child) for child in self.shown.get(node, [])]
        rows += [("pruned", node)] if node in self.pruned else []
        return [(*row, place == len(rows) - 1) for place, row in enumerate(rows)]

    def line(self, guides: str, kind: str, node: int) -> Line:
        if kind == "bonus":
            return Line(guides, "bonus", label(self.pieces.get(self.round.event("accept").bonus)))
        if kind == "pruned":
            hidden = self.pruned[node]
            best = max(hidden, key=lambda member: _number(self.nodes.score[member]))
            return Line(guides, "pruned", f"{len(hidden)} pruned, best {self.label(best)}", self._drafter(best),
                        prob(self.q[best]))
        q = "" if node in self.row else prob(self.q[node])
        return Line(guides, self.fates[node], self.label(node), self._drafter(node), q, prob(self.p.get(node)),
                    f"{self.rank[node] + 1}" if node in self.rank else "",
                    "" if self.u.get(node) is None else level(self.u[node]), self._score(node))

    def label(self, node: int) -> str:
        return label(self.pieces.get(self.nodes.token[node]))

    def _drafter(self, node: int) -> str:
        words = [self._name(self.nodes.origin[node])]
        if node in self.also:
            words.append(f"also {self._name(self.also[node])}")
        if node in self.row:
            words.append(f"row {self.row[node] + 1}")
        if node in self.grafted:
            words.append("grafted")
        return ", ".join(words)

    def _name(self, drafter: int) -> str:
        return visible(self.names.get(drafter, f"drafter {drafter}"))

    def _score(self, node: int) -> str:
        """Before and after rescoring."""
        return " \u2192 ".join(map(bare_score, self.rescored[node])) if node in self.rescored else ""


def _number(score: int | None) -> float:
    return -math.inf if score is None else score
