"""A run in words and tables for others: a Markdown summary for a bug report, its rounds, its statistics, a round's
tree."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from treegraft.analysis.inspection import broken
from treegraft.analysis.metrics import Summary, as_dict, by_group, summary
from treegraft.analysis.text import RUNNING_TEXT, visible
from treegraft.notes import Note
from treegraft.trace.runs import Run, TracedRound
from treegraft.view.acceptance import decoding_line
from treegraft.view.explain import Explainer
from treegraft.view.export import harmless
from treegraft.view.labels import label, name
from treegraft.view.model import cut, prompt_text
from treegraft.view.words import render

if TYPE_CHECKING:
    from treegraft.trace.records import Header

TEXT_LENGTH = 20_000
"""Longest prompt and output in a summary, in characters."""

BROKEN_ROUNDS = 20
"""Rounds whose broken invariants a summary lists."""


def rounds_csv(run: Run) -> str:
    """One row a round, the columns of `trace.rounds_frame`, texts escaped and harmless to spreadsheets."""
    return run.rounds_frame().map(_plain).to_csv(index=False)


def _plain(cell: object) -> object:
    return harmless(visible(cell)) if isinstance(cell, str) else cell


def statistics_json(run: Run) -> str:
    """The numbers of `treegraft stats --json` for one run."""
    groups = {group: as_dict(counts) for group, counts in by_group([run]).items()}
    return json.dumps({"all": as_dict(summary(run)), "groups": groups}, indent=2)


def round_graphml(round: TracedRound) -> bytes:
    """The tree of a round as GraphML; nodes carry the columns of `trace.nodes_frame`, token texts are escaped."""
    import networkx

    graph = round.to_networkx()
    for _, columns in graph.nodes(data=True):
        columns["piece"] = visible(columns["piece"])
    out = BytesIO()
    networkx.write_graphml(graph, out)
    return out.getvalue()


# --- the summary ----------------------------------------------------------------------------------------------------


def markdown_summary(run: Run, trace: str, number: int | None = None, node: int | None = None, *,
                     notes: Sequence[Note] = (), texts: bool = True) -> str:
    """What somebody needs to know who looks into a problem: how the run was made, its numbers, round `number` with
    `node`, invariants that do not hold, `notes`. Without `texts` neither prompt nor output nor notes are in it.

    Whatever the trace says stands in code, so that nothing in it formats, links or loads anything.
    """
    parts = [f"# treegraft: {code(trace)}", *_made(run.header), *_numbers(run)]
    if number is not None and run.rounds:
        parts += _round(run.rounds[number], node, texts)
    parts += _invariants(run)
    if texts:
        parts += ["## Prompt", fenced(prompt_text(run)), "## Output", fenced(run.text)]
        if notes:
            parts += ["## Notes", _list(_place(note) + f": {code(note.text)}" for note in notes)]
    return "\n\n".join(parts) + "\n"


def code(text: str) -> str:
    """Text as inline code, on one line: longer ticks around it than any inside."""
    text = visible(text) or " "
    ticks = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks} {text} {ticks}" if "`" in text else f"`{text}`"


def fenced(text: str) -> str:
    """Running text as a block of code, cut to a bounded length."""
    text = cut(visible(text, keep=RUNNING_TEXT), TEXT_LENGTH)
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{ticks}text\n{text}\n{ticks}"


def _list(lines: Iterator[str] | Sequence[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _made(header: Header) -> list[str]:
    target, decoding, host = header.target, header.decoding, header.host
    settings = ", ".join(f"{setting}={value}" for setting, value in header.policy.settings.items())
    lines = [
        f"Target: {code(target.name)} {code(target.revision) if target.revision else ''}".rstrip()
        + f", {code(target.dtype)} on {code(target.device)}, vocabulary {target.vocab_size}, context limit "
          f"{target.context_limit}",
        *(f"Drafter {drafter.id}: {code(drafter.name)}, kind {code(drafter.kind)}" + (
            f", proposes {drafter.proposes} tokens" if drafter.proposes else "") for drafter in header.drafters),
        f"Policy: {code(header.policy.name)}, settings {code(settings)}",
        f"Decoding: {code(decoding_line(decoding))}, at most {decoding.max_new_tokens} new tokens, "
        f"{decoding.max_context} tokens of context",
        f"Recorded: {code(header.created)}, level {header.level}, schema {header.schema}",
        f"Machine: {code(host.machine)} {code(host.accelerator) if host.accelerator else ''}".rstrip()
        + f", {host.threads} threads",
        f"Versions: treegraft {code(host.treegraft)}, Python {code(host.python)}, torch {code(host.torch)}, "
        f"transformers {code(host.transformers)}"]
    return ["## How it was made", _list(lines)]


def _numbers(run: Run) -> list[str]:
    counts: Summary = summary(run)
    end = run.end
    lines = [
        f"{counts.rounds} rounds, {counts.tokens} tokens, {counts.accepted} of {counts.drafted} verified drafted "
        f"tokens accepted, {counts.discarded} tokens discarded after the end",
        f"tau {_number(counts.tau)} (bonus counted), mean accepted {_number(counts.mean_accepted)}, "
        f"{counts.rejected_rounds} rounds with nothing accepted, {counts.undrafted_rounds} with nothing drafted",
        f"Measured: {_number(counts.speed.tokens_per_second)} tokens/s, {_number(counts.speedup)} times plain decoding",
        f"Ended by: {code(end.reason)}, status {code(end.status)}" if end else "It has no end: it was interrupted",
        *(f"Note: {code(note)} ({times})" for note, times in counts.notes.items()),
        *(f"This recording contradicts itself: {code(problem)}" for problem in counts.broken)]
    return ["## Numbers", _list(lines)]


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.2f}"


def _round(round: TracedRound, node: int | None, texts: bool) -> list[str]:
    record, explain = round.record, Explainer(round)
    times = ", ".join(f"{name(phase)} {time / 1000:.1f} ms" for phase, time in record.times.items())
    caches = ", ".join(f"{'target' if model < 0 else f'drafter {model}'} {held}" for model, held in record.kv.items())
    lines = [
        f"Context {record.context} (root counted), root token {record.root}, bonus token {explain.accept.bonus}",
        f"{len(record.nodes.token) - 1} nodes drafted, {len(explain.kept)} verified, {len(explain.accept.path)} "
        f"accepted, rule {code(explain.accept.rule)}",
        f"Times (measured): {code(times or 'not recorded')}",
        f"KV caches after it: {code(caches or 'not recorded')}",
        *([f"Note: {code(record.note)}"] if record.note else [])]
    if texts:
        sentences = [explain.summary(), *(explain.event(event) for event in explain.events)]
        lines += [code(_said(round, sentence)) for sentence in sentences]
    if node is not None and 0 <= node < len(record.nodes.token):
        lines.append(f"Node {node}: token {record.nodes.token[node]}, parent {record.nodes.parent[node]}, fate "
                     f"{round.fates[node]}")
        lines += [code(_said(round, sentence)) for sentence in explain.node(node)] if texts else []
    return [f"## Round {round.index}", _list(lines)]


def _said(round: TracedRound, sentence) -> str:
    drafters = {drafter.id: name(drafter.name or drafter.kind) for drafter in round.run.header.drafters}
    return render(sentence, lambda token: label(round.run.pieces.get(token)),
                  lambda drafter: drafters.get(drafter, f"drafter {drafter}"))


def _invariants(run: Run) -> list[str]:
    """Which rounds break which invariants; they are checked in all rounds."""
    wrong = broken(run)
    if not wrong:
        return ["## Invariants", f"All that could be checked hold in all {len(run.rounds)} rounds: mask, positions, "
                                 "numbering, KV caches."]
    lines = [f"Round {index}: {code(check.name)} does not hold: {code(check.numbers)}"
             for index, check in wrong[:BROKEN_ROUNDS]]
    return ["## Invariants that do not hold", _list(lines),
            *([f"{len(wrong) - BROKEN_ROUNDS} more are left out."] if len(wrong) > BROKEN_ROUNDS else [])]


def _place(note: Note) -> str:
    parts = [f"run {note.run}, round {note.round}"]
    parts += [f"event {note.event}"] if note.event is not None else []
    parts += [f"node {note.node}"] if note.node is not None else []
    return ", ".join(parts)
