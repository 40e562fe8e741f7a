"""Load a target with its drafters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from treegraft.datastore.files import is_store
from treegraft.datastore.files import load as load_store
from treegraft.drafters import DRAFTERS, drafter_class
from treegraft.drafters.base import Drafter
from treegraft.drafters.block import Block
from treegraft.drafters.datastore import Datastore
from treegraft.drafters.eagle3 import Eagle3
from treegraft.drafters.lm import LM
from treegraft.drafters.successors import Rows, Successors
from treegraft.models.cache import CachedModel, attention_windows, position_limit
from treegraft.models.device import pick_device, pick_dtype
from treegraft.models.dflash_files import is_block, read_block
from treegraft.models.eagle3_files import is_head, read_head
from treegraft.models.errors import LoadError
from treegraft.models.fetch import Progress, fetch
from treegraft.models.memory import keep_memory
from treegraft.models.pairs import FREE_DRAFTERS, PAIRS, DrafterSpec
from treegraft.models.successors_files import is_matrix
from treegraft.models.successors_files import load as load_rows
from treegraft.models.tokenizer import Compatibility, compatibility, vocabulary_hash
from treegraft.models.weights import Source, locate, read_config, read_model, read_tokenizer, tensor_names

RANKING_FILE = "ranking.safetensors"
"""Beside a drafter's weights: `tokens`, the token ids that occur in its training text, most frequent first."""


@dataclass
class TargetModel:
    """The model that verifies.

    `vocab_size` counts its embedding rows; `usable_vocab` of them may be proposed and chosen (fewer where a drafter is
    padded otherwise). `context_limit` is in tokens. `eos_ids` end a text.
    """

    name: str
    revision: str
    model: PreTrainedModel = field(repr=False)
    tokenizer: PreTrainedTokenizerBase = field(repr=False)
    context_limit: int
    usable_vocab: int
    eos_ids: set[int]
    _cached: CachedModel | None = field(default=None, init=False, repr=False)

    @property
    def dtype(self) -> torch.dtype:
        return self.model.dtype

    @property
    def device(self) -> torch.device:
        return self.model.get_input_embeddings().weight.device

    @property
    def vocab_size(self) -> int:
        return self.model.get_input_embeddings().weight.shape[0]

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.model.parameters())

    def cached(self, rows: int) -> CachedModel:
        """The model with a KV cache of at least `rows` tokens, kept from one run to the next."""
        if self._cached is None or self._cached.max_rows < rows:
            self._cached = None
            self._cached = CachedModel(self.model, rows, self.usable_vocab)
        return self._cached


@dataclass
class Pair:
    """A target and its drafters by name, the cheapest first. Hold `lock` while you decode: caches are shared."""

    name: str
    target: TargetModel
    drafters: dict[str, Drafter]
    compatibility: dict[str, Compatibility]
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)


@dataclass(frozen=True)
class Wishes:
    """What the user asked of all models of a pair."""

    dtype: torch.dtype
    device: torch.device
    trust_remote_code: bool
    progress: Progress


def load(target: str | Path = "smollm2", drafters: Sequence[str] | Mapping[str, DrafterSpec] | None = None, *,
         dtype: str | torch.dtype | None = None, device: str | torch.device | None = None,
         max_context: int | None = None, trust_remote_code: bool = False,
         progress: Progress = lambda stage, fraction: None) -> Pair:
    """Load `target` (a pair's name, hub id, folder or .gguf file) and its drafters.

    `drafters` names those of the pair, those that need no weights, or any causal LM, EAGLE-3 head or DFlash drafter of
    this target (hub id, folder, .gguf file), or maps names of your choice to specs; by default all of a named pair,
    else those that need no weights. `dtype` and `device` default to the best of this machine. `max_context` lowers the
    target's context (tokens). A named pair is fetched first if it is not here; `progress` hears about it.

    Errors: `ModelError` (`FetchError`, `LoadError`, `DeviceError`), `SettingError` for a drafter's settings.
    """
    keep_memory()
    place = pick_device(device)
    wishes = Wishes(pick_dtype(place, dtype), place, trust_remote_code, progress)
    spec = PAIRS.get(str(target))
    model = load_target(target, wishes)
    model.context_limit = limited_context(model, max_context)
    wanted = wanted_drafters(drafters, spec.drafters if spec else FREE_DRAFTERS)
    return pair_up(model, wanted, wishes)


def pair_up(target: TargetModel, drafters: Mapping[str, DrafterSpec], wishes: Wishes) -> Pair:
    """A loaded target with these drafters. Errors: as `load`."""
    made: dict[str, Drafter] = {}
    verdicts: dict[str, Compatibility] = {}
    for name, drafter in drafters.items():
        wishes.progress(f"loading {name}", None)
        build = BUILDERS.get(drafter.kind, build_without_weights)
        made[name], verdicts[name] = build(name, drafter, target, wishes)
    return finish(Pair(target.name, target, made, verdicts))


