"""Prompts: the bundled set, and files of the user's own, read with bounds and refused with a line that helps."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

FOLDER = Path(__file__).parent.parent / "assets" / "prompts"
BUNDLED = FOLDER / "prompts.jsonl"
"""64 prompts in 8 categories, half of each for tuning, half held out."""
BAR = FOLDER / "bar.json"
"""The 12 prompts that the project's speed figures are measured on."""

MAX_BYTES = 16 << 20
MAX_PROMPTS = 10_000
MAX_CHARACTERS = 200_000
MAX_TURNS = 100

MAX_NAME = 200

Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_CHARACTERS)]
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]


class PromptError(ValueError):
    """A prompt file that cannot be used; the text names the file, the line, and what is allowed."""


@dataclass(frozen=True)
class Prompt:
    """One prompt: the user's `turns`, each asked after the answer to the one before, behind an optional `history`."""

    id: str
    turns: tuple[str, ...]
    history: tuple[dict[str, str], ...] = ()
    category: str = ""
    split: str = ""

    @property
    def group(self) -> str:
        """Name under which its runs are reported together: its category, or itself where it has several turns."""
        return self.category or (self.id if len(self.turns) > 1 else "")

    def conversation(self, answers: Sequence[str] = ()) -> list[dict[str, str]]:
        """The messages that ask turn number `len(answers)`, given the answers to all earlier turns."""
        messages = list(self.history)
        for turn, answer in zip(self.turns, answers, strict=False):
            messages += [{"role": "user", "content": turn}, {"role": "assistant", "content": answer}]
        return [*messages, {"role": "user", "content": self.turns[len(answers)]}]


class Message(msgspec.Struct):
    role: Literal["system", "user", "assistant"]
    content: Text


Messages = Annotated[list[Message], msgspec.Meta(min_length=1, max_length=MAX_TURNS)]


class Row(msgspec.Struct):
    """A prompt as a file writes it, `question.jsonl` of MT-Bench and Spec-Bench included: their `question_id`,
    `category` and `turns`; what else they hold (reference answers) is not read."""

    id: Name | int = ""
    question_id: Name | int = ""
    category: Name = ""
    split: Name = ""
    text: Text | None = None
    messages: Messages | None = None
    turns: Annotated[list[Text], msgspec.Meta(min_length=1, max_length=MAX_TURNS)] | None = None


def load(path: str | Path) -> list[Prompt]:
    """Read a `.txt` (one prompt), `.json` (a list of texts) or `.jsonl` file (a `text`, `messages` or `turns` a line).

    Raises `PromptError` for a file that is missing, too large, of another kind or malformed.
    """
    path = Path(path)
    readers = {".txt": _from_text, ".json": _from_json, ".jsonl": _from_lines}
    if path.suffix.lower() not in readers:
        raise PromptError(f"{path}: prompts are read from .txt (one prompt), .json (a list of texts) and .jsonl files "
                          "(a text, messages or turns on each line).")
    prompts = []
    for prompt in readers[path.suffix.lower()](path):
        if len(prompts) == MAX_PROMPTS:
            raise PromptError(f"{path}: more than {MAX_PROMPTS} prompts; split the file.")
        prompts.append(prompt)
    if not prompts:
        raise PromptError(f"{path}: no prompt in it.")
    return prompts


def load_messages(path: str | Path) -> Prompt:
    """Read one conversation, a JSON list of `{"role": ..., "content": ...}` whose last message is the user's."""
    path = Path(path)
    value = _parse(_read(path), path)
    if isinstance(value, dict) and "messages" in value:
        value = value["messages"]
    return _conversation(_convert(value, Messages, str(path)), id=path.stem, where=str(path))


def bundled(category: str = "", split: str = "") -> list[Prompt]:
    """The bundled prompts, of one category and of one split (`tuning` or `held_out`) if given."""
    return select(load(BUNDLED), category, split, "the bundled prompts")


