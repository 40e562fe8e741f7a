"""EAGLE-3 heads on disk: read the public layouts (see `eagle3_layouts`), write SpecForge's."""

from __future__ import annotations

import json
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.utils import cached_file

from treegraft.models.capture import decoder_layers
from treegraft.models.eagle3 import Eagle3Head, HeadConfig
from treegraft.models.eagle3_layouts import draft_tokens, head_config, written_config
from treegraft.models.errors import LoadError
from treegraft.models.weights import Source, explained, locate

if TYPE_CHECKING:
    from treegraft.models.loader import TargetModel

MAX_CONFIG_BYTES = 1 << 20
CONFIG, SAFE, PICKLED = "config.json", "model.safetensors", "pytorch_model.bin"


@dataclass(frozen=True)
class LoadedHead:
    """A head that fits its target: `vocab` are the target's ids of the tokens that it scores, `embeddings` [vocab,
    hidden] what it knows tokens by (the target's own tensor unless the files bring others)."""

    head: Eagle3Head
    vocab: np.ndarray
    embeddings: torch.Tensor

    @property
    def coverage(self) -> str:
        """How many of the target's tokens it can propose."""
        total = self.embeddings.shape[0]
        return f"proposes {len(self.vocab)} of the target's {total} tokens ({len(self.vocab) / total:.0%})"


# --- reading --------------------------------------------------------------------------------------------------------


def is_head(source: Source) -> bool:
    """Whether a folder or hub id holds an EAGLE-3 head, by its configuration. Errors: `LoadError`."""
    if source.gguf:
        return False
    config = raw_config(source)
    return (config.get("speculators_model_type") == "eagle3" or "draft_vocab_size" in config
            or "eagle3" in str(config.get("architectures")).lower())


def read_head(given: Source | str | Path, target: TargetModel) -> LoadedHead:
    """The head in a folder or hub id, in the target's dtype and on its device, in eval mode, without gradients.

    Errors: `LoadError` for files that are no EAGLE-3 head, or one that was made for another target.
    """
    source = given if isinstance(given, Source) else locate(given)
    raw, tensors = raw_config(source), read_tensors(source)
    config = head_config(source, raw, tensors, len(decoder_layers(target.model)))
    check_target(source, config, target)
    embeddings = choose_embeddings(source, config.layer.hidden_size, tensors.pop("embed_tokens.weight", None),
                                   target)
    vocab = draft_tokens(source, config.draft_vocab, target.vocab_size, tensors.pop("d2t", None),
                         tensors.pop("t2d", None))
    with torch.device("meta"), explained(source):
        head = Eagle3Head(config)
    check_tensors(source, head, tensors, "an EAGLE-3 head")
    head.load_state_dict({name: tensor.to(target.device, target.dtype) for name, tensor in tensors.items()},
                         assign=True)
    with explained(source):
        head.rotary = LlamaRotaryEmbedding(config.layer).to(target.device)
    return LoadedHead(head.eval().requires_grad_(False), vocab, embeddings)


def raw_config(source: Source) -> dict[str, Any]:
    """config.json as it stands. Errors: `LoadError`."""
    path = find(source, CONFIG)
    if path is None:
        raise LoadError(f"{source} has no config.json, so it is not a Hugging Face model.")
    if path.stat().st_size > MAX_CONFIG_BYTES:
        raise LoadError(f"The config.json of {source} has {path.stat().st_size} bytes; at most {MAX_CONFIG_BYTES} are "
                        "read, as a model's has a few thousand.")
    with explained(source):
        config = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        raise LoadError(f"The config.json of {source} does not hold a JSON object.")
    return config


def find(source: Source, *names: str) -> Path | None:
    """The first of these files that there is, None if a folder has none of them; fetched where the source is a hub id.

    Errors: `LoadError` for a hub id without any of them, or a hub that does not answer.
    """
    for name in names:
        with explained(source):
            path = cached_file(source.place, name, local_files_only=source.local,
                               _raise_exceptions_for_missing_entries=not source.local and name == names[-1])
        if path is not None:
            return Path(path)
    return None


def read_tensors(source: Source) -> dict[str, torch.Tensor]:
    """The tensors by the names of `Eagle3Head`, with `d2t`, `t2d` and `embed_tokens.weight`. Errors: `LoadError`."""
    path = find(source, SAFE, PICKLED)
    if path is None:
        raise LoadError(f"{source} has the configuration of an EAGLE-3 head but no weights: neither {SAFE} nor "
                        f"{PICKLED}, as EAGLE publishes them.")
    with explained(source):
        tensors = load_pickled(path) if path.suffix == ".bin" else load_file(path)
    ours = {name.removeprefix("model.").replace("midlayer.", "layers.0."): tensor for name, tensor in tensors.items()}
    return {name: tensor for name, tensor in ours.items()
            if not name.startswith("verifier_") and "rotary_emb" not in name}


