"""Heads in the three public layouts are read as they were meant, and what cannot be meant is refused in plain words."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tests import tiny_heads
from tests.models.tiny_folders import save_llama
from treegraft.drafters.eagle3 import Eagle3
from treegraft.drafters.lm import LM
from treegraft.models import load
from treegraft.models.capture import LayerStates, side_by_side
from treegraft.models.eagle3 import Eagle3Head
from treegraft.models.eagle3_files import read_head, write_head
from treegraft.models.eagle3_layouts import default_aux_layers
from treegraft.models.errors import LoadError
from treegraft.models.pairs import DrafterSpec
from treegraft.policies import Eagle2
from treegraft.run import record
from treegraft.settings import SettingError

DEPTH = 8
"""Layers of the target, enough for EAGLE's default."""
DRAFT = 20
KEYS = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "num_hidden_layers": 1, "hidden_act": "silu",
        "rope_theta": 5000.0, "model_type": "llama"}


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    folder = save_llama(tmp_path_factory.mktemp("models") / "big", num_hidden_layers=DEPTH)
    return load(folder, device="cpu", dtype="float32").target


@pytest.fixture
def tokens(target) -> np.ndarray:
    """Target ids that the head scores."""
    return np.sort(np.random.default_rng(1).choice(target.vocab_size, DRAFT, replace=False))


def tables(tokens: np.ndarray, total: int) -> dict[str, torch.Tensor]:
    members = torch.zeros(total, dtype=torch.bool)
    members[tokens] = True
    return {"d2t": torch.tensor(tokens - np.arange(len(tokens))), "t2d": members}


def head_of(layer: dict | None = None, **form) -> Eagle3Head:
    """A head with random weights, built directly."""
    return tiny_heads.random_head(layer, **({"draft_vocab": DRAFT} | form))


def weights(head: Eagle3Head, first: str) -> dict[str, torch.Tensor]:
    return {name.replace("layers.0.", first): tensor.clone() for name, tensor in head.state_dict().items()}


def save_specforge(folder: Path, head: Eagle3Head, extra: dict[str, torch.Tensor], config: dict) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(KEYS | {
        "architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": DRAFT, "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": [0, 1, 2], "use_aux_hidden_state": True}} | config))
    save_file(weights(head, "midlayer.") | extra, folder / "model.safetensors")
    return folder


def save_eagle(folder: Path, head: Eagle3Head, extra: dict[str, torch.Tensor], config: dict) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(KEYS | {
        "architectures": ["LlamaForCausalLM"], "draft_vocab_size": DRAFT} | config))
    torch.save(weights(head, "midlayer.") | extra, folder / "pytorch_model.bin")
    return folder


def save_speculators(folder: Path, head: Eagle3Head, extra: dict[str, torch.Tensor], config: dict) -> Path:
    folder.mkdir()
    inner = ("vocab_size", "num_hidden_layers", "model_type")
    layer = KEYS | {key: config[key] for key in inner if key in config}
    outer = {key: value for key, value in config.items() if key not in inner}
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "speculators_version": "0.5.0",
        "draft_vocab_size": DRAFT, "norm_before_residual": False, "norm_before_fc": False, "fc_norm": False,
        "norm_output": False, "target_hidden_size": None, "eagle_aux_hidden_state_layer_ids": [1, 2, 3],
        "embed_requires_grad": False, "transformer_layer_config": layer, "speculators_config": {
            "algorithm": "eagle3", "default_proposal_method": "greedy", "proposal_methods": [],
            "verifier": {"name_or_path": None, "architectures": []}}} | outer))
    save_file(weights(head, "layers.0.") | extra, folder / "model.safetensors")
    return folder


LAYOUTS = {"specforge": save_specforge, "eagle": save_eagle, "speculators": save_speculators}


def check_same(loaded, head: Eagle3Head) -> None:
    """The two give the same logits, for the same text, by the network written out plainly."""
    generator = torch.Generator().manual_seed(2)
    aux = [torch.randn((9, head.config.target_hidden), generator=generator) for _ in head.config.aux_layers]
    embedded = torch.randn((9, head.config.layer.hidden_size), generator=generator)

    def causal(layer, queries, keys, values):
        return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)

    with torch.inference_mode():
        state, reading = tiny_heads.whole(head, embedded, tiny_heads.fused(head, aux))
        ours = loaded.head(embedded[None], loaded.head.fuse(torch.cat(aux, -1))[None], torch.arange(9)[None], causal)
    assert torch.allclose(ours[0][0], state, atol=1e-4, rtol=1e-4)
    assert torch.allclose(loaded.head.lm_head(ours[1][0]), reading @ head.lm_head.weight.T, atol=1e-4, rtol=1e-4)


