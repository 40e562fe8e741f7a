"""The command that records a run again with other settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from treegraft.analysis.text import visible
from treegraft.trace.records import DrafterInfo, Header

LONGEST = 400
"""Characters of a prompt that stand in a command."""

ESCAPES = {"\\": r"\\", "'": r"\'", "\n": r"\n", "\r": r"\r", "\t": r"\t"}


def command(header: Header, changed: Mapping[str, Any], level: str) -> str:
    """The command for a recording that can be replayed, with the prompt where it is one short line, else with a place
    for it."""
    known = {drafter.id: drafter for drafter in header.drafters}
    drafters = [known[number] for number in header.policy.drafters]
    texts = [message.get("content", "") for message in header.prompt.messages or []]
    prompt = texts[0] if len(texts) == 1 and len(texts[0]) <= LONGEST and visible(texts[0]) == texts[0] else "..."
    parts = ["treegraft", "record", "--target", header.target.name, "--policy", header.policy.name]
    for drafter in drafters:
        parts += ["--drafter", drafter.name]
    settings = {**header.policy.settings} | changed
    for drafter in drafters:
        settings |= {f"{drafter.name}.{name}": value for name, value in replayable(drafter).items()}
    for name, value in settings.items():
        parts += ["--set", f"{name}={value}"]
    if header.target.dtype:
        parts += ["--dtype", header.target.dtype]
    for text in header.decoding.stop:
        parts += ["--stop", text]
    parts += ["--max-new-tokens", str(header.decoding.max_new_tokens), "--level", level,
              "--prompt", prompt, "--out", "again.jsonl.zst"]
    return " ".join(map(quoted, parts))


def replayable(drafter: DrafterInfo) -> dict[str, Any]:
    """The drafter's settings; one that would propose by what earlier rounds verified learns accepted tokens alone."""
    return drafter.settings | ({"learn": "committed"} if "learn" in drafter.settings else {})


def quoted(text: str) -> str:
    """The text as one word for bash and zsh, with escapes for what cannot be seen."""
    if visible(text) == text:
        return shlex.quote(text)
    letters = (ESCAPES.get(letter, letter if visible(letter) == letter else f"\\U{ord(letter):08x}") for letter in text)
    return f"$'{''.join(letters)}'"
