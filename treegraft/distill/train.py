"""The training loop: the same for every student; can be interrupted at any time and resumed to the same weights."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import numpy as np
import torch

from treegraft.distill.data import Batch, Example, batches, collate, held_out
from treegraft.distill.errors import DistillError
from treegraft.distill.history import HISTORY, add_line, cut_history
from treegraft.distill.muon import ADAM_RMS, Muon
from treegraft.models.device import has_fast_bf16

CLIP = 1.0
"""Largest norm of a gradient."""
CHECKPOINT = "checkpoint.pt"


class Student(Protocol):
    """A drafter in training. `module` holds what is trained (parameters that require gradients)."""

    module: torch.nn.Module

    def loss(self, batch: Batch) -> torch.Tensor:
        """The loss of a batch, for `backward`."""

    def measure(self, batch: Batch) -> torch.Tensor:
        """Sums of `loss.agreement` over the batch [unroll steps, 4]."""

    def write(self, folder: Path) -> None:
        """Write the drafter as a standard checkpoint."""


@dataclass(frozen=True)
class Recipe:
    """How to train. A batch holds at most `batch_tokens` tokens, padding counted; `warmup` and `validate_every` are in
    steps; `held_out` conversations are validated on; after `patience` validations without a better one training stops.
    `learning_rate` is the peak of a cosine, on AdamW's scale times `1 / ADAM_RMS`."""

    epochs: float = 3.0
    batch_tokens: int = 4096
    learning_rate: float = 4e-3
    warmup: int = 40
    seed: int = 0
    held_out: int = 128
    validate_every: int = 100
    patience: int = 5
    checkpoint_seconds: float = 300.0


@dataclass
class Validation:
    """Figures by unroll step (one for a student that is not unrolled): KL divergence in nats, and how often the
    target's favourite is the student's favourite, or among its best five. `tau` is that of a short real decode."""

    step: int
    tokens: int
    kl: list[float]
    top1: list[float]
    top5: list[float]
    tau: float | None = None

    @property
    def score(self) -> float:
        """What is to fall: the mean KL over unroll steps."""
        return sum(self.kl) / len(self.kl)


@dataclass
class Progress:
    """Where training stands: `step` of `steps` done, the loss of the last one, answer and prompt tokens seen."""

    step: int
    steps: int
    tokens: int = 0
    loss: float = math.nan
    last: Validation | None = None


@dataclass
class Outcome:
    """How training ended: `finished`, `early stop` or `interrupted`, and the best validation."""

    reason: str
    progress: Progress
    best: Validation | None


