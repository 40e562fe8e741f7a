"""`treegraft datastore` with a tiny target, and what is drafted from it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import treegraft as tg
from tests.datastore.test_build import TEXTS, written
from tests.models import tokenizers_of
from tests.models.tiny_folders import save_llama
from treegraft import cli
from treegraft.datastore import build
from treegraft.datastore.files import read_info
from treegraft.models.errors import LoadError
from treegraft.models.pairs import DrafterSpec
from treegraft.policies import Rest


def treegraft(*arguments) -> Result:
    return CliRunner().invoke(cli.app, list(map(str, arguments)), env={"COLUMNS": "200"})


def refused(*arguments) -> str:
    """What the command says where it ends with one line and code 2."""
    result = treegraft(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def store(target) -> Path:
    """A datastore that the command made."""
    folder = target.parent / "texts"
    result = treegraft("datastore", *written(target.parent), "--target", target, "--out", folder)
    assert result.exit_code == 0, result.output
    assert f"tokens of 3 texts. Draft from it with `--policy rest --drafter {folder}`." in result.stdout
    return folder


def test_the_store_says_whose_tokens_it_has(store):
    info = read_info(store)
    assert (info.target, info.vocab_size, info.texts) == ("tiny", 400, len(TEXTS))


def test_it_is_recognised_among_drafters_and_drafts(target, store):
    pair = tg.load(target, [str(store)], device="cpu", dtype="float32")
    drafter = pair.drafters["texts"]
    assert (drafter.name, drafter.label, drafter.vocab) == ("datastore", "texts", 400)
    assert pair.compatibility["texts"].details == f"holds {drafter.memory}"
    run = tg.record(pair, "the dog and the", Rest(budget=7), max_new_tokens=12, raw=True).run
    assert run.output == tg.record(pair, "the dog and the", tg.Plain(), max_new_tokens=12, raw=True).run.output
    info = run.header.drafters[0]
    assert (info.kind, info.memory) == ("datastore", drafter.memory)


def test_settings_reach_the_drafter(target, store):
    spec = DrafterSpec("datastore", store, {"longest": 4})
    assert tg.load(target, {"mine": spec}, device="cpu", dtype="float32").drafters["mine"].longest == 4


def test_the_store_of_another_target_is_refused(target, store, tmp_path):
    other = save_llama(tmp_path / "other", tokenizers_of.byte_level(320))
    with pytest.raises(LoadError, match="was made for tiny, whose 400 tokens are not the 320 of other"):
        tg.load(other, [str(store)], device="cpu", dtype="float32")


def test_a_kind_without_its_folder_is_refused(target):
    with pytest.raises(LoadError, match="Drafter datastore needs weights"):
        tg.load(target, ["datastore"], device="cpu", dtype="float32")


def test_an_existing_folder_is_only_replaced_with_force(target, store, tmp_path):
    out, text = tmp_path / "store", written(tmp_path, {"new.txt": "one two three"})[0]
    shutil.copytree(store, out)
    assert "is not empty; give --force to replace it" in refused("datastore", text, "--target", target, "--out", out)
    assert read_info(out) == read_info(store)
    assert treegraft("datastore", text, "--target", target, "--out", out, "--force").exit_code == 0
    assert read_info(out).texts == 1


def test_what_is_no_datastore_is_never_replaced(target, tmp_path):
    text = written(tmp_path, {"new.txt": "one two three"})[0]
    assert "which is not empty; give a new folder" in refused(
        "datastore", text, "--target", target, "--out", tmp_path, "--force")
    assert "is no folder" in refused("datastore", text, "--target", target, "--out", text)
    assert "there is no folder" in refused("datastore", text, "--target", target, "--out", tmp_path / "none" / "here")


def test_mistakes_end_with_one_line(target, tmp_path):
    out = tmp_path / "store"
    assert "There is no text file" in refused("datastore", tmp_path / "none.txt", "--target", target, "--out", out)
    assert "Did you mean 'smollm2'?" in refused("datastore", tmp_path / "none.txt", "--target", "smolm2", "--out", out)


def test_ctrl_c_leaves_nothing(target, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(build, "divsufsort", interrupt)
    result = treegraft("datastore", *written(tmp_path), "--target", target, "--out", tmp_path / "store")
    assert (result.exit_code, result.stderr) == (130, "interrupted: nothing was written.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(TEXTS)
