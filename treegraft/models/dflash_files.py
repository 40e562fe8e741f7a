"""DFlash drafters on disk: read the public layouts (see `dflash_layouts`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import nn
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

from treegraft.models.capture import decoder_layers
from treegraft.models.dflash import BlockConfig, BlockNet
from treegraft.models.dflash_layouts import block_config, is_block_config
from treegraft.models.eagle3_files import SAFE, check_tensors, choose_embeddings, find, raw_config
from treegraft.models.eagle3_layouts import draft_tokens, size
from treegraft.models.errors import LoadError
from treegraft.models.weights import Source, explained, locate

if TYPE_CHECKING:
    from treegraft.models.loader import TargetModel


@dataclass(frozen=True)
class LoadedBlock:
    """A DFlash drafter that fits its target: `vocab` are the target's ids of the tokens that `head` scores,
    `embeddings` [vocab, hidden] what it knows tokens by. Both are the target's own unless the files bring others."""

    net: BlockNet
    vocab: np.ndarray
    embeddings: torch.Tensor
    head: nn.Module

    @property
    def coverage(self) -> str:
        """What it drafts, and how many of the target's tokens it can propose."""
        config, total = self.net.config, self.embeddings.shape[0]
        drafted = config.block - (not config.from_anchor)
        return f"drafts {drafted} tokens at once, of {len(self.vocab)} of the target's {total}"


def is_block(source: Source) -> bool:
    """Whether a folder or hub id holds a DFlash drafter, by its configuration. Errors: `LoadError`."""
    return not source.gguf and is_block_config(raw_config(source))


def read_block(given: Source | str | Path, target: TargetModel) -> LoadedBlock:
    """The drafter in a folder or hub id, in the target's dtype and on its device, in eval mode, without gradients.

    Errors: `LoadError` for files that are no DFlash drafter, or one that was made for another target.
    """
    source = given if isinstance(given, Source) else locate(given)
    raw, tensors = raw_config(source), read_tensors(source)
    config = block_config(source, raw, tensors, len(decoder_layers(target.model)))
    check_target(source, config, target)
    embeddings = choose_embeddings(source, config.layer.hidden_size, tensors.pop("embed_tokens.weight", None),
                                   target)
    draft = size(source, "draft_vocab_size", raw.get("draft_vocab_size") or target.vocab_size)
    vocab = draft_tokens(source, draft, target.vocab_size, tensors.pop("d2t", None), tensors.pop("t2d", None))
    head = choose_head(source, config, tensors.pop("lm_head.weight", None), vocab, target)
    with torch.device("meta"), explained(source):
        net = BlockNet(config)
    check_tensors(source, net, tensors, "a DFlash drafter")
    net.load_state_dict({name: tensor.to(target.device, target.dtype) for name, tensor in tensors.items()},
                        assign=True)
    with explained(source):
        net.rotary = LlamaRotaryEmbedding(config.layer).to(target.device)
    return LoadedBlock(net.eval().requires_grad_(False), vocab, embeddings, head)


def read_tensors(source: Source) -> dict[str, torch.Tensor]:
    """The tensors by the names of `BlockNet`, with what else they bring: `d2t`, `t2d`, `embed_tokens.weight`,
    `lm_head.weight`. Errors: `LoadError`."""
    path = find(source, SAFE)
    if path is None:
        raise LoadError(f"{source} has the configuration of a DFlash drafter but no {SAFE}. Get the whole checkpoint; "
                        "pickled weights (.bin, .pt) are never loaded.")
    with explained(source):
        tensors = {name.removeprefix("model."): tensor for name, tensor in load_file(path).items()}
    return {name: tensor for name, tensor in tensors.items()
            if not name.startswith("verifier_") and "rotary_emb" not in name}


def check_target(source: Source, config: BlockConfig, target: TargetModel) -> None:
    """Errors: `LoadError` for a drafter that reads another width or other tokens than the target has, or a target whose
    embeddings are scaled."""
    hidden = target.model.config.get_text_config().hidden_size
    for what, ours, theirs in (("hidden states of size", config.layer.hidden_size, hidden),
                               ("a vocabulary of", config.layer.vocab_size, target.vocab_size)):
        if ours != theirs:
            raise LoadError(f"{source} was made for a target with {what} {ours}; {target.name} has {theirs}. Use it "
                            "with its own target.")
    if config.mask >= target.vocab_size:
        raise LoadError(f"{source} masks with token {config.mask}; {target.name} has {target.vocab_size} tokens. Use "
                        "it with its own target.")
    scale: Any = getattr(target.model.get_input_embeddings(), "embed_scale", 1.0)
    if float(scale) != 1.0:
        raise LoadError(f"{target.name} scales its embeddings by {float(scale):g}, and the public codes differ on "
                        "whether a DFlash drafter reads them scaled. Use another drafter.")


def choose_head(source: Source, config: BlockConfig, own: torch.Tensor | None, vocab: np.ndarray,
                target: TargetModel) -> nn.Module:
    """The output head for the tokens `vocab`: the files' own, or else the target's. Errors: `LoadError`."""
    theirs = target.model.get_output_embeddings()
    if own is None:
        if len(vocab) < target.vocab_size:
            raise LoadError(f"{source} scores {len(vocab)} tokens but has no lm_head.weight for them. Get the whole "
                            "checkpoint.")
        return theirs
    shape = (len(vocab), config.layer.hidden_size)
    if tuple(own.shape) != shape or not own.is_floating_point():
        raise LoadError(f"{source} has lm_head.weight of shape {list(own.shape)}; {list(shape)} is needed.")
    head = nn.Linear(shape[1], shape[0], bias=False, device="meta")
    head.weight = nn.Parameter(own.to(target.device, target.dtype), requires_grad=False)
    return head
