"""Datastores as folders: `tokens.npy` and `suffixes.npy`, read where they lie, described by `datastore.json`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from tokenize import TokenError
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from treegraft.datastore.store import Store
from treegraft.models.errors import LoadError, ModelError

TOKENS, SUFFIXES, DESCRIPTION = "tokens.npy", "suffixes.npy", "datastore.json"
MAX_DESCRIPTION = 1 << 16
"""Bytes of `datastore.json`."""

MAX_TOKENS = 1 << 26
"""Of one datastore: sorting its suffixes takes some 1.5 GB of memory."""

BAD_ARRAY = (OSError, EOFError, ValueError, SyntaxError, TokenError, OverflowError, MemoryError, RecursionError)
"""What NumPy raises for files that are none: it reads their headers as Python."""

AGAIN = "Make one with `treegraft datastore TEXT --target TARGET --out FOLDER`."

Text = Annotated[str, Meta(max_length=4096)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class DatastoreError(ModelError):
    """A datastore that cannot be made; nothing is written then."""


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What `datastore.json` holds.

    `target` names the model whose `vocab_size` tokens these are, `vocabulary` is the hash of its tokens and their ids.
    The store has `tokens` tokens, the ends of its `texts` texts counted; `sha256` is the hash of them.
    """

    target: Text
    vocab_size: Count
    vocabulary: Hash
    texts: Count
    tokens: Annotated[int, Meta(ge=1, le=MAX_TOKENS)]
    created: Text
    command: Text
    sha256: Hash

    @property
    def identity(self) -> str:
        return f"{self.tokens} tokens of {self.texts} texts, sha256 {self.sha256[:8]}"


def is_store(given: str | Path) -> bool:
    """Whether a folder holds a datastore."""
    try:
        return Path(os.path.expanduser(given), DESCRIPTION).is_file()
    except OSError:  # a name that is too long, or a folder that may not be read
        return False


# --- writing --------------------------------------------------------------------------------------------------------


def check_place(folder: Path, replace: bool) -> None:
    """Errors: `DatastoreError` where a new datastore cannot go into `folder`; `replace` allows that an old one goes."""
    try:
        if folder.is_dir() and any(folder.iterdir()) and not (replace and is_store(folder)):
            advice = "give --force to replace it, or another --out" if is_store(folder) else "give a new folder"
            raise DatastoreError(f"--out was {folder}, which is not empty; {advice}.")
        if folder.exists() and not folder.is_dir():
            raise DatastoreError(f"--out was {folder}, which is no folder; give a new one.")
        if not folder.absolute().parent.is_dir():
            raise DatastoreError(f"--out was {folder}, but there is no folder {folder.parent}.")
        if not os.access(folder.absolute().parent, os.W_OK):
            raise DatastoreError(f"--out was {folder}, but {folder.absolute().parent} cannot be written into.")
    except OSError as error:
        raise DatastoreError(f"--out was {folder}, which cannot be written: {error.strerror}.") from None


def save(tokens: np.ndarray, suffixes: np.ndarray, info: StoreInfo, folder: Path) -> None:
    """Write a datastore into `folder`, whole or not at all; an old one there is replaced. Errors: `DatastoreError`."""
    part, old = (folder.with_name(f".{folder.name}.{kind}-{os.getpid()}") for kind in ("part", "old"))
    try:
        part.mkdir()
        np.save(part / TOKENS, tokens)
        np.save(part / SUFFIXES, suffixes)
        (part / DESCRIPTION).write_bytes(msgspec.json.format(msgspec.json.encode(info)) + b"\n")
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
    except OSError as error:
        raise DatastoreError(f"The datastore could not be written into {folder}: {error.strerror}. Give a folder that "
                             "can be written.") from None
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        for left_over in (part, old):
            shutil.rmtree(left_over, ignore_errors=True)


# --- reading --------------------------------------------------------------------------------------------------------


def load(given: str | Path, target: str, vocab_size: int, vocabulary: str) -> Store:
    """The datastore in a folder, which must be of the tokens of `target`: so many, with this hash. It stays on disk.

    Errors: `LoadError`.
    """
    folder = Path(os.path.expanduser(given))
    info = read_info(folder)
    if (info.vocab_size, info.vocabulary) != (vocab_size, vocabulary):
        raise LoadError(f"The datastore {folder} was made for {info.target}, whose {info.vocab_size} tokens are not "
                        f"the {vocab_size} of {target}. Make another with `treegraft datastore TEXT --target {target} "
                        "--out FOLDER`.")
    tokens, suffixes = (read_array(folder / name, kinds, info.tokens)
                        for name, kinds in ((TOKENS, ("uint16", "uint32")), (SUFFIXES, ("int32",))))
    return Store(tokens, suffixes, info.identity)


def read_info(folder: Path) -> StoreInfo:
    """What `datastore.json` says. Errors: `LoadError`."""
    path = folder / DESCRIPTION
    try:
        if path.stat().st_size > MAX_DESCRIPTION:
            raise LoadError(f"{path} has {path.stat().st_size} bytes; allowed: {MAX_DESCRIPTION}.")
        return msgspec.json.decode(path.read_bytes(), type=StoreInfo)
    except OSError as error:
        raise LoadError(f"There is no datastore in {folder}: {DESCRIPTION} cannot be read ({error.strerror}). "
                        f"{AGAIN}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LoadError(f"{path} does not describe a datastore: {error}. {AGAIN}") from None


def read_array(path: Path, kinds: tuple[str, ...], length: int) -> np.ndarray:
    """An array of a datastore, mapped into memory. Errors: `LoadError` for one of another type or length."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except BAD_ARRAY as error:
        raise LoadError(f"{path} is no array file that NumPy can map: {error}. {AGAIN}") from None
    if not isinstance(found, np.ndarray) or found.shape != (length,) or found.dtype.name not in kinds:
        raise LoadError(f"{path} must hold {length} numbers of type {' or '.join(kinds)}, in one row. {AGAIN}")
    return np.asarray(found)