def load_pickled(path: Path) -> dict[str, torch.Tensor]:
    """A pickled file of named tensors, read without running what it says. Errors: `LoadError` for any other content."""
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise LoadError(f"{path} holds more than tensors, which could run code when it is read, so it is refused. "
                        f"Convert it to {SAFE} where you trust it.") from error
    if not (isinstance(tensors, dict) and all(isinstance(name, str) and isinstance(tensor, torch.Tensor)
                                              for name, tensor in tensors.items())):
        raise LoadError(f"{path} does not hold named tensors alone, as the weights of an EAGLE-3 head do.")
    return tensors


# --- does it fit? ---------------------------------------------------------------------------------------------------


def check_target(source: Source, config: HeadConfig, target: TargetModel) -> None:
    """Errors: `LoadError` for a head that reads another width or other tokens than the target has."""
    hidden = target.model.config.get_text_config().hidden_size
    for what, ours, theirs in (("hidden states of size", config.target_hidden, hidden),
                               ("a vocabulary of", config.layer.vocab_size, target.vocab_size)):
        if ours != theirs:
            raise LoadError(f"{source} was made for a target with {what} {ours}; {target.name} has {theirs}. Use it "
                            "with its own target.")


def choose_embeddings(source: Source, width: int, own: torch.Tensor | None, target: TargetModel) -> torch.Tensor:
    """What a drafter of this width knows tokens by: its own tensor where that differs from the target's.

    Errors: `LoadError`.
    """
    theirs, shape = target.model.get_input_embeddings().weight, (target.vocab_size, width)
    if own is not None:
        if tuple(own.shape) != shape or not own.is_floating_point():
            raise LoadError(f"{source} has embed_tokens.weight of shape {list(own.shape)}; {list(shape)} is needed.")
        own = own.to(theirs.device, theirs.dtype)
        return theirs if own.shape == theirs.shape and torch.equal(own, theirs) else own
    if tuple(theirs.shape) != shape:
        raise LoadError(f"{source} has no embed_tokens.weight and cannot share the target's: it is {width} wide, "
                        f"{target.name} {theirs.shape[1]}.")
    return theirs.detach()


def check_tensors(source: Source, net: torch.nn.Module, tensors: dict[str, torch.Tensor], what: str) -> None:
    """Fill in what may be left out. Errors: `LoadError` for tensors that are missing, unknown or misshapen, as those
    of `what`."""
    wanted = net.state_dict()
    for name in [name for name in wanted if name.endswith("o_proj.bias")]:
        tensors.setdefault(name, torch.zeros(wanted[name].shape))
    wrong = [f"{name} is missing" for name in wanted if name not in tensors]
    wrong += [f"{str(name)[:80]} is unknown" for name in tensors if name not in wanted]
    wrong += [f"{name} is {tensor.dtype} {list(tensor.shape)}, not {list(wanted[name].shape)}"
              for name, tensor in tensors.items()
              if name in wanted and (tensor.shape != wanted[name].shape or not tensor.is_floating_point())]
    if wrong:
        raise LoadError(f"The weights of {source} do not fit its config.json as {what}: {len(wrong)} tensors are "
                        f"missing, unknown or misshapen; {wrong[0]}.")


# --- writing --------------------------------------------------------------------------------------------------------


def write_head(folder: Path, head: Eagle3Head, vocab: np.ndarray, target_vocab: int,
               dtype: torch.dtype = torch.bfloat16) -> None:
    """Write a head in SpecForge's layout, replacing the one in `folder`.

    `vocab` are the target's ids of the tokens that it scores, ascending, `target_vocab` is how many there are.
    """
    single = len(head.layers) == 1
    tensors = {name.replace("layers.0.", "midlayer.") if single else name: tensor.detach().to("cpu", dtype).contiguous()
               for name, tensor in head.state_dict().items()}
    if len(vocab) < target_vocab:
        members = np.zeros(target_vocab, bool)
        members[vocab] = True
        tensors |= {"d2t": torch.from_numpy(vocab - np.arange(len(vocab))), "t2d": torch.from_numpy(members)}
    folder.mkdir(parents=True, exist_ok=True)
    weights, config = folder / f"{SAFE}.part", folder / f"{CONFIG}.part"
    save_file(tensors, weights, metadata={"format": "pt"})
    config.write_text(json.dumps(written_config(head.config, len(vocab), target_vocab, dtype), indent=1) + "\n")
    os.replace(weights, folder / SAFE)
    os.replace(config, folder / CONFIG)
