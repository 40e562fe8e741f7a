"""The `corpus` step: a file of conversations that a target wrote with itself, made in chunks and resumable.

A chunk has `ROUNDS` conversations for each row and is written when all of it is done; an interrupted one is made anew
from its start. All of its text follows from the seed, its number and the questions before it, so that a resumed run
gives the very file of an uninterrupted one on the same machine, in the same dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from treegraft.distill.author import Author
from treegraft.distill.conversations import (
    MAX_CONVERSATIONS,
    MAX_TURN,
    Conversation,
    CorpusError,
    append,
    conversations_in,
    naming_failures,
    rewrite,
)
from treegraft.models.fetch import Progress
from treegraft.models.loader import TargetModel

ROUNDS = 8
"""Conversations in a chunk, for each row."""

MAX_ROWS = 1024
MAX_SETTINGS = 1 << 16
"""Bytes of a settings file."""


@dataclass(frozen=True)
class CorpusCounts:
    """What a corpus file holds, and how many questions this call `dropped`: unfinished, empty or asked before."""

    conversations: int
    answer_tokens: int
    dropped: int


class Settings(msgspec.Struct, frozen=True):
    """What the text of a corpus follows from. Kept beside it, so that it is resumed with the same."""

    target: str
    revision: str
    seed: int
    rows: int
    max_question: int
    max_answer: int

    @property
    def chunk(self) -> int:
        return ROUNDS * self.rows

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(self).items() if value != "")


def make_corpus(target: TargetModel, out: Path, conversations: int, *, seed: int = 0, rows: int = 32,
                max_question: int = 128, max_answer: int = 256,
                progress: Progress = lambda stage, fraction: None) -> CorpusCounts:
    """Bring a corpus, `.jsonl` or `.jsonl.zst`, to at least `conversations` of a target with itself.

    `rows` texts are decoded side by side. A question has at most `max_question` tokens, an answer `max_answer`.
    Interrupted at any moment, the next call with the same settings goes on from the last whole chunk.

    Errors: `CorpusError` for settings or a file that do not fit, and a target that has no chat template or asks
    nothing; `UnsupportedModel`.
    """
    check(conversations, seed=seed, rows=rows, max_question=max_question, max_answer=max_answer)
    settings = Settings(target.name, target.revision, seed, rows, max_question, max_answer)
    author = Author(target, seed, rows, max_question, max_answer)
    found = resume(out, settings, target.usable_vocab, conversations)
    asked = {tuple(conversation.question_ids) for conversation in found}
    answer_tokens = sum(len(conversation.answer_ids) for conversation in found)
    done, dropped = len(found), 0

    def tell(what: str, begun: int, ended: int) -> None:
        progress(f"{what} {done + begun} of {conversations}", (done + ended) / conversations)

    while done < conversations:
        count = min(settings.chunk, conversations - done)
        drafts, failed = author.ask(done // settings.chunk, count, asked, lambda number: tell("question", number, 0))
        made = author.answer(drafts, lambda number: tell("answer", number, number))
        append(out, made)
        done, dropped = done + count, dropped + failed
        asked |= {tuple(conversation.question_ids) for conversation in made}
        answer_tokens += sum(len(conversation.answer_ids) for conversation in made)
    return CorpusCounts(done, answer_tokens, dropped)


def check(conversations: int, **settings: int) -> None:
    """Errors: `CorpusError` for a number out of range."""
    limits = {"conversations": (1, MAX_CONVERSATIONS), "seed": (0, (1 << 32) - 1), "rows": (1, MAX_ROWS),
              "max_question": (2, MAX_TURN), "max_answer": (1, MAX_TURN)}
    for name, value in {"conversations": conversations, **settings}.items():
        low, high = limits[name]
        if not low <= value <= high:
            raise CorpusError(f"{name} was {value}; allowed: {low} to {high}.")


# --- going on with a file -------------------------------------------------------------------------------------------


def settings_file(out: Path) -> Path:
    """Where the settings of a corpus are kept."""
    return out.with_name(f"{out.name}.settings.json")


def resume(out: Path, settings: Settings, vocab_size: int, wanted: int) -> list[Conversation]:
    """The conversations to keep of a corpus that may have been begun; `out` holds these and no more.

    Errors: `CorpusError` for a name of another kind, and for a file that was not begun with the same settings.
    """
    if not out.name.endswith((".jsonl", ".jsonl.zst")):
        raise CorpusError(f"{out} is no name for a corpus; end it with .jsonl or .jsonl.zst.")
    with naming_failures(out):
        exists = out.exists()
        if not exists:
            settings_file(out).write_bytes(msgspec.json.encode(settings) + b"\n")
    if not exists:
        return []
    begun = read_settings(out)
    if begun != settings:
        raise CorpusError(f"{out} was begun with {begun}; this is {settings}. Give the same settings to go on with it, "
                          "or another file.")
    found = list(conversations_in(out, vocab_size))
    if len(found) < wanted:
        found = found[: len(found) // settings.chunk * settings.chunk]
    rewrite(out, found, settings.chunk)
    return found


def read_settings(out: Path) -> Settings:
    """The settings that a corpus was begun with. Errors: `CorpusError`."""
    path = settings_file(out)
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MAX_SETTINGS), type=Settings)
    except (OSError, msgspec.DecodeError):
        raise CorpusError(f"{out} exists, but no {path.name} that tells how it was made, so it cannot be gone on with. "
                          "Give another file.") from None