def finish(pair: Pair) -> Pair:
    """Cut everybody's logits to the tokens that all models of the pair have."""
    usable = min([pair.target.vocab_size, *(verdict.usable_vocab for verdict in pair.compatibility.values())])
    pair.target.usable_vocab = usable
    for drafter in pair.drafters.values():
        if isinstance(drafter, (LM, Eagle3, Block, Successors, Datastore)):
            drafter.vocab = usable
    return pair


def limited_context(target: TargetModel, asked: int | None) -> int:
    """The context to use. Errors: `LoadError` for more than the target has, or too little."""
    if asked is None:
        return target.context_limit
    if not 2 <= asked <= target.context_limit:
        raise LoadError(f"max_context was {asked}; allowed: 2 to {target.context_limit}, the context of {target.name}.")
    return asked


# --- the target -----------------------------------------------------------------------------------------------------


def load_target(given: str | Path, wishes: Wishes) -> TargetModel:
    """The target, fetched first if it is a named one."""
    pair = PAIRS.get(str(given))
    source = locate(fetch(pair.target, wishes.progress) if pair else given)
    config = read_config(source, wishes.trust_remote_code)
    wishes.progress("loading the target", None)
    tokenizer = read_tokenizer(source, wishes.trust_remote_code)
    model = read_model(source, config, wishes.dtype, wishes.device, trust_remote_code=wishes.trust_remote_code)
    if model._is_stateful:
        raise LoadError(f"{source} keeps a recurrent state, which cannot follow the branches of a tree. Use a model "
                        "whose layers are all attention.")
    attention_windows(model)
    return TargetModel(
        name=pair.name if pair else source.name, revision=pair.target.revision if pair else revision(config),
        model=model, tokenizer=tokenizer, context_limit=context_limit(config, tokenizer),
        usable_vocab=model.get_input_embeddings().weight.shape[0], eos_ids=eos_ids(model, tokenizer))


def revision(config: PreTrainedConfig) -> str:
    """The hub's commit that the model is from, empty for local files."""
    return getattr(config, "_commit_hash", None) or ""


