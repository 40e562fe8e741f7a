"""Settings that are lists: written as JSON, or in a JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from treegraft.settings import SettingError

MOST_BYTES = 65_536
"""Most that the file of a list may have."""


def with_files_read(values: Mapping[str, str], name: str) -> dict[str, str]:
    """Typed settings, the list of the file in place of its path where the setting `name` is one.

    So a trace holds the list itself, and opening a trace opens no other file. Errors: `SettingError`.
    """
    typed = values.get(name, "")
    return dict(values) | ({name: read_list(typed, name)} if typed.lower().endswith(".json") else {})


def read_list(path: str, name: str) -> str:
    """The JSON list in a file, as text on one line. Errors: `SettingError`."""
    file = Path(path)
    if not file.is_file():
        raise SettingError(f"{name} names the file {path}, which is not there.")
    if file.stat().st_size > MOST_BYTES:
        raise SettingError(f"{path} has {file.stat().st_size} bytes; a list for {name} has at most {MOST_BYTES}.")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} cannot be read as text: {error}") from None
    return json.dumps(parse_list(text, f"{name} in {path}", "a JSON list"))


def parse_list(text: str, name: str, allowed: str) -> list:
    """The list that `text` holds as JSON. Errors: `SettingError`, which says what is `allowed`."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        where = f" ({error.msg} in line {error.lineno})" if text.lstrip().startswith("[") else ""
        raise SettingError(f"{name} was {shortened(text)}{where}; allowed: {allowed}.") from None
    except (ValueError, RecursionError):
        raise SettingError(f"{name} has brackets or numbers beyond all bounds; allowed: {allowed}.") from None
    if not isinstance(found, list):
        raise SettingError(f"{name} was {shortened(text)}; allowed: {allowed}.")
    return found


def shortened(text: str) -> str:
    """A value for an error's text, in quotes."""
    return repr(text if len(text) <= 60 else text[:57] + "...")
