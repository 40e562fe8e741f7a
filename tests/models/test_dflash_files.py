"""DFlash drafters in the public layouts are read as they were meant, and what cannot be meant is refused in words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import tiny_blocks
from tests.models.test_eagle3_files import hub_of, tables
from tests.models.tiny_folders import save_llama
from treegraft.drafters.block import Block
from treegraft.drafters.lm import LM
from treegraft.models import load
from treegraft.models.capture import LayerStates, side_by_side
from treegraft.models.dflash import BlockNet
from treegraft.models.dflash_files import LoadedBlock, read_block
from treegraft.models.dflash_layouts import even_layers
from treegraft.models.errors import LoadError
from treegraft.models.pairs import DrafterSpec
from treegraft.policies import POLICIES
from treegraft.policies import Block as BlockPolicy
from treegraft.run import RunError, record
from treegraft.settings import SettingError

DEPTH = 8
"""Layers of the target."""
MASK = 7
KEYS = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "num_hidden_layers": 2, "hidden_act": "silu",
        "rope_theta": 5000.0, "model_type": "qwen3"}
TEXT = [5, 6, 7, 8, 9, 10]


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = save_llama(tmp_path_factory.mktemp("models") / "big", num_hidden_layers=DEPTH)
    return load(folder, device="cpu", dtype="float32").target


def net_of(**form) -> BlockNet:
    return tiny_blocks.random_net(**({"mask": MASK, "aux_layers": (1, 5)} | form))


def save_zlab(folder: Path, net: BlockNet, vocab: int, nested: dict | None = None, **config) -> Path:
    """A drafter as z-lab publishes them: `nested` changes `dflash_config`, None leaves a key out."""
    folder.mkdir()
    form = {"mask_token_id": MASK, "target_layer_ids": list(net.config.aux_layers)} | (nested or {})
    keys = KEYS | {"architectures": ["DFlashDraftModel"], "block_size": net.config.block, "num_target_layers": DEPTH,
                   "vocab_size": vocab, "dflash_config": given(form)} | config
    (folder / "config.json").write_text(json.dumps(given(keys)))
    save_file({name: tensor.clone() for name, tensor in net.state_dict().items()}, folder / "model.safetensors")
    return folder


def save_speculators(folder: Path, net: BlockNet, vocab: int, extra: dict[str, torch.Tensor] | None = None,
                     inner: dict | None = None, **config) -> Path:
    folder.mkdir()
    keys = {"architectures": ["DFlashSpeculator"], "speculators_model_type": "dflash", "draft_vocab_size": vocab,
            "block_size": net.config.block, "mask_token_id": MASK, "target_hidden_size": None,
            "aux_hidden_state_layer_ids": [layer + 1 for layer in net.config.aux_layers],
            "transformer_layer_config": KEYS | {"vocab_size": vocab} | (inner or {})} | config
    (folder / "config.json").write_text(json.dumps(given(keys)))
    save_file({name: tensor.clone() for name, tensor in net.state_dict().items()} | (extra or {}),
              folder / "model.safetensors")
    return folder


def given(keys: dict) -> dict:
    return {name: value for name, value in keys.items() if value is not None}


def states_after(target, layers: tuple[int, ...]) -> list[torch.Tensor]:
    with LayerStates(target.model, layers) as seen, torch.inference_mode():
        target.model(torch.tensor([TEXT]))
        return [seen.latest[layer][0] for layer in layers]


def check_same(loaded: LoadedBlock, net: BlockNet, target, head: torch.Tensor | None = None) -> None:
    """What was read fills the block as the written network does, written out plainly."""
    aux = states_after(target, net.config.aux_layers)
    drafter = Block(net=loaded.net, embeddings=loaded.embeddings, head=loaded.head, ids=loaded.vocab)
    cached = drafter._open(len(TEXT))
    assert loaded.net.config.block == net.config.block
    with torch.inference_mode():
        cached.append(side_by_side(dict(enumerate(aux)), range(len(aux))))
        ours = loaded.head(cached.fill(3, net.config.block))
        weight = target.model.get_output_embeddings().weight if head is None else head
        theirs = tiny_blocks.readings(net, loaded.embeddings, aux, 3, net.config.block) @ weight.T
    assert torch.allclose(ours, theirs, atol=1e-4, rtol=1e-4)


# --- the layouts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [save_zlab, save_speculators])
def test_each_layout_gives_the_logits_of_the_network_that_was_written(save, target, tmp_path):
    net = net_of()
    loaded = read_block(save(tmp_path / "block", net, target.vocab_size), target)
    check_same(loaded, net, target)
    assert loaded.net.config.aux_layers == (1, 5)
    assert (loaded.net.config.mask, loaded.net.config.from_anchor) == (MASK, False)
    assert loaded.vocab.tolist() == list(range(target.vocab_size))
    assert loaded.head is target.model.get_output_embeddings()
    assert loaded.embeddings.data_ptr() == target.model.get_input_embeddings().weight.data_ptr()
    assert loaded.coverage == f"drafts 4 tokens at once, of {target.vocab_size} of the target's {target.vocab_size}"
    assert not any(weight.requires_grad for weight in loaded.net.parameters())
    assert not loaded.net.training


def test_keys_may_stand_in_dflash_config_or_at_the_top(target, tmp_path):
    net = net_of(block=3)
    inside = save_zlab(tmp_path / "in", net, target.vocab_size, {"block_size": 3}, block_size=9)
    top = save_zlab(tmp_path / "top", net, target.vocab_size, {"mask_token_id": None, "target_layer_ids": None},
                    mask_token_id=MASK, target_layer_ids=[1, 5])
    for folder in (inside, top):
        check_same(read_block(folder, target), net, target)
    unsaid = save_zlab(tmp_path / "unsaid", net_of(block=16), target.vocab_size, block_size=None)
    assert read_block(unsaid, target).net.config.block == 16


@pytest.mark.parametrize(("config", "form"), [
    ({}, {"windows": (4, None), "causal": (True, False)}),
    ({"is_causal": False}, {"windows": (4, None), "causal": (False, False)}),
    ({"is_causal": True}, {"windows": (4, None), "causal": (True, True)}),
    ({"dflash_config": {"mask_token_id": MASK, "target_layer_ids": [1, 5], "causal": False}},
     {"windows": (4, None), "causal": (False, False)}),
], ids=["unsaid", "free", "causal", "free in dflash_config"])
def test_sliding_windows_and_causality_of_zlab(config, form, target, tmp_path):
    net = net_of(**form)
    folder = save_zlab(tmp_path / "block", net, target.vocab_size, use_sliding_window=True, sliding_window=4,
                       layer_types=["sliding_attention", "full_attention"], **config)
    check_same(read_block(folder, target), net, target)


@pytest.mark.parametrize("free", [True, False])
def test_sliding_windows_of_speculators_must_say_whether_they_are_causal(free, target, tmp_path):
    net = net_of(windows=(None, 4), causal=(False, not free))
    inner = {"use_sliding_window": True, "sliding_window": 4, "layer_types": ["full_attention", "sliding_attention"]}
    folder = save_speculators(tmp_path / "block", net, target.vocab_size, inner=inner, sliding_window_non_causal=free)
    check_same(read_block(folder, target), net, target)
    silent = save_speculators(tmp_path / "silent", net, target.vocab_size, inner=inner)
    with pytest.raises(LoadError, match="does not say sliding_window_non_causal"):
        read_block(silent, target)


def test_a_drafter_of_speculators_with_a_smaller_vocabulary_brings_its_head(target, tmp_path):
    net, ids = net_of(), np.sort(np.random.default_rng(1).choice(target.vocab_size, 20, replace=False))
    head = torch.randn(20, 32)
    extra = tables(ids, target.vocab_size) | {"lm_head.weight": head, "verifier_lm_head.weight": torch.zeros(2)}
    folder = save_speculators(tmp_path / "block", net, target.vocab_size, extra, draft_vocab_size=20)
    loaded = read_block(folder, target)
    check_same(loaded, net, target, head)
    assert loaded.vocab.tolist() == ids.tolist()
    bare = save_speculators(tmp_path / "bare", net, target.vocab_size, tables(ids, target.vocab_size),
                            draft_vocab_size=20)
    wrong = save_speculators(tmp_path / "wrong", net, target.vocab_size, extra | {"lm_head.weight": head[1:].clone()},
                             draft_vocab_size=20)
    for folder, words in ((bare, "no lm_head.weight"), (wrong, r"lm_head.weight of shape \[19, 32\]")):
        with pytest.raises(LoadError, match=words):
            read_block(folder, target)


def test_the_first_place_drafts_where_the_drafter_was_trained_so(target, tmp_path):
    folder = save_speculators(tmp_path / "block", net_of(from_anchor=True), target.vocab_size, sample_from_anchor=True)
    loaded = read_block(folder, target)
    assert loaded.net.config.from_anchor
    assert loaded.coverage.startswith("drafts 5 tokens at once")


def test_biases_and_half_precision(target, tmp_path):
    net = net_of(layer={"attention_bias": True})
    folder = save_zlab(tmp_path / "block", net, target.vocab_size)
    save_file({f"model.{name}": tensor.half() for name, tensor in net.state_dict().items()},
              folder / "model.safetensors")
    loaded = read_block(folder, target)
    ours, theirs = (one.layers[1].self_attn for one in (loaded.net, net))
    assert ours.q_proj.bias.dtype == torch.float32
    assert torch.allclose(ours.q_proj.bias, theirs.q_proj.bias, atol=1e-3)
    assert torch.allclose(ours.o_proj.bias, theirs.o_proj.bias, atol=1e-3)


# --- layer ids ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def inputs(target) -> list[torch.Tensor]:
    """What each layer of the target reads for the text, and last what its last norm reads; no two are alike."""
    kept = []
    hooks = [module.register_forward_pre_hook(lambda module, given: kept.append(given[0][0]))
             for module in (*target.model.model.layers, target.model.model.norm)]
    with torch.inference_mode():
        target.model(torch.tensor([TEXT]))
    for hook in hooks:
        hook.remove()
    assert all(not torch.allclose(a, b) for place, a in enumerate(kept) for b in kept[:place])
    return kept


def states_read(folder: Path, target) -> list[torch.Tensor]:
    return states_after(target, read_block(folder, target).net.config.aux_layers)


def same(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return len(found) == len(wanted) and all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_zlab_counts_after_the_layer(target, inputs, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(aux_layers=(6, 0)), target.vocab_size)
    assert same(states_read(folder, target), [inputs[7], inputs[1]])


def test_speculators_counts_before_the_layer_and_the_number_of_layers_means_the_last_ones_output(
        target, inputs, tmp_path):
    folder = save_speculators(tmp_path / "block", net_of(), target.vocab_size, aux_hidden_state_layer_ids=[1, DEPTH])
    assert same(states_read(folder, target), [inputs[1], inputs[DEPTH]])


def test_where_no_layers_are_named_they_lie_evenly(target, inputs, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size, {"target_layer_ids": None})
    assert same(states_read(folder, target), [inputs[2], inputs[DEPTH - 2]])
    assert even_layers(36, 5) == [1, 9, 17, 25, 33]
    assert even_layers(24, 1) == [12]


@pytest.mark.parametrize("ids", [[1, DEPTH - 1], [-1, 5], [], [1, "5"], [True, 5], "1,5", [1, 5.0], {"a": 1},
                                 [1] * 65], ids=str)
def test_layer_ids_that_cannot_be_read(ids, target, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size, {"target_layer_ids": ids})
    with pytest.raises(LoadError, match=r"layer_ids|reads layers"):
        read_block(folder, target)


@pytest.mark.parametrize("ids", [[0, 5], [1, DEPTH + 1], None])
def test_layer_ids_of_speculators_that_cannot_be_read(ids, target, tmp_path):
    folder = save_speculators(tmp_path / "block", net_of(), target.vocab_size, aux_hidden_state_layer_ids=ids)
    with pytest.raises(LoadError, match=r"layer_ids|reads layers"):
        read_block(folder, target)


# --- files of strangers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "value", "words"), [
    ("hidden_size", 1 << 40, "hidden_size '1099511627776'; allowed"), ("hidden_size", 16, "hidden states of size 16"),
    ("hidden_size", "32", "hidden_size '32'"), ("num_key_value_heads", 3, "do not divide"),
    ("intermediate_size", 40, "do not fit its config.json as a DFlash drafter"),
    ("num_hidden_layers", 3, "num_hidden_layers 3, where 2 is needed"),
    ("num_target_layers", 36, "num_target_layers 36, where 8 is needed"),
    ("target_hidden_size", 48, "target_hidden_size 48, where 32 is needed"),
    ("vocab_size", 17, "a vocabulary of 17"), ("rms_norm_eps", "small", "cannot be loaded"),
    ("block_size", 1, "block_size '1'; allowed: whole numbers from 2 to 256"),
    ("block_size", 257, "block_size '257'"), ("block_size", True, "block_size 'True'"),
    ("mask_token_id", 1 << 20, "masks with token 1048576"), ("mask_token_id", -1, "mask_token_id '-1'"),
    ("mask_token_id", "<mask>", "mask_token_id '<mask>'"), ("mask_token_id", None, "mask_token_id 'None'"),
    ("is_causal", "no", "is_causal 'no'; allowed: true or false"), ("sample_from_anchor", 1, "sample_from_anchor '1'"),
    ("layer_types", ["full_attention"], "layer_types .* 2 are needed"), ("layer_types", 5, "layer_types 5"),
    ("layer_types", ["linear_attention"] * 2, "layer_types .* 2 are needed"),
    ("layer_types", [["full_attention"]] * 2, "layer_types .* 2 are needed"),
    ("layer_types", ["sliding_attention"] * 2, "sliding_window 'None'"),
    ("use_sliding_window", True, "layer_types None; 2 are needed"),
    ("dflash_config", 7, "mask_token_id 'None'"), ("rope_scaling", {"type": "nonsense"}, "nonsense"),
    ("speculators_model_type", "dspark", "a speculator of type 'dspark'"), ("model_type", "mamba", None),
])
def test_configurations_that_do_not_fit(key, value, words, target, tmp_path):
    nested = {"mask_token_id": None} if key == "mask_token_id" else None
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size, nested, **{key: value})
    with pytest.raises(LoadError, match=words):
        read_block(folder, target)


def test_a_window_that_is_said_to_be_off(target, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size, sliding_window=4, use_sliding_window=False,
                       layer_types=["sliding_attention"] * 2)
    with pytest.raises(LoadError, match="use_sliding_window false"):
        read_block(folder, target)


@pytest.mark.parametrize(("key", "value"), [
    ("projector_type", "domino"), ("conv_kernel_size", 2), ("selector_rank", 256), ("use_swa", True),
    ("attention_mode", "mla"), ("output_multiplier", 0.2), ("attention_value_scale", 0.5), ("is_neox_style", False)])
@pytest.mark.parametrize("place", ["nested", "top"])
def test_variants_are_refused_by_name(key, value, place, target, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size, {key: value} if place == "nested" else None,
                       **({key: value} if place == "top" else {}))
    with pytest.raises(LoadError, match=f"{key} '{value}', which belongs to a variant"):
        read_block(folder, target)


def test_keys_of_variants_that_change_nothing_are_no_reason_to_refuse(target, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size,
                       {"projector_type": "dflash", "output_multiplier": 1.0, "use_swa": False}, is_neox_style=True)
    check_same(read_block(folder, target), net_of(), target)


def test_tensors_that_are_missing_unknown_or_misshapen(target, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size)
    good = load_file(folder / "model.safetensors")
    for change, words in (({"fc.weight": None}, "fc.weight is missing"),
                          ({"hidden_norm.weight": None}, "hidden_norm.weight is missing"),
                          ({"mask_embedding": torch.zeros(32)}, "mask_embedding is unknown"),
                          ({"fc.weight": torch.zeros(32, 96)}, r"fc.weight is torch.float32 \[32, 96\], not"),
                          ({"norm.weight": torch.zeros(32, dtype=torch.int8)}, "norm.weight is torch.int8")):
        tensors = {name: tensor for name, tensor in (good | change).items() if tensor is not None}
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(LoadError, match=words):
            read_block(folder, target)


@pytest.mark.parametrize("junk", [b"", b"junk", b"\xff" * 64])
def test_weights_that_are_no_weights(junk, target, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size)
    (folder / "model.safetensors").write_bytes(junk)
    with pytest.raises(LoadError):
        read_block(folder, target)


def test_pickled_weights_are_never_read(target, tmp_path):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(LoadError, match=r"pickled weights .* are never loaded"):
        read_block(folder, target)


def test_a_target_that_scales_its_embeddings_is_refused(target, tmp_path, monkeypatch):
    folder = save_zlab(tmp_path / "block", net_of(), target.vocab_size)
    monkeypatch.setattr(target.model.get_input_embeddings(), "embed_scale", 5.0, raising=False)
    with pytest.raises(LoadError, match="scales its embeddings by 5"):
        read_block(folder, target)


# --- as a drafter of a pair -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("save", [save_zlab, save_speculators])
def test_a_folder_is_known_by_its_configuration(save, target, tmp_path):
    folder, where = save(tmp_path / "mine", net_of(), target.vocab_size), target.model.config.name_or_path
    pair = load(where, ["lookup", str(folder), where], device="cpu", dtype="float32")
    assert [type(drafter) for drafter in list(pair.drafters.values())[1:]] == [Block, LM]
    drafter = pair.drafters["mine"]
    assert (drafter.label, drafter.vocab) == ("mine", target.vocab_size)
    assert "drafts 4 tokens" in pair.compatibility["mine"].details
    named = load(where, {"fast": DrafterSpec("block", folder)}, device="cpu", dtype="float32")
    assert named.drafters["fast"].label == "fast"
    with pytest.raises(SettingError, match="block has no setting 'depth'"):
        load(where, {"fast": DrafterSpec("block", folder, {"depth": 3})}, device="cpu", dtype="float32")
    with pytest.raises(LoadError, match="Drafter block needs weights"):
        load(where, ["block"], device="cpu", dtype="float32")


def test_a_hub_id_is_known_too(target, tmp_path, monkeypatch):
    folder = save_zlab(tmp_path / "mine", net_of(), target.vocab_size)
    monkeypatch.setattr("treegraft.models.eagle3_files.cached_file", hub_of({"owner/mine": folder}))
    pair = load(target.model.config.name_or_path, ["owner/mine"], device="cpu", dtype="float32")
    assert isinstance(pair.drafters["mine"], Block)


def test_a_drafter_of_another_target_is_refused(target, tmp_path):
    folder = save_zlab(tmp_path / "mine", net_of(), target.vocab_size)
    wide = save_llama(tmp_path / "wide", hidden_size=64, num_hidden_layers=DEPTH)
    shallow = save_llama(tmp_path / "shallow", num_hidden_layers=5)
    for other, words in ((wide, "hidden states of size 32; wide has 64"), (shallow, "num_target_layers 8, where 5")):
        with pytest.raises(LoadError, match=words):
            load(other, [str(folder)], device="cpu", dtype="float32")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_run_is_recorded(dtype, target, tmp_path):
    folder = save_zlab(tmp_path / "mine", net_of(), target.vocab_size)
    pair = load(target.model.config.name_or_path, [str(folder)], device="cpu", dtype=dtype)
    run = record(pair, "one two three", BlockPolicy(), max_new_tokens=6, raw=True, out=tmp_path / "run.jsonl").run
    assert {weight.dtype for weight in pair.drafters["mine"].net.state_dict().values()} == {pair.target.dtype}
    assert [len(traced.record.nodes.token) for traced in run.rounds] == [5] * len(run.rounds)
    assert [curve.model for curve in run.header.costs] == [-1, 0]
    assert (run.header.drafters[0].kind, run.header.drafters[0].name) == ("block", "mine")


@pytest.mark.parametrize("name", ["block", "graft-block"])
def test_a_pair_without_such_a_drafter_is_told_so(name, target):
    pair = load(target.model.config.name_or_path, device="cpu", dtype="float32")
    with pytest.raises(RunError, match=f"role 'drafter' of policy {name}, which fills the block, as DFlash drafters "
                                       "do. Fitting: none"):
        record(pair, "one", POLICIES[name]())
