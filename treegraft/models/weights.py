"""Read a causal language model and its tokenizer from a folder, the hub or a GGUF file, with errors that help."""

from __future__ import annotations

import io
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GgufConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging as transformers_logging

from treegraft.models.errors import LoadError

HUB_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
GPU_SHARE = 0.85
"""Share of a GPU's free memory that weights may take; the rest is for the KV cache and activations."""


@dataclass(frozen=True)
class Source:
    """Where a model is: `place` is a local folder or a hub id, `gguf` the name of a file in the folder."""

    place: str
    gguf: str | None = None
    local: bool = True

    def __str__(self) -> str:
        return str(Path(self.place, self.gguf)) if self.gguf else self.place

    @property
    def name(self) -> str:
        """Short name: the last part of the path or id."""
        return Path(self.gguf).stem if self.gguf else Path(self.place).name

    @property
    def options(self) -> dict[str, str | bool]:
        """What transformers' `from_pretrained` must be told of it."""
        return {"local_files_only": self.local} | ({"gguf_file": self.gguf} if self.gguf else {})


def locate(given: str | Path) -> Source:
    """The source that a user means by a hub id, a folder or a .gguf file. Errors: `LoadError`."""
    path = Path(os.path.expanduser(given))
    try:
        return locate_path(given, path)
    except OSError as error:
        raise LoadError(f"{str(given)[:80]!r} cannot be looked for: {error.strerror}. Give an existing folder, a .gguf "
                        "file or a hub id such as owner/name.") from error


def locate_path(given: str | Path, path: Path) -> Source:
    """`locate`, with what the disk says as `OSError`."""
    if path.suffix.lower() == ".gguf":
        if not path.is_file():
            raise LoadError(f"There is no GGUF file {str(given)!r}. Give the path of a file on this machine.")
        return Source(str(path.parent.resolve()), gguf=path.name)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise LoadError(f"The folder {str(given)!r} has no config.json, so it is not a Hugging Face model. Give a "
                            "folder with config.json and *.safetensors, or a .gguf file.")
        return Source(str(path.resolve()))
    if isinstance(given, Path) or not HUB_ID.fullmatch(given) or given.startswith("."):
        raise LoadError(f"There is no folder {str(given)!r}. Give an existing folder, a .gguf file, a hub id such as "
                        "owner/name, or the name of a pair (see `treegraft models`).")
    return Source(given, local=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' progress bars and notes off the terminal, as we report in our own words.

    transformers reads GGUF files under a bar of its own that no setting stops, hence the redirected stream."""
    hub = logging.getLogger("huggingface_hub")
    level = hub.level
    hub.setLevel(logging.ERROR)
    verbosity, bar = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity(logging.ERROR)
    transformers_logging.disable_progress_bar()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        hub.setLevel(level)
        transformers_logging.set_verbosity(verbosity)
        if bar:
            transformers_logging.enable_progress_bar()


@contextmanager
def explained(source: Source) -> Iterator[None]:
    """Turn what transformers raises into a `LoadError` that says what to do."""
    try:
        with quiet():
            yield
    except torch.OutOfMemoryError as error:
        raise LoadError(f"{source} does not fit into the memory of the device: {first_line(error)}. Use a smaller "
                        "model, a smaller dtype, or another device.") from error
    except LoadError:
        raise
    except Exception as error:  # files of strangers make transformers fail in any way
        raise LoadError(explain(source, error)) from error


def explain(source: Source, error: Exception) -> str:
    """What went wrong and what to do, by the kind of failure."""
    text = str(error)
    if "trust_remote_code" in text:
        return (f"{source} brings its own Python code, which is not run unless you ask for it. If you trust its "
                "authors, pass trust_remote_code=True (--trust-remote-code).")
    if not source.local and ("couldn't connect" in text or "offline" in text.lower()):
        return (f"{source} is neither a folder here nor in the local hub cache, and the hub does not answer. Check the "
                "network, or give a local folder or a .gguf file; the pair smollm2 needs no hub.")
    if not source.local and ("gated" in text or "not a valid model identifier" in text or "not a local folder" in text):
        return (f"The hub has no model {source} that you may read. Check the spelling; for a gated or private model, "
                "accept its terms and log in with `hf auth login`.")
    if "safetensors" in text and isinstance(error, OSError):
        return (f"{source} has no safetensors weights. Pickled weights (.bin, .pt) can run code when they are read and "
                "are never loaded; convert them to safetensors first.")
    if "backend tokenizer" in text:
        return f"{source} has no tokenizer that can be read. Its folder should hold tokenizer.json."
    if source.gguf:
        return f"The GGUF file {source} cannot be read: {first_line(error)}. transformers must know its architecture."
    return f"{source} cannot be loaded: {first_line(error)}"


def first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300].rstrip(".")


def read_config(source: Source, trust_remote_code: bool = False) -> PreTrainedConfig:
    """The model's configuration, once it is sure that it is a causal language model. Errors: `LoadError`."""
    with explained(source):
        config = AutoConfig.from_pretrained(source.place, trust_remote_code=trust_remote_code, **source.options)
    own_code = "AutoModelForCausalLM" in (getattr(config, "auto_map", None) or {})
    known = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING
    encoder = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)
    if config.is_encoder_decoder or encoder or not (known or own_code):
        raise LoadError(f"{source} is a {config.model_type} model, not a causal (decoder-only) language model. Give "
                        "one that generates text left to right, such as a Llama, Qwen, Mistral or Gemma.")
    return config


