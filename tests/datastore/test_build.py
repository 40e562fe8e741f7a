"""Datastores of text files: the suffix array, what is refused, and that nothing is left half-written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.models import tokenizers_of
from treegraft.datastore import build, files
from treegraft.datastore.build import make
from treegraft.datastore.files import DatastoreError, is_store, load, read_info
from treegraft.models.errors import LoadError
from treegraft.models.tokenizer import vocabulary_hash

TEXTS = {"a.txt": "the dog and the fox\nthe dog and the cat\n", "b.txt": "the dog\n", "c.txt": "the fox and the dog"}


def written(folder: Path, texts=None) -> list[Path]:
    for name, text in (texts or TEXTS).items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts or TEXTS]


def made(folder: Path, texts=None, name: str = "store", **options):
    tokenizer = tokenizers_of.byte_level()
    return make(written(folder, texts), tokenizer, len(tokenizer), "tiny", folder / name, **options)


def loaded(folder: Path, name: str = "store"):
    tokenizer = tokenizers_of.byte_level()
    return load(folder / name, "tiny", len(tokenizer), vocabulary_hash(tokenizer, len(tokenizer)))


def damaged(folder: Path, **changes) -> None:
    """Change what datastore.json says."""
    path = folder / "store" / files.DESCRIPTION
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@given(arrays.arrays(np.uint16, st.integers(1, 60), elements=st.sampled_from([0, 1, 255, 256, 300, 65535])))
@settings(deadline=None)
def test_the_suffixes_are_in_order(tokens):
    expected = sorted(range(len(tokens)), key=lambda start: tokens[start:].tolist())
    assert build.divsufsort(tokens).tolist() == expected
    assert build.divsufsort(tokens.astype(np.uint32)).tolist() == expected


def test_a_store_holds_the_texts_each_with_an_end(tmp_path):
    tokenizer, info = tokenizers_of.byte_level(), made(tmp_path, command="treegraft datastore")
    store, end = loaded(tmp_path), np.iinfo(np.uint16).max
    ends = np.flatnonzero(store.tokens == end)
    texts = [tokenizer.decode(part[part != end]) for part in np.split(store.tokens, ends + 1)[:-1]]
    assert texts == list(TEXTS.values())
    assert (info.texts, info.tokens, info.target) == (3, len(store.tokens), "tiny")
    assert store.suffixes.tolist() == sorted(range(info.tokens), key=lambda start: store.tokens[start:].tolist())
    assert store.identity == f"{info.tokens} tokens of 3 texts, sha256 {info.sha256[:8]}"
    assert read_info(tmp_path / "store") == info
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt", "c.txt", "store"]


def test_pieces_of_a_text_end_with_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "PIECE", 5)
    made(tmp_path)
    monkeypatch.undo()
    made(tmp_path, name="whole")
    assert loaded(tmp_path).tokens.tolist() == loaded(tmp_path, "whole").tokens.tolist()


def test_a_very_long_line_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "PIECE", 5)
    monkeypatch.setattr(build, "LONGEST_REST", 3)
    (tmp_path / "line.txt").write_text("0123456789abcdefghi\nj")
    assert list(build.pieces(tmp_path / "line.txt")) == ["01234567", "89abcdef", "ghi\nj"]


@pytest.mark.parametrize("header", [b"{'descr': '<i4', 'fortran_order': False, 'shape': (%d,)}" % 2**70, b"(" * 118])
def test_array_files_whose_header_is_a_trap_are_refused(tmp_path, header):
    made(tmp_path)
    (tmp_path / "store" / files.SUFFIXES).write_bytes(b"\x93NUMPY\x01\x00v\x00" + header.ljust(118))
    with pytest.raises(LoadError, match="no array file"):
        loaded(tmp_path)


def test_large_vocabularies_take_wider_numbers(tmp_path):
    tokenizer = tokenizers_of.byte_level()
    make(written(tmp_path), tokenizer, 70_000, "tiny", tmp_path / "store")
    store = load(tmp_path / "store", "tiny", 70_000, vocabulary_hash(tokenizer, 70_000))
    assert (store.tokens.dtype, store.tokens[-1]) == (np.uint32, 2**32 - 1)


@pytest.mark.parametrize(("text", "complaint"), [
    (b"\xff\xfe", "bad.txt is not UTF-8 text: invalid start byte at byte 0"), (b"", "The texts are empty"),
    (b"x" * 200, "The texts have 200 bytes; allowed: 100 together"), (b"a b c d e f g", "more than 4 tokens")])
def test_texts_that_make_no_store(tmp_path, monkeypatch, text, complaint):
    monkeypatch.setattr(build, "MAX_BYTES", 100)
    monkeypatch.setattr(build, "MAX_TOKENS", 4)
    (tmp_path / "bad.txt").write_bytes(text)
    with pytest.raises(DatastoreError, match=complaint):
        make([tmp_path / "bad.txt"], tokenizers_of.byte_level(), 400, "tiny", tmp_path / "store")
    assert [path.name for path in tmp_path.iterdir()] == ["bad.txt"]


def test_a_text_that_is_not_there(tmp_path):
    with pytest.raises(DatastoreError, match=r"There is no text file .*none\.txt"):
        make([tmp_path / "none.txt"], tokenizers_of.byte_level(), 400, "tiny", tmp_path / "store")


@pytest.mark.parametrize("broken", ["tokenise", "divsufsort"])
@pytest.mark.parametrize("force", [False, True])
def test_an_interrupt_leaves_what_was_there(tmp_path, monkeypatch, broken, force):
    before = made(tmp_path) if force else None

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, broken, interrupt)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, {"a.txt": "other"})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*TEXTS, "store"] if force else ["a.txt"])
    assert not force or read_info(tmp_path / "store") == before


@pytest.mark.parametrize("broken", ["save", "rename"])
def test_an_interrupted_write_leaves_what_was_there(tmp_path, monkeypatch, broken):
    before = made(tmp_path)
    place, rename, calls = (np, None, []) if broken == "save" else (Path, Path.rename, [])

    def interrupt(*arguments):
        calls.append(arguments)
        if broken == "save" or len(calls) == 2:
            raise KeyboardInterrupt
        return rename(*arguments)

    monkeypatch.setattr(place, broken, interrupt)
    with pytest.raises(KeyboardInterrupt):
        made(tmp_path, {"a.txt": "other"})
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*TEXTS, "store"])
    assert read_info(tmp_path / "store") == before


def test_a_store_is_replaced_whole(tmp_path):
    made(tmp_path)
    info = made(tmp_path, {"a.txt": "other"})
    assert read_info(tmp_path / "store") == info
    assert len(loaded(tmp_path).tokens) == info.tokens


def test_a_disk_that_refuses_is_named(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(DatastoreError, match=r"could not be written into .*store: No space left on device"):
        made(tmp_path)
    assert not (tmp_path / "store").exists()


def test_the_store_of_another_tokenizer_is_refused(tmp_path):
    made(tmp_path)
    other = tokenizers_of.byte_level(320)
    with pytest.raises(LoadError, match="was made for tiny, whose 400 tokens are not the 320 of other"):
        load(tmp_path / "store", "other", 320, vocabulary_hash(other, 320))


@pytest.mark.parametrize(("name", "content", "complaint"), [
    (files.DESCRIPTION, b"{", "does not describe a datastore"), (files.DESCRIPTION, b"{}", "missing required field"),
    (files.DESCRIPTION, b"[" * 100_000, "has 100000 bytes; allowed: 65536"),
    (files.TOKENS, b"nothing", "is no array file"), (files.SUFFIXES, b"", "is no array file"),
    (files.TOKENS, None, "is no array file")])
def test_damaged_files_are_refused(tmp_path, name, content, complaint):
    made(tmp_path)
    path = tmp_path / "store" / name
    path.write_bytes(path.read_bytes()[:-1] if content is None else content)
    with pytest.raises(LoadError, match=complaint):
        loaded(tmp_path)


@pytest.mark.parametrize("array", [np.zeros(3, np.uint16), np.zeros((2, 2), np.int32), np.zeros(9, np.float32),
                                   np.array([object()])])
def test_arrays_that_do_not_fit_are_refused(tmp_path, array):
    made(tmp_path)
    np.save(tmp_path / "store" / files.SUFFIXES, array, allow_pickle=True)
    with pytest.raises(LoadError, match=r"of type int32|no array file"):
        loaded(tmp_path)


def test_absurd_sizes_are_refused(tmp_path):
    made(tmp_path)
    damaged(tmp_path, tokens=1 << 40)
    with pytest.raises(LoadError, match="does not describe a datastore"):
        loaded(tmp_path)


def test_a_folder_without_a_store(tmp_path):
    assert not is_store(tmp_path)
    assert not is_store("x" * 5000)
    with pytest.raises(LoadError, match=r"There is no datastore in .*treegraft datastore TEXT"):
        loaded(tmp_path, "none")