# --- the layouts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_gives_the_logits_of_the_head_that_was_written(layout, target, tokens, tmp_path):
    head = head_of()
    folder = LAYOUTS[layout](tmp_path / "head", head, tables(tokens, target.vocab_size),
                             {"vocab_size": target.vocab_size})
    loaded = read_head(folder, target)
    check_same(loaded, head)
    assert loaded.vocab.tolist() == tokens.tolist()
    assert loaded.embeddings.data_ptr() == target.model.get_input_embeddings().weight.data_ptr()
    assert loaded.coverage == f"proposes 20 of the target's {target.vocab_size} tokens ({20 / target.vocab_size:.0%})"
    assert not any(weight.requires_grad for weight in loaded.head.parameters())
    assert not loaded.head.training


@pytest.mark.parametrize("switch", ["norm_before_residual", "norm_before_fc", "fc_norm", "norm_output"])
@pytest.mark.parametrize("place", ["specforge", "eagle_config", "speculators"])
def test_switches_are_followed(switch, place, target, tokens, tmp_path):
    head = head_of(**{switch: True})
    config = {"vocab_size": target.vocab_size, switch: True}
    if place == "eagle_config":
        config |= {switch: False, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2], switch: True}}
    save = save_speculators if place == "speculators" else save_specforge
    loaded = read_head(save(tmp_path / "head", head, tables(tokens, target.vocab_size), config), target)
    assert getattr(loaded.head.config, switch) is True
    check_same(loaded, head)


def test_layers_of_a_qwen3_with_norms_of_queries_and_keys(target, tokens, tmp_path):
    head = head_of(qk_norm=True)
    folder = save_speculators(tmp_path / "head", head, tables(tokens, target.vocab_size),
                              {"vocab_size": target.vocab_size, "model_type": "qwen3"})
    check_same(read_head(folder, target), head)


def test_heads_of_several_layers(target, tokens, tmp_path):
    head = head_of({"num_hidden_layers": 3})
    folder = save_speculators(tmp_path / "head", head, tables(tokens, target.vocab_size),
                              {"vocab_size": target.vocab_size, "num_hidden_layers": 3})
    loaded = read_head(folder, target)
    assert len(loaded.head.layers) == 3
    check_same(loaded, head)


def test_a_head_narrower_than_its_target_brings_its_own_embeddings(target, tokens, tmp_path):
    head = head_of({"hidden_size": 16})
    own = torch.randn(target.vocab_size, 16)
    config = {"vocab_size": target.vocab_size, "hidden_size": 16, "target_hidden_size": 32}
    extra = tables(tokens, target.vocab_size)
    folder = save_specforge(tmp_path / "head", head, extra | {"embed_tokens.weight": own}, config)
    loaded = read_head(folder, target)
    assert torch.equal(loaded.embeddings, own)
    check_same(loaded, head)
    with pytest.raises(LoadError, match="16 wide"):
        read_head(save_specforge(tmp_path / "bare", head, extra, config), target)


def test_embeddings_in_the_files_count_only_where_they_differ(target, tokens, tmp_path):
    theirs = target.model.get_input_embeddings().weight.detach()
    for name, own, shared in (("same", theirs.clone(), True), ("other", theirs + 1, False)):
        extra = tables(tokens, target.vocab_size) | {"embed_tokens.weight": own}
        folder = save_specforge(tmp_path / name, head_of(), extra, {"vocab_size": target.vocab_size})
        loaded = read_head(folder, target)
        assert (loaded.embeddings.data_ptr() == theirs.data_ptr()) is shared
        assert torch.equal(loaded.embeddings, own)


def test_a_head_that_scores_all_tokens_needs_no_tables(target, tmp_path):
    head = head_of(draft_vocab=target.vocab_size)
    config = {"vocab_size": target.vocab_size, "draft_vocab_size": target.vocab_size}
    loaded = read_head(save_specforge(tmp_path / "head", head, {}, config), target)
    assert loaded.vocab.tolist() == list(range(target.vocab_size))
    zero = {"d2t": torch.zeros(target.vocab_size, dtype=torch.int64)}
    folder = save_specforge(tmp_path / "zero", head, zero, config)
    assert read_head(folder, target).vocab.tolist() == list(range(target.vocab_size))