def select(prompts: Sequence[Prompt], category: str, split: str, where: str) -> list[Prompt]:
    """The prompts of one category and of one split, if given.

    Raises `PromptError` for one that none of the prompts of `where` has.
    """
    for name, value in (("category", category), ("split", split)):
        known = sorted({getattr(prompt, name) for prompt in prompts} - {""})
        if value and value not in known:
            raise PromptError(f"There is no {name} {value!r} among {where}; allowed: {', '.join(known) or 'none'}.")
    found = [prompt for prompt in prompts if category in ("", prompt.category) and split in ("", prompt.split)]
    if not found:
        raise PromptError(f"There is no prompt of category {category!r} and split {split!r} among {where}.")
    return found


def _from_text(path: Path) -> Iterator[Prompt]:
    text = _read(path).rstrip("\r\n")
    if text.strip():
        yield Prompt(id=path.stem, turns=(_convert(text, Text, str(path)),))


def _from_json(path: Path) -> Iterator[Prompt]:
    value = _parse(_read(path), path)
    if not isinstance(value, list):
        raise PromptError(f"{path}: expected a list of texts, got {type(value).__name__}.")
    for number, item in enumerate(value, 1):
        yield _from_row(item, number, f"{path}, item {number}")


def _from_lines(path: Path) -> Iterator[Prompt]:
    number = 0
    for line_number, line in enumerate(_read(path).split("\n"), 1):
        if line.strip():
            number += 1
            yield _from_row(_parse(line, path, line_number), number, f"{path}, line {line_number}")


def _from_row(value: Any, number: int, where: str) -> Prompt:
    if not isinstance(value, str | dict):
        raise PromptError(f"{where}: expected a text, or an object with a text, messages or turns, got "
                          f"{type(value).__name__}.")
    row = Row(text=_convert(value, Text, where)) if isinstance(value, str) else _convert(value, Row, where)
    if sum(part is not None for part in (row.text, row.messages, row.turns)) != 1:
        raise PromptError(f"{where}: give exactly one of text, messages or turns.")
    names = {"id": str(row.id or row.question_id or number), "category": row.category, "split": row.split}
    if row.messages is not None:
        return _conversation(row.messages, where=where, **names)
    return Prompt(turns=tuple(row.turns or [row.text]), **names)


def _conversation(messages: list[Message], where: str, **names: str) -> Prompt:
    if messages[-1].role != "user":
        raise PromptError(f"{where}: the last message must be the user's, it is the {messages[-1].role}'s.")
    history = tuple({"role": message.role, "content": message.content} for message in messages[:-1])
    return Prompt(turns=(messages[-1].content,), history=history, **names)


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PromptError(f"{path}: {error.strerror}.") from None
    if len(data) > MAX_BYTES:
        raise PromptError(f"{path}: larger than {MAX_BYTES >> 20} MB, the most that a prompt file may be.")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise PromptError(f"{path}, line {line}: not UTF-8; save the file as UTF-8 text.") from None


def _parse(text: str, path: Path, line: int = 0) -> Any:
    """JSON in `text`, which is line number `line` of the file, or all of it."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"not JSON: {error.msg}, column {error.colno}"
        raise PromptError(f"{path}, line {line or error.lineno}: {problem}.") from None
    except ValueError as error:  # Python's own limit on the digits of a number
        raise PromptError(f"{path}, line {line or 1}: {error}.") from None
    except RecursionError:
        raise PromptError(f"{path}, line {line or 1}: nested too deeply.") from None


def _convert(value: Any, kind: Any, where: str) -> Any:
    """`value` as `kind`, all of whose texts can be written as UTF-8: JSON may escape half of a letter."""
    try:
        converted = msgspec.convert(value, kind)
        msgspec.json.encode(converted)
    except msgspec.ValidationError as error:
        raise PromptError(f"{where}: {error}.") from None
    except UnicodeEncodeError:
        raise PromptError(f"{where}: not valid text; it holds half of a surrogate pair. Write the whole "
                          "letter.") from None
    return converted
