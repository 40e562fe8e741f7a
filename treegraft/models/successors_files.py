"""Warmed-up successor rows as files: `successors.safetensors` holds them, `successors.json` says whose they are."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as pack_tensors

from treegraft.drafters.successors import EMPTY, MAX_VOCAB, WIDTH, Rows
from treegraft.models.errors import LoadError
from treegraft.models.tokenizer import vocabulary_hash

if TYPE_CHECKING:
    from treegraft.models.loader import TargetModel

TENSORS, DESCRIPTION = "successors.safetensors", "successors.json"
LARGEST = {TENSORS: 4 * MAX_VOCAB * (1 + WIDTH) + (1 << 16), DESCRIPTION: 1 << 16}
"""Bytes that a file may have: a row for every token there can be, and a page of text."""

AGAIN = "Make one with `treegraft warm --target TARGET --out FOLDER`."

Text = Annotated[str, Meta(max_length=4096)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class MatrixInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `successors.json` holds.

    `target` and `revision` name the model whose next tokens the rows are; `vocabulary` is the hash of its tokens and
    their ids. The rows are from `positions` positions of `texts` texts. `sha256` is that of the other file.
    """

    target: Text
    revision: Text
    vocab_size: Count
    vocabulary: Hash
    k: Count
    rows: Count
    texts: Count
    positions: Count
    created: Text
    command: Text
    sha256: Hash


def is_matrix(given: str | Path) -> bool:
    """Whether a folder holds warmed-up rows."""
    try:
        return Path(os.path.expanduser(given), DESCRIPTION).is_file()
    except OSError:  # a name that is too long, or a folder that may not be read
        return False


# --- writing --------------------------------------------------------------------------------------------------------


def save(rows: Rows, target: TargetModel, folder: Path, *, texts: int, positions: int, command: str) -> None:
    """Write the rows that `target` gave into `folder`, which is made; both files or none. Errors: `LoadError`."""
    tensors = pack_tensors({"tokens": rows.tokens, "successors": rows.successors})
    info = MatrixInfo(
        target=target.name, revision=target.revision, vocab_size=target.vocab_size,
        vocabulary=vocabulary_hash(target.tokenizer, target.vocab_size),
        k=WIDTH, rows=len(rows), texts=texts, positions=positions, command=command,
        created=datetime.now(UTC).isoformat(timespec="seconds"), sha256=hashlib.sha256(tensors).hexdigest())
    contents = {TENSORS: tensors, DESCRIPTION: msgspec.json.format(msgspec.json.encode(info)) + b"\n"}
    parts = {name: folder / f".{name}.part" for name in contents}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            parts[name].write_bytes(content)
        for name, part in parts.items():
            part.replace(folder / name)
    except OSError as error:
        raise LoadError(f"The rows could not be written into {folder}: {error.strerror}. Give a folder that can be "
                        "written.") from None
    finally:
        if folder.is_dir():
            for part in parts.values():
                part.unlink(missing_ok=True)


# --- reading --------------------------------------------------------------------------------------------------------


def load(given: str | Path, target: TargetModel) -> Rows:
    """The rows in a folder, which must be those of `target`. Errors: `LoadError`."""
    folder = Path(os.path.expanduser(given))
    info, packed = read_info(folder), read_file(folder, TENSORS)
    check_target(folder, info, target)
    if hashlib.sha256(packed).hexdigest() != info.sha256:
        raise LoadError(f"{TENSORS} in {folder} is not the file that {DESCRIPTION} was written for. {AGAIN}")
    try:
        tensors = read_tensors(packed)
    except (SafetensorError, ValueError, KeyError) as error:  # KeyError: a type of number that NumPy does not have
        raise LoadError(f"{folder / TENSORS} is no safetensors file that NumPy can read: {error}. {AGAIN}") from None
    return checked_rows(folder, tensors, min(target.vocab_size, MAX_VOCAB))


def read_file(folder: Path, name: str) -> bytes:
    """A file of the folder. Errors: `LoadError` where it cannot be read or is too large."""
    path = folder / name
    try:
        size = path.stat().st_size
        if size > LARGEST[name]:
            raise LoadError(f"{path} has {size} bytes; allowed: {LARGEST[name]}.")
        return path.read_bytes()
    except OSError as error:
        raise LoadError(f"There are no successor rows in {folder}: {name} cannot be read ({error.strerror}). "
                        f"{AGAIN}") from None


def read_info(folder: Path) -> MatrixInfo:
    """What `successors.json` says. Errors: `LoadError`."""
    try:
        return msgspec.json.decode(read_file(folder, DESCRIPTION), type=MatrixInfo)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LoadError(f"{folder / DESCRIPTION} does not describe successor rows: {error}. {AGAIN}") from None


def check_target(folder: Path, info: MatrixInfo, target: TargetModel) -> None:
    """Errors: `LoadError` for the rows of another target."""
    why = ""
    if (info.vocab_size, info.vocabulary) != (target.vocab_size, vocabulary_hash(target.tokenizer, target.vocab_size)):
        why = f", whose {info.vocab_size} tokens are not the {target.vocab_size} of {target.name}"
    elif info.target != target.name:
        why = f", and the target is {target.name}"
    if why:
        raise LoadError(f"The successor rows in {folder} are those of {info.target}{why}. Use them with their own "
                        f"target, or make others with `treegraft warm --target {target.name} --out FOLDER`.")


def checked_rows(folder: Path, tensors: dict[str, np.ndarray], vocab: int) -> Rows:
    """The rows in the file's tensors. Errors: `LoadError` where they are not rows of `vocab` tokens."""
    tokens, successors = (tensors.get(name, np.zeros(0)) for name in ("tokens", "successors"))
    shaped = tokens.ndim == 1 and successors.shape == (len(tokens), WIDTH)
    if not shaped or tokens.dtype != np.int32 or successors.dtype != np.int32:
        raise LoadError(f"{folder / TENSORS} needs tokens [rows] and successors [rows, {WIDTH}] of type int32. {AGAIN}")
    rising = (np.diff(tokens) > 0).all() and ((tokens >= 0) & (tokens < vocab)).all()
    known = (successors >= 0) & (successors < vocab)
    ends = (known | (successors == EMPTY)).all() and known[:, :1].all() and not (known[:, 1:] & ~known[:, :-1]).any()
    ordered = np.sort(successors, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != EMPTY)
    if not (rising and ends) or twice.any():
        raise LoadError(f"{folder / TENSORS} holds rows that are not of one target: tokens rise from 0 to {vocab - 1}, "
                        f"and a row has different ones of them, then {EMPTY}. {AGAIN}")
    return Rows(tokens, successors)