def test_names_and_numbers_as_other_trainers_write_them(target, tokens, tmp_path):
    """`model.` before every name, leftovers of the target's head, biases of queries alone, half precision."""
    head = head_of({"attention_bias": True})
    head.layers[0].self_attn.o_proj.bias.zero_()
    plain = {f"model.{name}": tensor.half() for name, tensor in weights(head, "layers.0.").items()
             if not name.endswith("o_proj.bias")}
    folder = save_specforge(tmp_path / "head", head, {}, {"vocab_size": target.vocab_size})
    save_file(plain | tables(tokens, target.vocab_size) | {
        "verifier_lm_head.weight": torch.zeros(3, 3), "model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4)},
        folder / "model.safetensors")
    loaded = read_head(folder, target)
    assert loaded.head.fc.weight.dtype == torch.float32
    ours = loaded.head.layers[0].self_attn
    assert torch.allclose(ours.q_proj.bias, head.layers[0].self_attn.q_proj.bias, atol=1e-3)
    assert not ours.o_proj.bias.any()


# --- layer ids ------------------------------------------------------------------------------------------------------


def states_read(folder: Path, target) -> torch.Tensor:
    """What feeds a head's `fc` for a text, [n, 3 * hidden]."""
    layers = read_head(folder, target).head.config.aux_layers
    with LayerStates(target.model, layers) as seen, torch.inference_mode():
        target.model(torch.tensor([[5, 6, 7, 8]]))
        return side_by_side(seen.latest, layers)[0]


@pytest.fixture(scope="module")
def inputs(target) -> list[torch.Tensor]:
    """What each layer of the target reads for that text; no two are alike."""
    kept = []
    hooks = [layer.register_forward_pre_hook(lambda module, given: kept.append(given[0][0]))
             for layer in target.model.model.layers]
    with torch.inference_mode():
        target.model(torch.tensor([[5, 6, 7, 8]]))
    for hook in hooks:
        hook.remove()
    assert all(not torch.allclose(a, b) for place, a in enumerate(kept) for b in kept[:place])
    return kept


def test_eagle_reads_what_layers_2_half_and_third_to_last_read(target, tokens, inputs, tmp_path):
    folder = save_eagle(tmp_path / "head", head_of(), tables(tokens, target.vocab_size),
                        {"vocab_size": target.vocab_size})
    wanted = torch.cat((inputs[2], inputs[DEPTH // 2], inputs[DEPTH - 3]), -1)
    assert torch.equal(states_read(folder, target), wanted)
    assert default_aux_layers(32) == (1, 15, 28)


def test_specforge_counts_after_the_layer(target, tokens, inputs, tmp_path):
    folder = save_specforge(tmp_path / "head", head_of(), tables(tokens, target.vocab_size), {
        "vocab_size": target.vocab_size, "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 3, 6]}})
    wanted = torch.cat((inputs[1], inputs[4], inputs[7]), -1)
    assert torch.equal(states_read(folder, target), wanted)


def test_speculators_counts_before_the_layer(target, tokens, inputs, tmp_path):
    folder = save_speculators(tmp_path / "head", head_of(), tables(tokens, target.vocab_size), {
        "vocab_size": target.vocab_size, "eagle_aux_hidden_state_layer_ids": [1, 4, 7]})
    wanted = torch.cat((inputs[1], inputs[4], inputs[7]), -1)
    assert torch.equal(states_read(folder, target), wanted)


def test_the_number_of_layers_means_the_last_ones_output(target, tokens, tmp_path):
    folder = save_speculators(tmp_path / "head", head_of(), tables(tokens, target.vocab_size), {
        "vocab_size": target.vocab_size, "eagle_aux_hidden_state_layer_ids": [1, 4, DEPTH]})
    high = states_read(folder, target)[:, 64:]
    with torch.inference_mode():
        last = target.model.model(torch.tensor([[5, 6, 7, 8]])).last_hidden_state[0]
        assert torch.equal(target.model.model.norm(high), last)


@pytest.mark.parametrize("ids", [[0, 1, DEPTH], [-1, 1, 2], [2, 1, 3], [1, 1, 2], [0, 1, "2"], [True, 2, 3], "0,1,2",
                                 [0, 1, 2.0], {"a": 1}], ids=str)
def test_layer_ids_that_the_target_does_not_have(ids, target, tokens, tmp_path):
    folder = save_specforge(tmp_path / "head", head_of(), tables(tokens, target.vocab_size), {
        "vocab_size": target.vocab_size, "eagle_config": {"eagle_aux_hidden_state_layer_ids": ids}})
    with pytest.raises(LoadError, match="layer ids"):
        read_head(folder, target)


def test_a_target_too_shallow_for_eagles_default(tokens, tmp_path):
    shallow = load(save_llama(tmp_path / "small", num_hidden_layers=5), device="cpu", dtype="float32").target
    folder = save_eagle(tmp_path / "head", head_of(), tables(tokens, shallow.vocab_size),
                        {"vocab_size": shallow.vocab_size})
    with pytest.raises(LoadError, match="no layer ids, so EAGLE's"):
        read_head(folder, shallow)


# --- draft vocabulary -----------------------------------------------------------------------------------------------


def refused(target, tmp_path: Path, extra: dict[str, torch.Tensor], words: str) -> None:
    folder = save_specforge(tmp_path / f"head{len(list(tmp_path.iterdir()))}", head_of(), extra,
                            {"vocab_size": target.vocab_size})
    with pytest.raises(LoadError, match=words):
        read_head(folder, target)


def test_a_table_that_is_missing_or_was_never_filled(target, tokens, tmp_path):
    zero, good = torch.zeros(DRAFT, dtype=torch.int64), tables(tokens, target.vocab_size)
    refused(target, tmp_path, {}, "has no d2t table")
    refused(target, tmp_path, {"t2d": good["t2d"]}, "has no d2t table")
    refused(target, tmp_path, {"d2t": zero}, "all zero, so it was never filled")
    refused(target, tmp_path, {"d2t": zero, "t2d": good["t2d"]}, "all zero")
    refused(target, tmp_path, {"d2t": zero, "t2d": torch.ones(target.vocab_size, dtype=torch.bool)}, "all zero")


def test_a_table_of_zeros_that_is_meant(target, tmp_path):
    """The first tokens of the vocabulary, and the second table says so too."""
    folder = save_specforge(tmp_path / "head", head_of(), tables(np.arange(DRAFT), target.vocab_size),
                            {"vocab_size": target.vocab_size})
    assert read_head(folder, target).vocab.tolist() == list(range(DRAFT))


def test_a_table_out_of_range_or_with_a_token_twice(target, tokens, tmp_path):
    good = torch.tensor(tokens - np.arange(DRAFT))
    for row, offset in ((3, target.vocab_size - 3), (3, -4), (0, 2**62), (0, -2**63)):
        wrong = good.clone()
        wrong[row] = offset
        refused(target, tmp_path, {"d2t": wrong}, f"out of the target's {target.vocab_size} tokens in 1 rows, first in "
                                                  f"row {row}")
    twice = good.clone()
    twice[4] = twice[3] - 1
    refused(target, tmp_path, {"d2t": twice}, "names 1 tokens twice")
    refused(target, tmp_path, {"d2t": good[:-1]}, r"\[19\]; 20 whole numbers")
    refused(target, tmp_path, {"d2t": good.float()}, "torch.float32")
    refused(target, tmp_path, {"d2t": good[None]}, r"\[1, 20\]")


def test_tables_that_disagree(target, tokens, tmp_path):
    good = tables(tokens, target.vocab_size)
    moved, more = good["t2d"].roll(1), good["t2d"].clone()
    more[:] = True
    refused(target, tmp_path, good | {"t2d": moved}, "t2d marks 20 others")
    refused(target, tmp_path, good | {"t2d": more}, f"t2d marks {target.vocab_size}")
    refused(target, tmp_path, good | {"t2d": moved.bfloat16()}, "disagree")


# --- files of strangers ---------------------------------------------------------------------------------------------


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("write", [torch.save, lambda value, path: path.write_bytes(pickle.dumps(value, protocol=2))],
                         ids=["torch", "pickle"])
def test_a_pickle_with_a_trap_is_refused_and_does_not_snap(write, target, tokens, tmp_path):
    folder = save_eagle(tmp_path / "head", head_of(), {}, {"vocab_size": target.vocab_size})
    write(weights(head_of(), "midlayer.") | {"d2t": Trap(tmp_path / "sprung")}, folder / "pytorch_model.bin")
    with pytest.raises(LoadError, match="could run code"):
        read_head(folder, target)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("value", [[torch.zeros(3)], {"fc.weight": 3}, {3: torch.zeros(3)}],
                         ids=["list", "int", "name"])
def test_a_pickle_of_something_else(value, target, tmp_path):
    folder = save_eagle(tmp_path / "head", head_of(), {}, {"vocab_size": target.vocab_size})
    torch.save(value, folder / "pytorch_model.bin")
    with pytest.raises(LoadError, match="does not hold named tensors alone"):
        read_head(folder, target)


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("junk", [b"", b"junk", b"\xff" * 64])
def test_weights_that_are_no_weights(name, junk, target, tmp_path):
    folder = save_specforge(tmp_path / "head", head_of(), {}, {"vocab_size": target.vocab_size})
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(junk)
    with pytest.raises(LoadError):
        read_head(folder, target)


def test_a_folder_without_weights(target, tmp_path):
    folder = save_specforge(tmp_path / "head", head_of(), {}, {"vocab_size": target.vocab_size})
    (folder / "model.safetensors").unlink()
    with pytest.raises(LoadError, match="no weights: neither"):
        read_head(folder, target)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 5000, '{"draft_vocab_size": NaN}', "\xff", '"x"'],
                         ids=lambda text: text[:8] or "empty")
def test_configurations_that_are_none(text, target, tmp_path):
    folder = save_specforge(tmp_path / "head", head_of(), {}, {"vocab_size": target.vocab_size})
    (folder / "config.json").write_text(text, encoding="latin-1")
    with pytest.raises(LoadError):
        read_head(folder, target)


def test_a_configuration_of_a_gigabyte_is_not_read(target, tmp_path):
    folder = save_specforge(tmp_path / "head", head_of(), {}, {"vocab_size": target.vocab_size})
    with (folder / "config.json").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(LoadError, match="1073741824 bytes; at most"):
        read_head(folder, target)


@pytest.mark.parametrize(("key", "value", "words"), [
    ("hidden_size", 1 << 40, "hidden_size '1099511627776'; allowed: whole numbers from 1"),
    ("hidden_size", "32", "hidden_size '32'"), ("num_attention_heads", 0, "num_attention_heads '0'"),
    ("num_key_value_heads", True, "num_key_value_heads 'True'"), ("num_key_value_heads", 3, "do not divide"),
    ("intermediate_size", 40, "do not fit its config.json"), ("head_dim", 16, "do not fit its config.json"),
    ("draft_vocab_size", 21, "20 whole numbers|21 whole numbers"), ("draft_vocab_size", -1, "draft_vocab_size '-1'"),
    ("vocab_size", 17, "a vocabulary of 17"), ("target_hidden_size", 48, "hidden states of size 48"),
    ("target_hidden_size", [32], "target_hidden_size"), ("rms_norm_eps", "small", "cannot be loaded"),
    ("hidden_act", "nonsense", "cannot be loaded"), ("rope_scaling", {"type": "nonsense"}, "nonsense"),
    ("rope_scaling", 7, None), ("layer_types", ["sliding_attention"], "must be full_attention"),
    ("layer_types", 5, None), ("layer_types", [["full_attention"]], None),
    ("speculators_model_type", "mlp", "a speculator of type 'mlp'"), ("model_type", "mamba", None),
    ("max_position_embeddings", "", "max_position_embeddings"),
])
def test_configurations_that_do_not_fit(key, value, words, target, tokens, tmp_path):
    config = {"vocab_size": target.vocab_size} | {key: value}
    folder = save_specforge(tmp_path / "head", head_of(), tables(tokens, target.vocab_size), config)
    with pytest.raises(LoadError, match=words):
        read_head(folder, target)


def test_speculators_must_say_which_residual(target, tokens, tmp_path):
    for number, value in enumerate((None, "yes")):
        folder = save_speculators(tmp_path / str(number), head_of(), tables(tokens, target.vocab_size),
                                  {"vocab_size": target.vocab_size, "norm_before_residual": value})
        with pytest.raises(LoadError, match="does not say norm_before_residual"):
            read_head(folder, target)


def test_tensors_that_are_missing_unknown_or_misshapen(target, tokens, tmp_path):
    folder = save_specforge(tmp_path / "head", head_of(), tables(tokens, target.vocab_size),
                            {"vocab_size": target.vocab_size})
    good = load_file(folder / "model.safetensors")
    for change, words in (({"fc.weight": None}, "fc.weight is missing"),
                          ({"fc.bias": torch.zeros(32)}, "fc.bias is unknown"),
                          ({"norm.weight": torch.zeros(31)}, r"norm.weight is torch.float32 \[31\], not \[32\]"),
                          ({"norm.weight": torch.zeros(32, dtype=torch.int8)}, "norm.weight is torch.int8"),
                          ({"midlayer.a.b": torch.zeros(1)}, "layers.0.a.b is unknown")):
        tensors = {name: tensor for name, tensor in (good | change).items() if tensor is not None}
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(LoadError, match=words):
            read_head(folder, target)


def test_more_layers_than_a_head_has(target, tokens, tmp_path):
    folder = save_specforge(tmp_path / "head", head_of(), {f"layers.{n}.x": torch.zeros(1) for n in range(17)},
                            {"vocab_size": target.vocab_size})
    with pytest.raises(LoadError, match="have 17 layers; 1 to 16 are allowed"):
        read_head(folder, target)


# --- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [{}, {"norm_output": True, "fc_norm": True}, {"norm_before_fc": True, "qk_norm": True},
                                  {"norm_before_residual": True, "aux_layers": (0, 2, 4)},
                                  {"layer": {"num_hidden_layers": 2}},
                                  {"layer": {"attention_bias": True, "mlp_bias": True}},
                                  {"layer": {"rope_parameters": {"rope_type": "linear", "factor": 2.0,
                                                                 "rope_theta": 5000.0}}}], ids=str)
def test_a_written_head_is_read_back(form, target, tokens, tmp_path):
    form = dict(form)
    head = head_of(form.pop("layer", None), **form)
    folder = tmp_path / "new" / "head"
    write_head(folder, head, tokens, target.vocab_size, dtype=torch.float32)
    loaded = read_head(folder, target)
    assert loaded.vocab.tolist() == tokens.tolist()
    assert loaded.head.config.aux_layers == head.config.aux_layers
    assert loaded.head.config.layer.rope_parameters == head.config.layer.rope_parameters
    assert [getattr(loaded.head.config, name) for name in tiny_heads.SWITCHES] == [
        getattr(head.config, name) for name in tiny_heads.SWITCHES]
    ours, theirs = loaded.head.state_dict(), head.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_what_is_written_is_specforges_layout(target, tokens, tmp_path):
    write_head(tmp_path, head_of(), tokens, target.vocab_size)
    tensors = load_file(tmp_path / "model.safetensors")
    assert sorted(tensors) == [
        "d2t", "fc.weight", "lm_head.weight", "midlayer.hidden_norm.weight", "midlayer.input_layernorm.weight",
        "midlayer.mlp.down_proj.weight", "midlayer.mlp.gate_proj.weight", "midlayer.mlp.up_proj.weight",
        "midlayer.post_attention_layernorm.weight", "midlayer.self_attn.k_proj.weight",
        "midlayer.self_attn.o_proj.weight", "midlayer.self_attn.q_proj.weight", "midlayer.self_attn.v_proj.weight",
        "norm.weight", "t2d"]
    assert (tensors["d2t"] + torch.arange(DRAFT)).tolist() == tokens.tolist()
    assert tensors["t2d"].nonzero().flatten().tolist() == tokens.tolist()
    assert {tensor.dtype for name, tensor in tensors.items() if name not in ("d2t", "t2d")} == {torch.bfloat16}
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLMEagle3"]
    assert (config["vocab_size"], config["draft_vocab_size"]) == (target.vocab_size, DRAFT)
    assert config["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [0, 1, 2]
    assert (config["rope_theta"], config["rope_scaling"], config["num_hidden_layers"]) == (5000.0, None, 1)


def test_a_head_that_scores_all_tokens_is_written_without_tables(target, tmp_path):
    write_head(tmp_path, head_of(draft_vocab=target.vocab_size), np.arange(target.vocab_size), target.vocab_size)
    assert not {"d2t", "t2d"} & load_file(tmp_path / "model.safetensors").keys()
    assert len(read_head(tmp_path, target).vocab) == target.vocab_size


# --- as a drafter of a pair -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_folder_with_a_head_is_known_by_its_configuration(layout, target, tokens, tmp_path):
    folder = LAYOUTS[layout](tmp_path / "mine", head_of(), tables(tokens, target.vocab_size),
                             {"vocab_size": target.vocab_size})
    where = target.model.config.name_or_path
    pair = load(where, ["lookup", str(folder), where], device="cpu", dtype="float32")
    assert [type(drafter) for drafter in list(pair.drafters.values())[1:]] == [Eagle3, LM]
    drafter = pair.drafters["mine"]
    assert (drafter.label, drafter.vocab) == ("mine", target.vocab_size)
    assert drafter.ids.tolist() == tokens.tolist()
    assert "proposes 20 of" in pair.compatibility["mine"].details
    named = load(where, {"head": DrafterSpec("eagle3", folder)}, device="cpu", dtype="float32")
    assert named.drafters["head"].label == "head"
    with pytest.raises(SettingError, match="eagle3 has no setting 'depth'"):
        load(where, {"head": DrafterSpec("eagle3", folder, {"depth": 3})}, device="cpu", dtype="float32")


def hub_of(folders: dict[str, Path]):
    """Stands in for transformers' `cached_file`, with these folders as a hub."""
    def cached_file(place: str, name: str, *, local_files_only: bool, _raise_exceptions_for_missing_entries: bool):
        assert not local_files_only
        path = folders.get(place, Path("nowhere")) / name
        if not path.exists() and _raise_exceptions_for_missing_entries:
            raise OSError(f"{place} does not appear to have a file named {name}.")
        return str(path) if path.exists() else None
    return cached_file


@pytest.mark.parametrize("save", [save_specforge, save_eagle])
def test_a_hub_id_with_a_head_is_known_too(save, target, tokens, tmp_path, monkeypatch):
    head = head_of()
    folder = save(tmp_path / "mine", head, tables(tokens, target.vocab_size), {"vocab_size": target.vocab_size})
    where = target.model.config.name_or_path
    monkeypatch.setattr("treegraft.models.eagle3_files.cached_file", hub_of({"owner/mine": folder}))
    pair = load(where, ["owner/mine"], device="cpu", dtype="float32")
    assert torch.equal(pair.drafters["mine"].head.fc.weight, head.fc.weight)
    (folder / "model.safetensors").unlink(missing_ok=True)
    (folder / "pytorch_model.bin").unlink(missing_ok=True)
    for name, missing in (("owner/mine", "pytorch_model.bin"), ("owner/other", "config.json")):
        with pytest.raises(LoadError, match=f"{name} cannot be loaded: .* {missing}"):
            load(where, [name], device="cpu", dtype="float32")


def test_in_half_precision(target, tokens, tmp_path):
    """Weights, states and cache have the target's dtype; the table of rotary positions stays exact."""
    folder = save_specforge(tmp_path / "mine", head_of(), tables(tokens, target.vocab_size),
                            {"vocab_size": target.vocab_size})
    pair = load(target.model.config.name_or_path, [str(folder)], device="cpu", dtype="bfloat16")
    run = record(pair, "one two three", Eagle2(budget=8, top_k=2, depth=3), max_new_tokens=6, raw=True, costs=False).run
    head = pair.drafters["mine"].head
    assert {weight.dtype for weight in head.state_dict().values()} == {torch.bfloat16}
    assert torch.equal(head.rotary.inv_freq, 1 / 5000.0 ** (torch.arange(0, 8, 2) / 8))
    assert all(len(traced.record.nodes.token) > 7 for traced in run.rounds)


def test_a_kind_alone_lacks_its_weights(target):
    with pytest.raises(LoadError, match="Drafter eagle3 needs weights"):
        load(target.model.config.name_or_path, ["eagle3"], device="cpu", dtype="float32")


def test_a_head_of_another_target_is_refused(target, tokens, tmp_path):
    folder = save_specforge(tmp_path / "mine", head_of(), tables(tokens, target.vocab_size),
                            {"vocab_size": target.vocab_size})
    wide = save_llama(tmp_path / "wide", hidden_size=64, num_hidden_layers=DEPTH)
    with pytest.raises(LoadError, match="hidden states of size 32; wide has 64"):
        load(wide, [str(folder)], device="cpu", dtype="float32")