def context_limit(config: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens that the model was made for; where its configuration does not say, what its tokenizer says."""
    return int(position_limit(config) or tokenizer.model_max_length)


def eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """All tokens that end a text, by the generation settings and by the tokenizer."""
    found = {tokenizer.eos_token_id}
    ends = model.generation_config.eos_token_id if model.generation_config else None
    found |= set(ends) if isinstance(ends, (list, tuple)) else {ends}
    return found - {None}


# --- the drafters ---------------------------------------------------------------------------------------------------


def wanted_drafters(given: Sequence[str] | Mapping[str, DrafterSpec] | None,
                    known: dict[str, DrafterSpec]) -> Mapping[str, DrafterSpec]:
    """Specs by name: those `known` for the target, another kind that needs no weights, or else a model, whose kind its
    configuration tells.

    Errors: `LoadError` for a kind that there is not, or one that lacks its weights.
    """
    if given is None:
        return known
    if isinstance(given, str):
        raise LoadError(f"drafters was {given!r}; give a list of names, such as [{given!r}].")
    wanted = given if isinstance(given, Mapping) else {}
    for item in [] if wanted else given:
        if item in known:
            wanted[item] = known[item]
        elif item in DRAFTERS:
            wanted[item] = DrafterSpec(item)
        else:
            name, kind = name_and_kind(item)
            wanted[name if name not in wanted else f"{name}-{len(wanted) + 1}"] = DrafterSpec(kind, item)
    for name, spec in wanted.items():
        if spec.kind not in DRAFTERS:
            raise LoadError(f"Drafter {name} is of kind {spec.kind!r}; allowed: {', '.join(DRAFTERS)}.")
        drafter_class(spec.kind).check_names(spec.settings)
        if spec.kind in BUILDERS and spec.kind not in STARTING_EMPTY and spec.weights is None:
            raise LoadError(f"Drafter {name} needs weights. Give a folder, a hub id or a .gguf file"
                            f"{', or one of: ' + ', '.join(known) if known else ''}.")
    return wanted


def name_and_kind(given: str | Path) -> tuple[str, str]:
    """The name and the kind of the drafter in a folder, hub id or GGUF file, by what is there. Errors: `LoadError`."""
    if is_matrix(given):
        return Path(given).expanduser().resolve().name, "successors"
    if is_store(given):
        return Path(given).expanduser().resolve().name, "datastore"
    source = locate(given)
    return source.name, "block" if is_block(source) else "eagle3" if is_head(source) else "lm"


Built = tuple[Drafter, Compatibility]


def build_without_weights(name: str, spec: DrafterSpec, target: TargetModel, wishes: Wishes) -> Built:
    return drafter_class(spec.kind)(**spec.settings), Compatibility(
        "same", target.vocab_size, "proposes tokens that the target's context holds")


def build_lm(name: str, spec: DrafterSpec, target: TargetModel, wishes: Wishes) -> Built:
    """A causal LM as drafter, sharing the target's embeddings if its files leave them out.

    Errors: `LoadError` for a model that does not speak the target's tokens.
    """
    source = locate(spec.weights)
    config = read_config(source, wishes.trust_remote_code)
    if is_without_embeddings(source):
        model, verdict = read_sharing(source, config, target), Compatibility(
            "same", target.vocab_size, "uses the target's own embeddings")
    else:
        tokenizer = read_tokenizer(source, wishes.trust_remote_code)
        rows = config.get_text_config().vocab_size
        verdict = compatibility(target.tokenizer, target.vocab_size, tokenizer, rows)
        if verdict.verdict == "different":
            raise LoadError(f"{name} cannot draft for {target.name}: their tokens differ ({verdict.details}). Use a "
                            "drafter of the same model family.")
        model = read_model(source, config, target.dtype, target.device, trust_remote_code=wishes.trust_remote_code)
    attention_windows(model)
    return LM(**spec.settings, model=model, title=name, ranking=read_ranking(source)), verdict


def build_eagle3(name: str, spec: DrafterSpec, target: TargetModel, wishes: Wishes) -> Built:
    """An EAGLE-3 head as drafter. Errors: `LoadError` for a head that was made for another target."""
    loaded = read_head(locate(spec.weights), target)
    drafter = Eagle3(**spec.settings, head=loaded.head, embeddings=loaded.embeddings, ids=loaded.vocab, title=name)
    return drafter, Compatibility("same", target.vocab_size, loaded.coverage)


def build_block(name: str, spec: DrafterSpec, target: TargetModel, wishes: Wishes) -> Built:
    """A DFlash drafter. Errors: `LoadError` for one that was made for another target."""
    loaded = read_block(locate(spec.weights), target)
    drafter = Block(**spec.settings, net=loaded.net, embeddings=loaded.embeddings, head=loaded.head, ids=loaded.vocab,
                    title=name)
    return drafter, Compatibility("same", target.vocab_size, loaded.coverage)


def build_successors(name: str, spec: DrafterSpec, target: TargetModel, wishes: Wishes) -> Built:
    """Successor rows, from those of a warm-up where the spec says where they are.

    Errors: `LoadError` for rows of another target.
    """
    start = Rows() if spec.weights is None else load_rows(spec.weights, target)
    return Successors(**spec.settings, start=start, title=name), Compatibility(
        "same", target.vocab_size, f"proposes the target's own next tokens; {len(start)} rows to start from")


def build_datastore(name: str, spec: DrafterSpec, target: TargetModel, wishes: Wishes) -> Built:
    """A datastore as drafter. Errors: `LoadError` for one of another target's tokens."""
    vocabulary = vocabulary_hash(target.tokenizer, target.vocab_size)
    store = load_store(spec.weights, target.name, target.vocab_size, vocabulary)
    return Datastore(**spec.settings, store=store, title=name, vocab=target.vocab_size), Compatibility(
        "same", target.vocab_size, f"holds {store.identity}")


BUILDERS: dict[str, Callable[[str, DrafterSpec, TargetModel, Wishes], Built]] = {
    "lm": build_lm, "eagle3": build_eagle3, "block": build_block, "successors": build_successors,
    "datastore": build_datastore}
"""How each kind of drafter that has weights is made. A new kind is a function and an entry here."""

STARTING_EMPTY = frozenset({"successors"})
"""The kinds among them that do without weights, too."""


def is_without_embeddings(source: Source) -> bool:
    """Whether a local folder's weights leave the embeddings out."""
    names = tensor_names(source) if source.local and not source.gguf else []
    return bool(names) and not any("embed" in name or "wte" in name for name in names)


def read_sharing(source: Source, config: PreTrainedConfig, target: TargetModel) -> PreTrainedModel:
    """A drafter whose embeddings and output head are the target's own tensors. Errors: `LoadError` on other shapes."""
    embeddings, head = target.model.get_input_embeddings(), target.model.get_output_embeddings()
    shape = (config.vocab_size, config.hidden_size)
    if tuple(embeddings.weight.shape) != shape:
        raise LoadError(f"{source} was made for a target with embeddings {list(shape)}; those of {target.name} are "
                        f"{list(embeddings.weight.shape)}. Use it with its own target.")
    shared = {"model.embed_tokens.weight": embeddings.weight, "lm_head.weight": head.weight}
    model = read_model(source, config, target.dtype, target.device, shared=shared)
    model.set_input_embeddings(embeddings)
    model.set_output_embeddings(head)
    return model


def read_ranking(source: Source) -> np.ndarray | None:
    """Token ids by falling frequency, where the folder has them (see `RANKING_FILE`)."""
    path = Path(source.place, RANKING_FILE)
    return load_file(path)["tokens"].astype(np.int64) if source.local and path.is_file() else None
