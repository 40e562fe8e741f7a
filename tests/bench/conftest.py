"""A tiny pair on disk, loaded as a user's own models are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.tiny_folders import save_llama
from tests.models.tokenizers_of import byte_level
from treegraft.models import Pair, load

TEMPLATE = "{% for message in messages %}<s>{{ message.content }}</s>{% endfor %}"


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A target, and a drafter with the same weights."""
    place = tmp_path_factory.mktemp("models")
    tokenizer = byte_level(chat_template=TEMPLATE)
    sizes = {"max_position_embeddings": 512}
    return save_llama(place / "target", tokenizer, **sizes), save_llama(place / "small", tokenizer, **sizes)


@pytest.fixture(scope="session")
def tiny_pair(folders) -> Pair:
    target, drafter = map(str, folders)
    return load(target, ["lookup", drafter], dtype="float32", device="cpu")
