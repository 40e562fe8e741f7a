"""Hidden states inside a model: what chosen decoder layers put out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import TracebackType

import torch
from torch import nn
from transformers import PreTrainedModel

from treegraft.models.errors import LoadError


def decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    """The decoder layers in order. Errors: `LoadError` for a model that does not keep them in one list."""
    count = model.config.get_text_config().num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise LoadError(f"The {model.config.model_type} model does not keep its {count} layers in a list, so their hidden "
                    "states cannot be read. Use another drafter.")


class LayerStates:
    """Keeps what `layers` of a model (from 0) put out at its latest forward, until `close` or the end of a `with`.

    `latest[layer]` is [batch, n, hidden], on the device of the layer. A state is what the next layer reads: after the
    residual, before the model's last norm. Forward hooks do it: `output_hidden_states` costs as much, holds the states
    of all layers, and gives the last one behind the norm.
    """

    def __init__(self, model: PreTrainedModel, layers: Sequence[int]) -> None:
        self.latest: dict[int, torch.Tensor] = {}
        found = decoder_layers(model) if layers else ()
        self._hooks = [found[layer].register_forward_hook(partial(self._keep, layer)) for layer in layers]

    def _keep(self, layer: int, module: nn.Module, arguments: tuple, output: torch.Tensor | tuple) -> None:
        self.latest[layer] = output if isinstance(output, torch.Tensor) else output[0]

    def close(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self.latest = {}

    def __enter__(self) -> LayerStates:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


def side_by_side(states: Mapping[int, torch.Tensor], layers: Sequence[int]) -> torch.Tensor:
    """The states [.., n, hidden] of `layers` as one tensor [.., n, len(layers) * hidden], on the first one's device."""
    parts = [states[layer] for layer in layers]
    return torch.cat([part.to(parts[0].device) for part in parts], -1)
