"""Models are read from folders, GGUF files and the hub; what cannot be read is refused with a way out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, BertConfig, LlamaConfig, LlamaForCausalLM, T5Config

from tests.models.tiny_folders import save_gguf, save_llama
from treegraft.models import weights
from treegraft.models.errors import LoadError
from treegraft.models.weights import locate, read_config, read_model, read_tokenizer

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    return save_llama(tmp_path_factory.mktemp("models") / "tiny-llama")


def read(place: str | Path, **options):
    source = locate(place)
    return read_model(source, read_config(source), torch.float32, CPU, **options)


# --- places ---------------------------------------------------------------------------------------------------------


def test_a_folder_a_file_and_a_hub_id_are_told_apart(llama, tmp_path):
    (tmp_path / "Model.GGUF").write_bytes(b"GGUF")
    assert locate(llama) == locate(str(llama)) == weights.Source(str(llama))
    assert locate(tmp_path / "Model.GGUF") == weights.Source(str(tmp_path), gguf="Model.GGUF")
    assert locate("owner/Some.Model-1B") == weights.Source("owner/Some.Model-1B", local=False)
    assert [locate(place).name for place in (llama, tmp_path / "Model.GGUF", "owner/Some.Model-1B")] == [
        "tiny-llama", "Model", "Some.Model-1B"]


@pytest.mark.parametrize(("given", "message"), [
    ("./nowhere", "no folder './nowhere'"), ("/no/where/else", "no folder"), (Path("nowhere"), "no folder"),
    ("a/b/c", "no folder"), ("../up", "no folder"), ("", "no folder"), ("nowhere.gguf", "no GGUF file")])
def test_what_is_not_there_is_named(given, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LoadError, match=message):
        locate(given or "/definitely/missing")


@pytest.mark.parametrize("given", ["a" * 5000, "b" * 300 + ".gguf", "~nobody-here/model", "./" + "c" * 300])
def test_paths_that_cannot_be_are_refused(given):
    with pytest.raises(LoadError, match=r"cannot be looked for|There is no"):
        locate(given)


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(LoadError, match=r"has no config\.json"):
        locate(tmp_path)


# --- reading --------------------------------------------------------------------------------------------------------


def test_a_folder_is_read_whole_and_ready_to_run(llama):
    model = read(llama)
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    original = LlamaForCausalLM.from_pretrained(llama)
    assert all(torch.equal(ours, theirs) for ours, theirs in
               zip(model.parameters(), original.parameters(), strict=True))
    source = locate(llama)
    assert read_model(source, read_config(source), torch.bfloat16, CPU).dtype == torch.bfloat16


def test_a_gguf_file_is_read_as_the_model_that_it_holds(llama, tmp_path):
    path = save_gguf(tmp_path / "tiny.gguf", llama)
    model, original = read(path), read(llama)
    tokens = torch.tensor([[1, 5, 9, 200, 17]])
    assert torch.allclose(model(tokens).logits, original(tokens).logits, atol=1e-4)
    vocab, rows = read_tokenizer(locate(path)).get_vocab(), model.config.vocab_size
    assert {token: id for token, id in vocab.items() if id < rows} == read_tokenizer(locate(llama)).get_vocab()
    model.save_pretrained(tmp_path / "again")
    assert torch.equal(read(tmp_path / "again").lm_head.weight, model.lm_head.weight)


def test_a_broken_gguf_file_is_refused(tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(LoadError, match=r"bad\.gguf cannot be read"):
        read(tmp_path / "bad.gguf")


@pytest.mark.parametrize("config", [T5Config(), BertConfig()])
def test_other_kinds_of_models_are_refused(config, tmp_path):
    config.save_pretrained(tmp_path)
    with pytest.raises(LoadError, match="not a causal"):
        read(tmp_path)


def test_an_unknown_kind_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt-of-tomorrow"}')
    with pytest.raises(LoadError, match="cannot be loaded"):
        read(tmp_path)


@pytest.mark.parametrize("text", ['{"model_type": ', "[]", '{"model_type": "llama", "hidden_size": "x"}',
                                  '{"model_type": "llama", "rope_parameters": 3}'])
def test_a_damaged_config_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(LoadError, match="cannot be loaded"):
        read(tmp_path)


def test_pickled_weights_are_never_read(tmp_path):
    LlamaConfig(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1,
                num_key_value_heads=1).save_pretrained(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n")
    with pytest.raises(LoadError, match="Pickled weights"):
        read(tmp_path)


def test_incomplete_weights_are_refused(llama, tmp_path):
    save_llama(tmp_path, num_hidden_layers=1)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 2}))
    with pytest.raises(LoadError, match=r"9 tensors are missing or misshapen, the first is model\.layers\.1"):
        read(tmp_path)


def test_damaged_weights_are_refused(tmp_path):
    save_llama(tmp_path)
    data = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(LoadError, match="cannot be loaded"):
        read(tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(llama, tmp_path):
    LlamaForCausalLM.from_pretrained(llama).save_pretrained(tmp_path)
    with pytest.raises(LoadError, match="has no tokenizer that can be read"):
        read_tokenizer(locate(tmp_path))


def test_code_of_strangers_is_not_run_unasked(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({
        "model_type": "stranger", "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"}}))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(LoadError, match=r"brings its own Python code.*trust_remote_code=True"):
        read(tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("error", "message"), [
    (OSError("We couldn't connect to 'the hub' to load the files"), "the hub does not answer"),
    (OSError("owner/name is not a local folder and is not a valid model identifier"), "no model owner/name"),
    (OSError("You are trying to access a gated repo"), "hf auth login"),
    (ValueError("something else\nwith more lines"), "owner/name cannot be loaded: something else$"),
])
def test_troubles_with_the_hub_are_explained(monkeypatch, error, message):
    def fail(*args, **kwargs):
        raise error
    monkeypatch.setattr(AutoConfig, "from_pretrained", fail)
    with pytest.raises(LoadError, match=message):
        read("owner/name")


# --- several GPUs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("free", "count", "expected"), [(10**9, 1, "whole"), (10**9, 4, "whole"), (1000, 2, "auto")])
def test_a_model_is_spread_only_where_one_gpu_is_too_small(llama, monkeypatch, free, count, expected):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, free))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    device = torch.device("cuda:0")
    source = locate(llama)
    found = weights.device_map(source, read_config(source), torch.bfloat16, device, False)
    assert found == ("auto" if expected == "auto" else {"": device})


def test_a_single_gpu_that_is_too_small_is_said(llama, monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 1000))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    source = locate(llama)
    with pytest.raises(LoadError, match="Use a smaller model, or device='cpu'"):
        weights.device_map(source, read_config(source), torch.bfloat16, torch.device("cuda:0"), False)


@pytest.fixture
def asked(monkeypatch, llama) -> dict:
    """What transformers is asked for when a model is read; it always returns the same one."""
    options = {}

    def from_pretrained(place, **given):
        options.update(given)
        return LlamaForCausalLM.from_pretrained(llama), {"missing_keys": [], "mismatched_keys": []}
    monkeypatch.setattr(weights.AutoModelForCausalLM, "from_pretrained", from_pretrained)
    return options


def test_the_device_map_reaches_transformers(llama, asked, monkeypatch):
    monkeypatch.setattr(weights, "device_map", lambda *args: "auto")
    source = locate(llama)
    read_model(source, read_config(source), torch.bfloat16, torch.device("cuda:0"))
    assert asked["device_map"] == "auto"
    assert asked["use_safetensors"] is True
    assert asked["trust_remote_code"] is False
    assert asked["local_files_only"] is True


def test_a_gguf_file_is_always_dequantised(llama, asked):
    config = read_config(locate(llama))
    read_model(weights.Source(str(llama), gguf="model.gguf"), config, torch.float32, CPU)
    assert asked["gguf_file"] == "model.gguf"
    assert asked["quantization_config"].dequantize is True
