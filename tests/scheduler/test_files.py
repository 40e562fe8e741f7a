"""A scheduler comes back as it was written, and what is none is refused in plain words."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as pack_tensors
from safetensors.torch import save as pack_torch

from tests.scheduler.examples import random_scheduler
from treegraft.scheduler.features import FEATURES
from treegraft.scheduler.files import (
    DESCRIPTION,
    LARGEST,
    TENSORS,
    SchedulerError,
    bundled,
    describe,
    load,
    restore,
    save,
)


@pytest.fixture
def folder(tmp_path):
    save(random_scheduler(), tmp_path / "saved")
    return tmp_path / "saved"


def change(folder, **tensors):
    """Put other tensors into the file; None leaves one out."""
    found = read_tensors((folder / TENSORS).read_bytes()) | tensors
    (folder / TENSORS).write_bytes(pack_tensors({name: found[name] for name in found if found[name] is not None}))


def test_a_scheduler_comes_back_as_it_was(folder):
    written, found = random_scheduler(), load(folder)
    seen = np.random.default_rng(1).normal(size=(20, len(FEATURES)))
    assert np.array_equal(found.margins(seen), written.margins(seen))
    assert (found.name, found.provenance) == (written.name, written.provenance)
    assert sorted(path.name for path in folder.iterdir()) == [DESCRIPTION, TENSORS]


def test_a_traces_header_holds_all_of_it():
    written = random_scheduler()
    info = describe(written)
    seen = np.random.default_rng(1).normal(size=(20, len(FEATURES)))
    assert np.array_equal(restore(info).margins(seen), written.margins(seen))
    description = json.loads(json.dumps(info.description))
    assert description["features"] == list(FEATURES)
    assert description["mean"] == written.mean.tolist()
    assert description["margin"]["unit"] == "milliseconds that a call saves"


def test_a_folder_without_a_scheduler(tmp_path):
    with pytest.raises(SchedulerError, match=r"There is no scheduler in .*distill-scheduler"):
        load(tmp_path)


@pytest.mark.parametrize("name", [DESCRIPTION, TENSORS])
def test_a_file_that_is_missing_or_too_large(folder, name):
    (folder / name).write_bytes(bytes(LARGEST + 1))
    with pytest.raises(SchedulerError, match=f"{name} has {LARGEST + 1} bytes"):
        load(folder)
    (folder / name).unlink()
    with pytest.raises(SchedulerError, match=f"{name} cannot be read"):
        load(folder)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_description_that_is_not_json(folder, content):
    (folder / DESCRIPTION).write_bytes(content)
    with pytest.raises(SchedulerError, match="is not JSON"):
        load(folder)


@pytest.mark.parametrize("content", [
    [], 3, None, {}, {"features": 3}, {"features": list(FEATURES[:-1])}, {"features": list(reversed(FEATURES))}])
def test_other_features(folder, content):
    (folder / DESCRIPTION).write_text(json.dumps(content))
    with pytest.raises(SchedulerError, match="other features than this version"):
        load(folder)


@pytest.mark.parametrize("cut", [0, 7, 100, -1])
def test_a_damaged_network(folder, cut):
    (folder / TENSORS).write_bytes((folder / TENSORS).read_bytes()[:cut])
    with pytest.raises(SchedulerError, match="no safetensors file"):
        load(folder)


@pytest.mark.parametrize(("name", "tensor"), [
    ("weight_1", np.zeros((64, 16))), ("weight_2", np.zeros((64, 32))), ("bias_3", np.zeros(2)), ("std", np.zeros(16)),
    ("margin", np.zeros(1)), ("margin", None), ("mean", np.full(17, np.nan)), ("bias_1", np.full(64, np.inf)),
    ("bias_1", np.zeros(64, np.int64)), ("bias_1", np.zeros(64, bool))])
def test_a_network_of_another_shape_or_kind(folder, name, tensor):
    change(folder, **{name: tensor})
    with pytest.raises(SchedulerError, match=rf"needs {name} as finite decimal numbers of shape \["):
        load(folder)


@pytest.mark.parametrize(("name", "tensor"), [("std", np.full(17, -1.0)), ("margin", np.array([0.0, -2.0]))])
def test_a_scale_that_would_turn_decisions_around(folder, name, tensor):
    change(folder, **{name: tensor})
    with pytest.raises(SchedulerError, match="negative standard deviation"):
        load(folder)


def test_numbers_that_numpy_does_not_have(folder):
    tensors = read_tensors((folder / TENSORS).read_bytes())
    half = {name: torch.from_numpy(tensor).bfloat16() for name, tensor in tensors.items()}
    (folder / TENSORS).write_bytes(pack_torch(half))
    with pytest.raises(SchedulerError, match="no safetensors file that NumPy can read"):
        load(folder)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SchedulerError, match="could not be written"):
        save(random_scheduler(), tmp_path / "file")


@pytest.mark.parametrize("pair", [("..", "a", "b"), ("a/b", "c", "d"), ("no such", "lookup", "strong")])
def test_names_that_have_no_bundled_scheduler(pair):
    assert bundled(*pair) is None