def read_model(source: Source, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device, *,
               trust_remote_code: bool = False, shared: dict[str, torch.Tensor] | None = None) -> PreTrainedModel:
    """The model in eval mode on `device`, over several GPUs where one is too small; only safetensors or GGUF is read.

    `shared` are tensors by name that the files leave out because they are another model's. Errors: `LoadError`.
    """
    options = {"config": config, "dtype": dtype, "output_loading_info": True}
    if source.gguf:
        options["quantization_config"] = GgufConfig(dequantize=True)
    if device.type != "cpu":
        options["device_map"] = device_map(source, config, dtype, device, trust_remote_code)
    with explained(source):
        if shared is None:
            model, info = AutoModelForCausalLM.from_pretrained(
                source.place, use_safetensors=None if source.gguf else True, trust_remote_code=trust_remote_code,
                **source.options, **options)
        else:
            model, info = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)].from_pretrained(
                None, state_dict=read_tensors(source) | shared, **options)
    wrong = sorted({*info["missing_keys"], *(str(key) for key in info["mismatched_keys"])})
    if wrong:
        raise LoadError(f"The weights of {source} do not fill a causal language model: {len(wrong)} tensors are "
                        f"missing or misshapen, the first is {wrong[0]}. The checkpoint may be of another kind or "
                        "incomplete.")
    return model.eval().requires_grad_(False)


def device_map(source: Source, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device,
               trust_remote_code: bool) -> str | dict[str, torch.device]:
    """The device map: all on `device`, or `auto` where the weights are too big for that GPU and there are more.

    Errors: `LoadError` where the only GPU is too small.
    """
    whole = {"": device}
    if device.type != "cuda":
        return whole
    with torch.device("meta"), explained(source):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, trust_remote_code=trust_remote_code)
    need = sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
    free = torch.cuda.mem_get_info(device)[0]
    if need <= GPU_SHARE * free:
        return whole
    if torch.cuda.device_count() > 1:
        return "auto"
    raise LoadError(f"{source} needs {need / 1e9:.1f} GB for its weights in {str(dtype).removeprefix('torch.')}, and "
                    f"{device} has {free / 1e9:.1f} GB free. Use a smaller model, or device='cpu'.")


def tensor_names(source: Source) -> list[str]:
    """Names of all tensors in a local folder's safetensors files."""
    names = []
    for path in weight_files(source):
        with explained(source), safe_open(path, "pt") as file:
            names += file.keys()
    return names


def read_tensors(source: Source) -> dict[str, torch.Tensor]:
    """All tensors of a local folder's safetensors files."""
    tensors = {}
    for path in weight_files(source):
        with explained(source):
            tensors |= load_file(path)
    return tensors


def weight_files(source: Source) -> list[Path]:
    return sorted(Path(source.place).glob("model*.safetensors"))


def read_tokenizer(source: Source, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The model's tokenizer. Errors: `LoadError`."""
    with explained(source):
        return AutoTokenizer.from_pretrained(source.place, trust_remote_code=trust_remote_code, **source.options)
