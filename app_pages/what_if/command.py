"""The command that records a run again with other settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from treegraft.analysis.text import visible
from treegraft.trace.records import Header

LONGEST = 400
"""Characters of a prompt that stand in a command."""


def command(header: Header, changed: Mapping[str, Any], level: str) -> str:
    """The command, with the prompt where it is one short line, else with a place for it."""
    names = {drafter.id: drafter.name for drafter in header.drafters}
    texts = [message.get("content", "") for message in header.prompt.messages or []]
    prompt = texts[0] if len(texts) == 1 and len(texts[0]) <= LONGEST and visible(texts[0]) == texts[0] else "..."
    parts = ["treegraft", "record", "--target", header.target.name, "--policy", header.policy.name]
    for number in header.policy.drafters:
        parts += ["--drafter", names[number]]
    for name, value in ({**header.policy.settings} | changed).items():
        parts += ["--set", f"{name}={value}"]
    parts += ["--max-new-tokens", str(header.decoding.max_new_tokens), "--level", level,
              "--prompt", prompt, "--out", "again.jsonl.zst"]
    return visible(shlex.join(parts))
