"""A list of prompts for a talk, from a file that somebody drops in."""

from __future__ import annotations

import tempfile
from pathlib import Path, PurePath

from treegraft.prompts import MAX_CHARACTERS, Prompt, PromptError, bundled, load

MOST_PROMPTS = 200
"""Prompts in a list; more cannot be shown in one talk."""

FILE_MEGABYTES = 2


def opening_list() -> list[Prompt]:
    """The first bundled prompt of each category."""
    first: dict[str, Prompt] = {}
    for prompt in bundled():
        first.setdefault(prompt.category, prompt)
    return list(first.values())


def read_list(name: str, data: bytes) -> list[Prompt]:
    """The prompts of a file: `.txt` has one on each line, `.json` and `.jsonl` are as `prompts.load` reads them.

    Errors: `PromptError`; it speaks of the file by its name.
    """
    name = PurePath(name.replace("\\", "/")).name
    if len(data) > FILE_MEGABYTES << 20:
        raise PromptError(f"{name}: larger than {FILE_MEGABYTES} MB, the most that a list of prompts may be.")
    prompts = lines_of(name, data) if name.lower().endswith(".txt") else loaded(name, data)
    if not prompts:
        raise PromptError(f"{name}: no prompt in it. Write one on each line.")
    if len(prompts) > MOST_PROMPTS:
        raise PromptError(f"{name}: {len(prompts)} prompts; a list holds at most {MOST_PROMPTS}. Split the file.")
    return prompts


def lines_of(name: str, data: bytes) -> list[Prompt]:
    try:
        lines = [line.strip() for line in data.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise PromptError(f"{name}: not UTF-8; save the file as UTF-8 text.") from None
    if too_long := next((number for number, line in enumerate(lines, 1) if len(line) > MAX_CHARACTERS), None):
        raise PromptError(f"{name}, line {too_long}: longer than {MAX_CHARACTERS} characters.")
    return [Prompt(id=f"{name}:{number}", turns=(line,)) for number, line in enumerate(lines, 1) if line]


def loaded(name: str, data: bytes) -> list[Prompt]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"list{PurePath(name).suffix}")
        path.write_bytes(data)
        try:
            return load(path)
        except PromptError as error:
            raise PromptError(str(error).replace(str(path), name)) from None
