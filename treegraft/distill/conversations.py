"""Corpora: conversations that a target wrote with itself, one JSON object a line, plain or in zstd frames.

A line holds `question_ids` (the user's turn, token ids without the template's markers), the `temperature` of the
answer, and `answer_ids`, which end with an end token unless the answer was cut.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, BinaryIO, NamedTuple
from weakref import WeakKeyDictionary

import msgspec
import zstandard
from transformers import PreTrainedTokenizerBase

from treegraft.distill.errors import DistillError
from treegraft.models.tokenizer import encode_prompt

MAX_TURN = 1 << 16
MAX_LINE = 1 << 20
MAX_CONVERSATIONS = 1_000_000
MAX_TOKENS = 1 << 26
"""The largest corpus: tokens in a turn, bytes in a line, conversations, and tokens in all of them."""

MAGIC = b"\x28\xb5\x2f\xfd"
MAX_WINDOW = 8 << 20
LEVEL = 9
"""Zstd: the first bytes of a frame, the memory that unpacking one may take, and how hard ours are packed."""

PLACEHOLDER = "Question"
"""Stands for the user's words where a chat template is taken apart."""

Turn = Annotated[list[Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]], msgspec.Meta(min_length=1, max_length=MAX_TURN)]


class CorpusError(DistillError):
    """A corpus that cannot be read or made; the text says what was given, what is allowed and what to do."""


class Conversation(msgspec.Struct, frozen=True):
    """A question and its answer as token ids; `temperature` is the answer's, 0 for greedy."""

    question_ids: Turn
    temperature: Annotated[float, msgspec.Meta(ge=0, le=100)]
    answer_ids: Turn


# --- reading --------------------------------------------------------------------------------------------------------


def read_conversations(path: Path, vocab_size: int, limit: int | None = None) -> list[Conversation]:
    """The first `limit` conversations (default: all) of a `.jsonl` or `.jsonl.zst` file, in order.

    A last line that was cut, as by a crash, is left out. Errors: `CorpusError` for a file that cannot be read or holds
    anything else, tokens beyond `vocab_size` included; it names the file, the line and the field.
    """
    found = list(islice(conversations_in(path, vocab_size), limit))
    if not found and limit != 0:
        raise CorpusError(f"{path}: no conversation in it. `treegraft distill corpus` makes a corpus.")
    return found


def conversations_in(path: Path, vocab_size: int) -> Iterator[Conversation]:
    """The conversations of a file, which may have none; see `read_conversations`."""
    tokens = 0
    for number, line in enumerate(lines(path), start=1):
        if was_cut(line):
            return
        conversation = parse(line, vocab_size, f"{path}, line {number}")
        tokens += len(conversation.question_ids) + len(conversation.answer_ids)
        if number > MAX_CONVERSATIONS or tokens > MAX_TOKENS:
            raise CorpusError(f"{path}: more than {MAX_CONVERSATIONS} conversations or {MAX_TOKENS} tokens, the most "
                              "that a corpus may have. Read a part of it, by its number of conversations.")
        yield conversation


def lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, with their newlines. Errors: `CorpusError`."""
    try:
        file = path.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CorpusError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}.") from None
    with file:
        try:
            text = unpacking(file) if file.peek(len(MAGIC)).startswith(MAGIC) else file
            while line := text.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE:
                    raise CorpusError(f"{path}: a line of more than {MAX_LINE >> 20} MiB; this is no corpus.")
                yield line
        except zstandard.ZstdError as error:
            raise CorpusError(f"{path}: cannot be unpacked ({error}). Get a fresh copy, or pack the text again with a "
                              f"window of at most {MAX_WINDOW >> 20} MiB (`zstd -19` or less).") from None


def unpacking(file: BinaryIO) -> io.BufferedReader:
    """The text of all zstd frames of a file, unpacked as it is read."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    return io.BufferedReader(unpacker.stream_reader(file, read_across_frames=True))


def was_cut(line: bytes) -> bool:
    """Whether a line ends in the middle. One that only lacks its newline does not."""
    return not line.endswith((b"\n", b"}"))