class Trainer:
    """Trains `student` on `examples`; its best weights so far are in `out`, a checkpoint in `out`/training.

    `made_from` names what else the weights follow from; a checkpoint is gone on with only if all of it is the same.
    """

    def __init__(self, student: Student, examples: Sequence[Example], recipe: Recipe, out: Path, device: torch.device,
                 *, made_from: Mapping[str, str] = MappingProxyType({}), decode: Callable[[], float] | None = None,
                 on_progress: Callable[[Progress], None] = lambda progress: None) -> None:
        self.student, self.examples, self.recipe, self.out, self.device = student, examples, recipe, out, device
        self._decode, self._on_progress = decode, on_progress
        self._settings = asdict(recipe) | dict(made_from)
        self._train, self._check = held_out(len(examples), recipe.held_out, recipe.seed)
        if len(self._train) == 0:
            raise DistillError(f"The corpus has {len(examples)} conversations and {recipe.held_out} of them are held "
                               "out: none is left to train on. Hold out fewer, or write a larger corpus.")
        self._lengths = np.array([len(example) for example in examples])
        self._plan = self._make_plan()
        self._optimizers = make_optimizers(student.module, recipe.learning_rate)
        self._folder = out / "training"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._history = self._folder / HISTORY
        self.progress = Progress(0, len(self._plan))
        self.best: Validation | None = None
        self._since_best = 0

    def run(self) -> Outcome:
        """Train to the end, an early stop, or the user's interrupt (Ctrl-C), which leaves a checkpoint to resume."""
        self._resume()
        reason, saved = "finished", time.monotonic()
        with interrupts() as interrupted:
            if self.best is None:
                self._validate()
            while self.progress.step < len(self._plan):
                self._step()
                last = self.progress.step == len(self._plan)
                if (last or self.progress.step % self.recipe.validate_every == 0) and self._validate():
                    reason = "early stop"
                    break
                if interrupted():
                    reason = "interrupted"
                    break
                if time.monotonic() - saved > self.recipe.checkpoint_seconds:
                    self._save()
                    saved = time.monotonic()
            self._save()
        return Outcome(reason, self.progress, self.best)

    def _make_plan(self) -> list[np.ndarray]:
        """The batches of all epochs; the last one may be a part."""
        recipe, plan = self.recipe, []
        for epoch in range(math.ceil(recipe.epochs)):
            made = batches(self._lengths, self._train, recipe.batch_tokens, recipe.seed, epoch)
            plan += made[: math.ceil(len(made) * min(1.0, recipe.epochs - epoch))]
        return plan

    def _step(self) -> None:
        progress = self.progress
        batch = collate(self.examples, self._plan[progress.step], self.device)
        rate = schedule(progress.step, len(self._plan), self.recipe.warmup)
        start = time.perf_counter()
        with autocast(self.device):
            loss = self.student.loss(batch)
        loss.backward()
        trained = [weight for weight in self.student.module.parameters() if weight.requires_grad]
        torch.nn.utils.clip_grad_norm_(trained, CLIP)
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * group["peak"]
            optimizer.step()
            optimizer.zero_grad()
        progress.step += 1
        progress.tokens += int(batch.lengths.sum())
        progress.loss = loss.item()
        add_line(self._history, {"step": progress.step, "loss": progress.loss, "tokens": progress.tokens, "rate": rate,
                                 "seconds": time.perf_counter() - start})
        self._on_progress(progress)

    def _validate(self) -> bool:
        """Measure on held-out conversations, write the weights if they are the best; whether to stop early."""
        sums = 0
        self.student.module.eval()
        for numbers in batches(self._lengths, self._check, self.recipe.batch_tokens, self.recipe.seed, 0):
            with autocast(self.device):
                sums = sums + self.student.measure(collate(self.examples, numbers, self.device)).cpu().double()
        kl, top1, top5 = (column.tolist() for column in (sums[:, :3] / sums[:, 3:]).T)
        tau = self._decode() if self._decode else None
        self.student.module.train()
        found = self.progress.last = Validation(self.progress.step, self.progress.tokens, kl, top1, top5, tau)
        add_line(self._history, asdict(found))
        self._on_progress(self.progress)
        if self.best is None or found.score < self.best.score:
            self.best, self._since_best = found, 0
            self.student.write(self.out)
        else:
            self._since_best += 1
        return self._since_best >= self.recipe.patience

    def _save(self) -> None:
        """Replace the checkpoint, never leaving half of one."""
        state = {"settings": self._settings, "step": self.progress.step, "tokens": self.progress.tokens,
                 "best": asdict(self.best) if self.best else None, "since_best": self._since_best,
                 "module": trained_state(self.student.module),
                 "optimizers": [optimizer.state_dict() for optimizer in self._optimizers]}
        path = self._folder / CHECKPOINT
        torch.save(state, path.with_suffix(".new"))
        os.replace(path.with_suffix(".new"), path)

    def _resume(self) -> None:
        """Go on from the checkpoint, if there is one. Errors: `DistillError` for that of another training."""
        path = self._folder / CHECKPOINT
        if not path.exists():
            return
        state = torch.load(path, map_location=self.device, weights_only=True)
        ours, theirs = self._settings, state["settings"]
        changed = [f"{name} {theirs.get(name)} there, {ours[name]} asked" for name in ours
                   if ours[name] != theirs.get(name) and name != "checkpoint_seconds"]
        if changed:
            raise DistillError(f"{self.out} holds a training with other settings ({'; '.join(changed)}). Give the same "
                               "settings to go on with it, or another folder.")
        self.student.module.load_state_dict(state["module"], strict=False)
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.progress.step, self.progress.tokens = state["step"], state["tokens"]
        self.best = Validation(**state["best"]) if state["best"] else None
        self._since_best = state["since_best"]
        cut_history(self._history, state["step"])


def make_optimizers(module: torch.nn.Module, learning_rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the network, AdamW for norms, biases and the output head."""
    matrices, others = [], []
    for name, weight in module.named_parameters():
        if weight.requires_grad:
            inside = weight.ndim == 2 and not name.startswith("lm_head")
            (matrices if inside else others).append(weight)
    made = [Muon(matrices, learning_rate),
            torch.optim.AdamW(others, learning_rate * ADAM_RMS, betas=(0.9, 0.95), weight_decay=0.0)]
    for optimizer in made:
        for group in optimizer.param_groups:
            group["peak"] = group["lr"]
    return made


def schedule(step: int, steps: int, warmup: int) -> float:
    """Learning rate in units of its peak: a linear warm-up, then a cosine to zero."""
    warmup = min(warmup, steps // 4)
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def autocast(device: torch.device) -> torch.autocast:
    """bf16 products where the device is fast in them."""
    return torch.autocast(device.type, torch.bfloat16, enabled=has_fast_bf16(device))


def trained_state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The parameters that are trained, by name."""
    return {name: weight.detach() for name, weight in module.named_parameters() if weight.requires_grad}


@contextmanager
def interrupts() -> Iterator[Callable[[], bool]]:
    """Within, the first Ctrl-C only raises a flag, so that a step is never cut; the second one ends the program."""
    flag = []

    def note(number: int, frame: object) -> None:
        flag.append(number)
        signal.signal(number, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: bool(flag)
    finally:
        signal.signal(signal.SIGINT, before)
