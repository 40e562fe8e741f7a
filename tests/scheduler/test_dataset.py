"""Data sets are checked, come back from their file as they were, and are split by prompt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.scheduler.examples import rows, ruled
from treegraft.scheduler import dataset
from treegraft.scheduler.dataset import COLUMNS, Dataset, DatasetError
from treegraft.scheduler.features import FEATURES


def columns(made: Dataset) -> dict[str, np.ndarray]:
    return {name: getattr(made, name) for name in COLUMNS}


def same(one: Dataset, other: Dataset) -> bool:
    return one.impossible == other.impossible and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in COLUMNS)


# --- what may be in one ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("column", "wrong", "words"), [
    ("prompt", np.zeros(5, int), r"prompt has shape \[5\].*whole numbers of shape \[6\]"),
    ("features", np.zeros((6, 16)), r"features has shape \[6, 16\].*decimal numbers of shape \[6, 17\]"),
    ("margin", np.zeros((6, 1)), r"margin has shape \[6, 1\]"),
    ("margin", np.zeros(6, int), "margin has .* type int64; needed: decimal numbers"),
    ("position", np.zeros(6), "position has .* type float64; needed: whole numbers"),
    ("margin", np.full(6, np.nan), "margin holds numbers that are not finite"),
    ("features", np.full((6, 17), np.inf), "features holds numbers that are not finite"),
    ("depth", np.arange(6), "depth holds 0; layers are numbered from 1")])
def test_columns_that_do_not_fit(column, wrong, words):
    with pytest.raises(DatasetError, match=words):
        Dataset(**columns(rows(2, 3)) | {column: wrong})


def test_one_number_is_no_column():
    with pytest.raises(DatasetError, match="margin has shape"):
        Dataset(**columns(rows(1, 1)) | {"margin": np.array(1.0)})


def test_parts_are_put_together():
    first, second = ruled(2, 3), ruled(4, 3, seed=1)
    whole = Dataset.concatenate([first, second])
    assert (len(whole), whole.impossible) == (18, 8)
    assert whole.margin.tolist() == [*first.margin.tolist(), *second.margin.tolist()]
    with pytest.raises(DatasetError, match="no data set"):
        Dataset.concatenate([])


# --- the split ------------------------------------------------------------------------------------------------------


@given(prompts=st.integers(2, 12), each=st.integers(1, 5), share=st.floats(0, 1), seed=st.integers(0, 99))
def test_a_split_never_shares_a_prompt(prompts, each, share, seed):
    whole = rows(prompts, each)
    rest, held = whole.split(share, seed)
    assert not set(rest.prompt.tolist()) & set(held.prompt.tolist())
    assert len(rest) > 0
    assert len(rest) + len(held) == len(whole)
    assert len(set(held.prompt.tolist())) == min(max(1, round(share * prompts)), prompts - 1)
    assert same(whole.split(share, seed)[1], held)


def test_seeds_split_differently():
    whole = rows(50, 1)
    assert not same(whole.split(0.3, 0)[1], whole.split(0.3, 1)[1])


@pytest.mark.parametrize("prompts", [0, 1])
def test_a_split_needs_two_prompts(prompts):
    with pytest.raises(DatasetError, match=f"rows of {prompts} prompts, .*treegraft values"):
        rows(prompts, 3).split(0.5, 0)


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompts", [0, 3])
def test_a_data_set_comes_back_as_it_was(tmp_path, prompts):
    written = ruled(prompts, 5)
    written.save(tmp_path / "rows.npz")
    assert same(Dataset.load(tmp_path / "rows.npz"), written)
    assert [path.name for path in tmp_path.iterdir()] == ["rows.npz"]


def test_an_interrupted_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "rows.npz"
    ruled(3, 5).save(path)
    before = path.read_bytes()

    def full(file, **arrays):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(dataset.np, "savez_compressed", full)
    with pytest.raises(DatasetError, match=r"could not be written: No space left"):
        ruled(4, 5).save(path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["rows.npz"]


@pytest.mark.parametrize("content", [b"", b"text", bytes(999)])
def test_a_file_that_is_none(tmp_path, content):
    (tmp_path / "rows.npz").write_bytes(content)
    with pytest.raises(DatasetError, match=r"rows\.npz is no data set of decisions"):
        Dataset.load(tmp_path / "rows.npz")


def test_places_without_a_file(tmp_path):
    for path in (tmp_path, tmp_path / "none.npz"):
        with pytest.raises(DatasetError, match=r"cannot be read: .*Give the file that `treegraft values` wrote"):
            Dataset.load(path)


@pytest.mark.parametrize("part", [0.2, 0.5, 0.9])
def test_damaged_files(tmp_path, part):
    path = tmp_path / "rows.npz"
    ruled(3, 50).save(path)
    whole = path.read_bytes()
    place = round(part * len(whole))
    for content in (whole[:place], whole[:place] + bytes(40) + whole[place + 40:]):
        path.write_bytes(content)
        with pytest.raises(DatasetError, match="is no data set"):
            Dataset.load(path)


@pytest.mark.parametrize(("change", "words"), [
    ({"names": np.array(FEATURES[::-1])}, "made for other features"),
    ({"names": np.array(3)}, "made for other features"),
    ({"margin": np.zeros(7)}, "is damaged: prompt has shape"),
    ({"margin": np.array([{}] * 6)}, "is no data set"),
    ({"impossible": np.zeros(2)}, "is damaged"),
    ({"prompt": None}, "is no data set")])
def test_files_with_other_contents(tmp_path, change, words):
    arrays = columns(rows(2, 3)) | {"names": np.array(FEATURES), "impossible": np.array(0)} | change
    path = tmp_path / "rows.npz"
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(DatasetError, match=words):
        Dataset.load(path)


def test_a_file_that_would_fill_the_memory(tmp_path, monkeypatch):
    ruled(3, 50).save(tmp_path / "rows.npz")
    monkeypatch.setattr(dataset, "LARGEST", 1000)
    with pytest.raises(DatasetError, match="at most 1000 are allowed"):
        Dataset.load(tmp_path / "rows.npz")
