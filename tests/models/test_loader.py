"""A pair is a target with drafters that speak its tokens; named pairs come whole, others from folders."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    GPTNeoConfig,
    Llama4TextConfig,
    MptConfig,
)

from tests.models import tokenizers_of
from tests.models.tiny_folders import save_gguf, save_llama
from treegraft.datastore.build import make
from treegraft.models import load
from treegraft.models.errors import DeviceError, LoadError
from treegraft.models.pairs import DRAFTERS, FREE_DRAFTERS, PAIRS, DrafterSpec
from treegraft.settings import SettingError

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def target(tmp_path_factory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "big")


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "small", num_hidden_layers=1, seed=1)


def load_tiny(target: Path, drafters=None, **options):
    return load(target, drafters, device="cpu", dtype="float32", **options)


# --- targets --------------------------------------------------------------------------------------------------------


def test_any_folder_is_a_target_for_the_drafters_without_weights(target):
    pair = load_tiny(target)
    assert pair.name == pair.target.name == "big"
    assert list(pair.drafters) == list(FREE_DRAFTERS)
    assert {"lookup", "successors"} <= FREE_DRAFTERS.keys()
    assert (pair.target.context_limit, pair.target.eos_ids) == (128, {2})
    assert (pair.target.dtype, pair.target.device) == (torch.float32, torch.device("cpu"))
    assert pair.target.vocab_size == pair.target.usable_vocab == len(tokenizers_of.byte_level())
    assert pair.target.parameters == sum(p.numel() for p in pair.target.model.parameters())


def test_the_context_can_be_lowered_alone(target):
    assert load_tiny(target, max_context=64).target.context_limit == 64
    for wrong in (1, 129):
        with pytest.raises(LoadError, match="allowed: 2 to 128"):
            load_tiny(target, max_context=wrong)


def test_all_tokens_that_end_a_text_are_known(tmp_path):
    folder = save_llama(tmp_path / "many", eos_token_id=[7, 9])
    assert load_tiny(folder).target.eos_ids == {2, 7, 9}


def test_a_device_that_is_not_there_is_refused_before_anything_is_read():
    with pytest.raises(DeviceError):
        load("/no/such/folder", device="tpu")


def test_a_model_with_recurrent_state_is_refused(tmp_path):
    from transformers import MambaConfig, MambaForCausalLM

    tokenizer = tokenizers_of.byte_level()
    MambaForCausalLM(MambaConfig(vocab_size=len(tokenizer), hidden_size=8, state_size=4, num_hidden_layers=1)
                     ).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    with pytest.raises(LoadError, match="recurrent state"):
        load_tiny(tmp_path)


@pytest.mark.parametrize(("config", "words"), [
    (BloomConfig(vocab_size=400, hidden_size=32, n_layer=1, n_head=4), "derives the places of tokens"),
    (MptConfig(vocab_size=400, d_model=32, n_layers=1, n_heads=4), "derives the places of tokens"),
    (FalconConfig(vocab_size=400, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, alibi=True),
     "derives the places of tokens"),
    (GPTNeoConfig(vocab_size=400, hidden_size=32, num_layers=2, num_heads=4,
                  attention_types=[[["global", "local"], 1]]),
     "local attention"),
    (Llama4TextConfig(vocab_size=400, hidden_size=32, intermediate_size=64, intermediate_size_mlp=64,
                      num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                      num_local_experts=2), "chunked_attention"),
], ids=lambda value: getattr(value, "model_type", None))
def test_models_whose_attention_cannot_follow_a_tree_are_refused(config, words, target, tmp_path):
    """As target and as drafter: a tree would get wrong answers from them without any error."""
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path)
    tokenizers_of.byte_level().save_pretrained(tmp_path)
    for given in ((tmp_path, None), (target, [str(tmp_path)])):
        with pytest.raises(LoadError, match=words):
            load_tiny(*given)


def test_the_cache_of_the_target_is_kept_and_grows(target):
    model = load_tiny(target).target
    first = model.cached(32)
    assert model.cached(16) is first
    assert model.cached(64).max_rows >= 64


# --- drafters -------------------------------------------------------------------------------------------------------


def test_folders_and_gguf_files_draft_under_their_names(target, small, tmp_path):
    file = save_gguf(tmp_path / "packed.gguf", small)
    pair = load_tiny(target, [str(small), "lookup", str(file), str(small)])
    assert list(pair.drafters) == ["small", "lookup", "packed", "small-4"]
    assert pair.drafters["small"].label == "small"
    assert all(verdict.verdict == "same" for verdict in pair.compatibility.values())
    assert pair.drafters["small"].model.dtype == torch.float32


def test_names_and_settings_of_ones_own(target, small):
    pair = load_tiny(target, {"copier": DrafterSpec("lookup", settings={"ngram": 3}),
                              "mini": DrafterSpec("lm", small, {"draft_vocab": 50})})
    assert list(pair.drafters) == ["copier", "mini"]
    assert pair.drafters["copier"].settings["ngram"] == 3
    assert pair.drafters["mini"].settings["draft_vocab"] == 50
    assert pair.drafters["mini"].label == "mini"


def test_settings_that_a_drafter_lacks_are_refused(target):
    with pytest.raises(SettingError, match="lookup has no setting 'nope'; it has: ngram, relax"):
        load_tiny(target, {"mine": DrafterSpec("lookup", settings={"nope": 1})})


def test_one_name_is_no_list_of_drafters(target):
    with pytest.raises(LoadError, match=r"give a list of names, such as \['lookup'\]"):
        load_tiny(target, "lookup")


@pytest.mark.parametrize(("drafters", "message"), [
    ({"x": DrafterSpec("oracle")}, "kind 'oracle'; allowed: lookup"), (["lm"], "Drafter lm needs weights"),
    (["./missing"], "no folder './missing'")])
def test_drafters_that_there_are_not(target, drafters, message):
    with pytest.raises(LoadError, match=message):
        load_tiny(target, drafters)


def test_a_drafter_with_pickled_weights_is_refused(target, small, tmp_path):
    folder = shutil.copytree(small, tmp_path / "pickled")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(LoadError, match="Pickled weights"):
        load_tiny(target, [str(folder)])


@pytest.mark.parametrize(("target_rows", "drafter_rows"), [(512, 448), (448, 512), (None, 512)])
def test_padding_is_allowed_and_never_proposed(tmp_path, target_rows, drafter_rows):
    pair = load_tiny(save_llama(tmp_path / "t", rows=target_rows), [str(save_llama(tmp_path / "d", rows=drafter_rows))])
    tokens = len(tokenizers_of.byte_level())
    assert pair.compatibility["d"].verdict == "padded"
    assert pair.target.usable_vocab == pair.drafters["d"].vocab == tokens
    logits = next(iter(pair.target.cached(16).append(np.array([1, 5]))))
    assert logits.shape[-1] == tokens


def test_a_datastore_proposes_no_padding_either(tmp_path):
    (tmp_path / "text.txt").write_text("the dog")
    tokenizer = tokenizers_of.byte_level()
    make([tmp_path / "text.txt"], tokenizer, 512, "t", tmp_path / "store")
    small = save_llama(tmp_path / "d", rows=448)
    pair = load_tiny(save_llama(tmp_path / "t", rows=512), [str(small), str(tmp_path / "store")])
    assert pair.drafters["store"].vocab == pair.target.usable_vocab == len(tokenizer)


def test_other_tokens_are_refused_by_name(target, tmp_path):
    other = save_llama(tmp_path / "other", tokenizers_of.sentencepiece())
    with pytest.raises(LoadError, match=r"other cannot draft for big: their tokens differ.*id \d+: target '"):
        load_tiny(target, [str(other)])


def without_embeddings(folder: Path, place: Path) -> Path:
    """A copy of a model without its embeddings, head and tokenizer."""
    shutil.copytree(folder, place)
    tensors = load_file(place / "model.safetensors")
    save_file({name: value for name, value in tensors.items() if "embed" not in name and "lm_head" not in name},
              place / "model.safetensors", metadata={"format": "pt"})
    for path in place.glob("token*"):
        path.unlink()
    return place


def test_embeddings_that_are_left_out_are_the_targets_own(target, small, tmp_path):
    folder = without_embeddings(small, tmp_path / "bare")
    save_file({"tokens": np.array([9, 4, 7], np.int32)}, folder / "ranking.safetensors")
    pair = load_tiny(target, [str(folder)])
    ours, theirs = pair.drafters["bare"].model, pair.target.model
    assert ours.get_input_embeddings().weight.data_ptr() == theirs.get_input_embeddings().weight.data_ptr()
    assert ours.get_output_embeddings().weight.data_ptr() == theirs.get_output_embeddings().weight.data_ptr()
    stored = load_file(folder / "model.safetensors")
    assert all(np.array_equal(ours.state_dict()[name].numpy(), value) for name, value in stored.items())
    assert pair.drafters["bare"].ranking.tolist() == [9, 4, 7]


def test_shared_embeddings_must_have_the_targets_shape(small, tmp_path):
    target = save_llama(tmp_path / "wide", hidden_size=64)
    with pytest.raises(LoadError, match="was made for a target with embeddings"):
        load_tiny(target, [str(without_embeddings(small, tmp_path / "bare"))])


# --- the default pair -----------------------------------------------------------------------------------------------


@pytest.mark.pair
def test_the_default_pair_comes_whole(pair):
    assert list(pair.drafters) == [*FREE_DRAFTERS, "eagle3", "strong"]
    assert pair.target.name == "smollm2"
    assert pair.target.revision == PAIRS["smollm2"].target.revision
    assert (pair.target.vocab_size, pair.target.usable_vocab, pair.target.context_limit) == (49152, 49152, 8192)
    assert pair.target.eos_ids == {2}
    assert pair.target.parameters == 134_515_008


@pytest.mark.pair
def test_the_strong_drafter_shares_the_targets_embeddings(pair):
    strong, target = pair.drafters["strong"].model, pair.target.model
    weights = {model.get_input_embeddings().weight.data_ptr() for model in (strong, target)}
    heads = {model.get_output_embeddings().weight.data_ptr() for model in (strong, target)}
    assert len(weights | heads) == 1
    assert strong.config.num_hidden_layers == 6


@pytest.mark.pair
def test_the_default_models_know_what_they_say(pair):
    from treegraft.models.tokenizer import encode_prompt

    ids, _ = encode_prompt(pair.target.tokenizer, "What is the capital of France?")
    with torch.inference_mode():
        output = pair.target.model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)),
                                            max_new_tokens=12, do_sample=False)
        text = pair.target.tokenizer.decode(output[0, len(ids):], skip_special_tokens=True)
        assert text == "The capital of France is Paris."
        answers = [model(output).logits[0, len(ids) - 1:-1].argmax(-1)
                   for model in (pair.target.model, pair.drafters["strong"].model)]
    assert (answers[0] == answers[1]).float().mean() > 0.6


def test_the_ranking_of_the_strong_drafter_lists_each_token_once():
    tokens = load_file(DRAFTERS / "smollm2-strong" / "ranking.safetensors")["tokens"]
    assert len(set(tokens.tolist())) == len(tokens) == 26698
    assert tokens.min() >= 0
    assert tokens.max() < 49152


@pytest.mark.parametrize("name", ["treegraft", "treegraft.models", "treegraft.models.pairs"])
def test_nobody_pays_for_torch_unasked(name):
    code = f"import sys, {name}; print('torch' in sys.modules or 'transformers' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert printed.stdout.strip() == "False"
