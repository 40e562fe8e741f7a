"""The model card of a distilled drafter: what it is, what it was made from, how, and how good it is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from treegraft.distill.data import Example
from treegraft.distill.train import Outcome, Recipe, Validation

CARD = "README.md"


@dataclass(frozen=True)
class Corpus:
    """The text that a drafter learned from."""

    path: Path
    sha256: str
    conversations: int
    answer_tokens: int


def describe_corpus(path: Path, examples: Sequence[Example]) -> Corpus:
    """The facts on a corpus file and the examples read from it."""
    with path.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return Corpus(path, sha256, len(examples), sum(len(example) - example.prompt for example in examples))


def write_card(folder: Path, target: str, kind: str, what: str, corpus: Corpus, recipe: Recipe, outcome: Outcome,
               command: str, start: str) -> None:
    """Write `README.md` beside the weights. `what` is a sentence on the drafter, `start` on its first weights."""
    best, done = outcome.best, outcome.progress
    lines = [
        f"# {folder.name}", "", f"A `{kind}` drafter for {target}. {what}", "", "## Made by", "", "```bash", command,
        "```", "", f"- Data: {corpus.path.name}, {corpus.conversations:,} conversations with {corpus.answer_tokens:,} "
        f"answer tokens that the target wrote; sha256 `{corpus.sha256}`.",
        f"- Start: {start}",
        f"- Training: {done.step} of {done.steps} steps, {done.tokens:,} tokens seen (prompts counted), ended: "
        f"{outcome.reason}. The weights are those of step {best.step}.",
        f"- Settings: {', '.join(f'{name} {value}' for name, value in asdict(recipe).items())}.", "",
        f"## On {recipe.held_out} held-out conversations", "", *table(best)]
    if best.tau is not None:
        lines += ["", f"tau of a short greedy decode (bonus counted): {best.tau:.2f}."]
    lines += ["", "All validations are in `training/history.jsonl`."]
    (folder / CARD).write_text("\n".join(lines) + "\n")


def table(found: Validation) -> list[str]:
    """The agreement with the target as a Markdown table, a row an unroll step."""
    rows = zip(found.kl, found.top1, found.top5, strict=True)
    return ["| step | KL (nats) | same favourite | favourite among best 5 |", "|---|---|---|---|",
            *(f"| {place} | {kl:.3f} | {top1:.1%} | {top5:.1%} |" for place, (kl, top1, top5) in enumerate(rows, 1))]
