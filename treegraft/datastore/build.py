"""Make a datastore: read texts as tokens and sort their suffixes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pydivsufsort import divsufsort
from transformers import PreTrainedTokenizerBase

from treegraft.datastore.files import MAX_TOKENS, DatastoreError, StoreInfo, save
from treegraft.models.tokenizer import vocabulary_hash

MAX_BYTES = 1 << 29
"""Of all texts together."""

PIECE = 1 << 18
"""Characters, and the rest of a line, that are tokenised at once."""

LONGEST_REST = 1 << 22
"""Characters of a line's rest: a text may be a single line, and a tokenizer takes many times the memory of its text."""

Progress = Callable[[str, float | None], None]


def make(texts: Sequence[Path], tokenizer: PreTrainedTokenizerBase, vocab_size: int, target: str, out: Path,
         command: str = "", progress: Progress = lambda stage, fraction: None) -> StoreInfo:
    """Write the datastore of these text files into the folder `out`, for a target with this tokenizer and so many
    embedding rows. Returns what it holds.

    The suffixes are sorted by libdivsufsort. Errors: `DatastoreError`.
    """
    kind = np.uint16 if vocab_size <= np.iinfo(np.uint16).max else np.uint32
    parts, count, read, total = [], 0, 0, size_of(texts)
    for path in texts:
        for piece in pieces(path):
            ids = tokenise(tokenizer, piece)
            parts.append(np.minimum(ids, np.iinfo(kind).max).astype(kind))
            count, read = count + len(ids), read + len(piece.encode())
            if count + len(texts) > MAX_TOKENS:
                raise DatastoreError(f"The texts have more than {MAX_TOKENS} tokens, which one datastore cannot hold. "
                                     "Give fewer or shorter ones.")
            progress(f"reading {path.name}", min(1.0, read / total))
        parts.append(np.array([np.iinfo(kind).max], kind))
    if not count:
        raise DatastoreError("The texts are empty. Give files with some text.")
    tokens = np.concatenate(parts)
    progress("sorting the suffixes", None)
    suffixes = divsufsort(tokens).astype(np.int32)
    info = StoreInfo(
        target=target, vocab_size=vocab_size, vocabulary=vocabulary_hash(tokenizer, vocab_size), texts=len(texts),
        tokens=len(tokens), created=datetime.now(UTC).isoformat(timespec="seconds"), command=command,
        sha256=hashlib.sha256(tokens.tobytes()).hexdigest())
    progress("writing", None)
    save(tokens, suffixes, info, out)
    return info


def size_of(texts: Sequence[Path]) -> int:
    """Bytes of all texts. Errors: `DatastoreError` where one cannot be read or they are too long."""
    total = 0
    for path in texts:
        try:
            if not path.is_file():
                raise DatastoreError(f"There is no text file {path}.")
            total += path.stat().st_size
        except OSError as error:
            raise DatastoreError(f"{path} cannot be read: {error.strerror}.") from None
    if total > MAX_BYTES:
        raise DatastoreError(f"The texts have {total} bytes; allowed: {MAX_BYTES} together. Give fewer or shorter "
                             "ones.")
    return max(1, total)


def pieces(path: Path) -> Iterator[str]:
    """A text file in pieces that end with a line, a very long one in several. Errors: `DatastoreError` for a file that
    is not UTF-8 text."""
    try:
        with path.open(encoding="utf-8") as file:
            while piece := file.read(PIECE) + file.readline(LONGEST_REST):
                yield piece
    except UnicodeDecodeError as error:
        raise DatastoreError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}. Convert it, or leave it "
                             "out.") from None
    except OSError as error:
        raise DatastoreError(f"{path} cannot be read: {error.strerror}.") from None


def tokenise(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of a text, however many the model could read at once."""
    return tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