def parse(line: bytes, vocab_size: int, where: str) -> Conversation:
    """The conversation of a line. Errors: `CorpusError`."""
    try:
        conversation = msgspec.json.decode(line, type=Conversation)
    except msgspec.ValidationError as error:
        raise CorpusError(f"{where}: {error}.") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise CorpusError(f"{where}: not a JSON object of question_ids, temperature and answer_ids: {error}.") from None
    for field in ("question_ids", "answer_ids"):
        largest = max(getattr(conversation, field))
        if largest >= vocab_size:
            raise CorpusError(f"{where}: {field} holds token {largest}; allowed: 0 to {vocab_size - 1}, the target's "
                              "tokens. Use a corpus that this target wrote.")
    return conversation


# --- writing --------------------------------------------------------------------------------------------------------


def pack(conversations: Sequence[Conversation], path: Path) -> bytes:
    """The lines of some conversations as `path` keeps them: one zstd frame, or plain text."""
    text = b"".join(msgspec.json.encode(conversation) + b"\n" for conversation in conversations)
    if path.name.endswith(".zst"):
        return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(text)
    return text


def append(path: Path, conversations: Sequence[Conversation]) -> None:
    """Add conversations to the end of a file, all of them or none. Errors: `CorpusError`."""
    with naming_failures(path):
        path.touch()
        start = path.stat().st_size
        try:
            with path.open("ab") as file:
                file.write(pack(conversations, path))
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            os.truncate(path, start)
            raise


def rewrite(path: Path, conversations: Sequence[Conversation], chunk: int) -> None:
    """Replace a file by one of these conversations, packed `chunk` at a time, or leave it as it is.

    Errors: `CorpusError`.
    """
    scratch = path.with_name(f"{path.name}.part")
    with naming_failures(path):
        try:
            with scratch.open("wb") as file:
                for start in range(0, len(conversations), chunk):
                    file.write(pack(conversations[start:start + chunk], path))
            scratch.replace(path)
        finally:
            scratch.unlink(missing_ok=True)


@contextmanager
def naming_failures(path: Path) -> Iterator[None]:
    """Say which file cannot be written."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CorpusError(f"{path}: cannot be written: {getattr(error, 'strerror', error)}. What it held is still "
                          "there.") from None


# --- the chat template ----------------------------------------------------------------------------------------------


class Template(NamedTuple):
    """The token ids that a target's chat template, with its default system message, puts around a user's words."""

    head: list[int]
    tail: list[int]


def render(conversation: Conversation, tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], int]:
    """Token ids of a whole conversation, and how many of them are the prompt: the template's ids around the question's.

    Errors: `CorpusError` where the tokenizer has no chat template that can be taken apart.
    """
    template = template_of(tokenizer)
    prompt = [*template.head, *conversation.question_ids, *template.tail]
    return prompt + conversation.answer_ids, len(prompt)


def template_of(tokenizer: PreTrainedTokenizerBase) -> Template:
    """The template of a tokenizer, remembered. Errors: see `render`."""
    if tokenizer not in _templates:
        head, _, tail = split_prompt(tokenizer, PLACEHOLDER)
        _templates[tokenizer] = Template(head, tail)
    return _templates[tokenizer]


_templates: WeakKeyDictionary[PreTrainedTokenizerBase, Template] = WeakKeyDictionary()


def split_prompt(tokenizer: PreTrainedTokenizerBase, words: str) -> tuple[list[int], list[int], list[int]]:
    """The tokens of a prompt before a user's `words`, of the words, and after them.

    A token across the first border, such as a space with a word behind it, belongs to the words. Errors: see `render`.
    """
    if not tokenizer.chat_template:
        raise CorpusError("The target has no chat template, so it cannot be asked for a user's turn. Use its "
                          "instruction-tuned version, or a folder whose tokenizer has a chat_template.")
    if not tokenizer.is_fast:
        raise CorpusError(f"The target's tokenizer ({type(tokenizer).__name__}) does not say where in the text its "
                          "tokens lie. Use a folder with a tokenizer.json.")
    _, text = encode_prompt(tokenizer, words)
    start = text.rfind(words)
    if start < 0:
        raise CorpusError("The target's chat template does not repeat the user's words as they are, so a corpus cannot "
                          "be made with it. Use a target whose template does.")
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    before = sum(stop <= start for _, stop in encoded["offset_mapping"])
    after = sum(begin >= start + len(words) for begin, _ in encoded["offset_mapping"])
    ids = encoded["input_ids"]
    return ids[:before], ids[before:len(ids) - after], ids[len(ids) - after:]
