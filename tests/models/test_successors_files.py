"""Successor rows on disk: what is written comes back, for its own target alone, and nothing else is read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from tests.models import tokenizers_of
from tests.models.tiny_folders import save_llama
from treegraft.drafters.successors import EMPTY, WIDTH, Rows
from treegraft.models import load, successors_files
from treegraft.models.errors import LoadError
from treegraft.models.pairs import DrafterSpec
from treegraft.models.successors_files import DESCRIPTION, TENSORS, is_matrix, save

FACTS = {"texts": 2, "positions": 30, "command": "treegraft warm"}


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "big")


@pytest.fixture(scope="module")
def target(place):
    return load(place, device="cpu", dtype="float32").target


def made(tokens, successors) -> Rows:
    return Rows(np.array(tokens, np.int32), np.array(successors, np.int32).reshape(-1, WIDTH))


ROWS = made([3, 8, 399], [[5, 6, 7, 8, 9, 10, 11, 12], [3, *[EMPTY] * 7], [0, 399, *[EMPTY] * 6]])


@pytest.fixture
def folder(target, tmp_path) -> Path:
    save(ROWS, target, tmp_path / "rows", **FACTS)
    return tmp_path / "rows"


def rewrite(folder: Path, tensors: dict[str, np.ndarray]) -> None:
    """Put other tensors into the folder, as if its description had been written for them."""
    save_file(tensors, folder / TENSORS)
    description = json.loads((folder / DESCRIPTION).read_text())
    description["sha256"] = hashlib.sha256((folder / TENSORS).read_bytes()).hexdigest()
    (folder / DESCRIPTION).write_text(json.dumps(description))


def test_rows_come_back_as_they_were(folder, target):
    again = successors_files.load(folder, target)
    assert np.array_equal(again.tokens, ROWS.tokens)
    assert np.array_equal(again.successors, ROWS.successors)
    assert again.fingerprint == ROWS.fingerprint
    assert sorted(path.name for path in folder.iterdir()) == [DESCRIPTION, TENSORS]
    said = json.loads((folder / DESCRIPTION).read_text())
    assert (said["target"], said["vocab_size"], said["k"], said["rows"], said["texts"]) == ("big", 400, WIDTH, 3, 2)


def test_no_rows_at_all_come_back_too(target, tmp_path):
    save(Rows(), target, tmp_path / "rows", **FACTS)
    assert len(successors_files.load(tmp_path / "rows", target)) == 0


def test_a_pair_finds_them_by_their_folder(place, folder):
    pair = load(place, [str(folder), "successors"], device="cpu", dtype="float32")
    warm, cold = pair.drafters["rows"], pair.drafters["successors"]
    assert (warm.name, warm.label, warm.memory) == ("successors", "rows", f"3 rows, sha256 {ROWS.fingerprint[:8]}")
    assert (cold.label, cold.memory) == ("successors", "")
    assert "3 rows to start from" in pair.compatibility["rows"].details


def test_settings_and_names_of_ones_own(place, folder):
    specs = {"mine": DrafterSpec("successors", folder, {"learn": "committed"})}
    drafter = load(place, specs, device="cpu", dtype="float32").drafters["mine"]
    assert (drafter.label, drafter.learn, drafter.state, len(drafter.start)) == ("mine", "committed", "context", 3)


def test_tokens_that_another_drafter_lacks_are_not_proposed(target, tmp_path):
    tokens = len(tokenizers_of.byte_level())
    wide = save_llama(tmp_path / "wide", rows=tokens + 8)
    save(made([3], [[tokens + 1, 4, *[EMPTY] * 6]]), load(wide, device="cpu").target, tmp_path / "rows", **FACTS)
    small = save_llama(tmp_path / "small")
    pair = load(wide, [str(tmp_path / "rows"), str(small)], device="cpu", dtype="float32")
    assert pair.drafters["rows"].vocab == tokens


# --- refusals -------------------------------------------------------------------------------------------------------


def refused(folder, target) -> str:
    with pytest.raises(LoadError) as caught:
        successors_files.load(folder, target)
    assert "treegraft warm" in str(caught.value) or "allowed" in str(caught.value)
    return str(caught.value)


def test_rows_of_another_target_are_refused(folder, tmp_path):
    other = load(save_llama(tmp_path / "other", seed=3), device="cpu").target
    assert "are those of big, and the target is other" in refused(folder, other)


@pytest.mark.parametrize("changes", [{"tokenizer": tokenizers_of.sentencepiece()}, {"rows": 448}],
                         ids=["tokens", "rows"])
def test_rows_of_other_tokens_are_refused_whatever_the_name(folder, tmp_path, changes):
    other = load(save_llama(tmp_path / "x" / "big", **changes), device="cpu").target
    assert "whose 400 tokens are not the" in refused(folder, other)


@pytest.mark.parametrize("name", [TENSORS, DESCRIPTION])
def test_a_file_that_is_missing_or_too_large_is_refused(folder, target, name, monkeypatch):
    monkeypatch.setitem(successors_files.LARGEST, name, 10)
    assert f"{name} has" in refused(folder, target)
    (folder / name).unlink()
    assert f"{name} cannot be read" in refused(folder, target)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"target": "big"}', "[" * 5000])
def test_a_description_that_is_none_is_refused(folder, target, text):
    (folder / DESCRIPTION).write_text(text)
    assert "does not describe successor rows" in refused(folder, target)


@pytest.mark.parametrize("change", [{"vocab_size": -1}, {"sha256": "x"}, {"rows": "many"}, {"target": "a" * 5000}])
def test_fields_of_the_description_are_checked(folder, target, change):
    path = folder / DESCRIPTION
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert "does not describe successor rows" in refused(folder, target)


def test_files_that_do_not_belong_together_are_refused(folder, target, tmp_path):
    save(made([4], [range(8)]), target, tmp_path / "others", **FACTS)
    (tmp_path / "others" / TENSORS).replace(folder / TENSORS)
    assert "is not the file" in refused(folder, target)


def test_bytes_that_are_no_tensors_are_refused(folder, target):
    rewrite(folder, {})
    (folder / TENSORS).write_bytes(b"nonsense")
    description = json.loads((folder / DESCRIPTION).read_text())
    description["sha256"] = hashlib.sha256(b"nonsense").hexdigest()
    (folder / DESCRIPTION).write_text(json.dumps(description))
    assert "is no safetensors file" in refused(folder, target)


FULL = list(range(WIDTH))


@pytest.mark.parametrize(("tokens", "successors"), [
    ([-1], [FULL]), ([400], [FULL]), ([3, 3], [FULL, FULL]), ([4, 3], [FULL, FULL]),
    ([3], [[*FULL[:-1], 400]]), ([3], [[*FULL[:-1], -2]]), ([3], [[EMPTY] * WIDTH]),
    ([3], [[1, EMPTY, 2, *[EMPTY] * 5]]), ([3], [[1, 1, *[EMPTY] * 6]])], ids=str)
def test_rows_that_are_none_are_refused(folder, target, tokens, successors):
    rewrite(folder, vars(made(tokens, successors)))
    assert "holds rows that are not of one target" in refused(folder, target)


@pytest.mark.parametrize("tensors", [
    {}, {"tokens": np.zeros(1, np.int32)}, {"tokens": np.zeros(1), "successors": np.zeros((1, WIDTH), np.int32)},
    {"tokens": np.zeros(1, np.int32), "successors": np.zeros((1, WIDTH - 1), np.int32)},
    {"tokens": np.zeros(2, np.int32), "successors": np.zeros((1, WIDTH), np.int32)}], ids=range(5))
def test_tensors_of_another_shape_or_type_are_refused(folder, target, tensors):
    rewrite(folder, tensors)
    assert "needs tokens [rows] and successors [rows, 8] of type int32" in refused(folder, target)


def test_a_folder_that_cannot_be_written_is_named(target, tmp_path):
    (tmp_path / "file").write_text("here")
    with pytest.raises(LoadError, match="could not be written"):
        save(ROWS, target, tmp_path / "file" / "rows", **FACTS)


def test_a_failure_in_the_middle_leaves_no_parts(folder, target, monkeypatch):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    write, calls = Path.write_bytes, []

    def failing(path, content):
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return write(path, content)

    monkeypatch.setattr(Path, "write_bytes", failing)
    with pytest.raises(KeyboardInterrupt):
        save(made([4], [FULL]), target, folder, **FACTS)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_other_folders_are_no_rows(tmp_path):
    assert not is_matrix(tmp_path)
    assert not is_matrix("a" * 5000)
    assert not is_matrix("owner/name")
