"""From a corpus and a target to a trained drafter in a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from treegraft.distill import eagle3, lm
from treegraft.distill.card import Corpus, describe_corpus, write_card
from treegraft.distill.conversations import read_conversations, render
from treegraft.distill.data import Example, held_out
from treegraft.distill.decode import short_tau
from treegraft.distill.errors import DistillError
from treegraft.distill.states import TargetStates, check_head, fingerprint
from treegraft.distill.train import Outcome, Progress, Recipe, Student, Trainer
from treegraft.distill.vocabulary import answer_counts, coverage, ranking
from treegraft.models.eagle3 import Eagle3Head
from treegraft.models.eagle3_files import read_head
from treegraft.models.eagle3_layouts import default_aux_layers
from treegraft.models.loader import TargetModel
from treegraft.models.weights import locate, read_tensors

DECODE_QUESTIONS, DECODE_TOKENS = 4, 48
"""The short decode of a validation: held-out questions, and tokens of each answer."""


@dataclass
class Job:
    """One drafter to be trained for `target` into the folder `out`.

    `states` is where the target's hidden states are kept, None to compute them anew every epoch. `command` goes into
    the model card. `say` is told what the user should know before training starts.
    """

    target: TargetModel
    corpus: Path
    out: Path
    recipe: Recipe
    states: Path | None
    limit: int | None = None
    command: str = ""
    on_progress: Callable[[Progress], None] = lambda progress: None
    say: Callable[[str], None] = lambda line: None
    examples: list[Example] = field(init=False)
    questions: list[str] = field(init=False)
    facts: Corpus = field(init=False)

    def __post_init__(self) -> None:
        check_head(self.target.model)
        tokenizer = self.target.tokenizer
        found = read_conversations(self.corpus, self.target.vocab_size, self.limit)
        rendered = [(conversation, *render(conversation, tokenizer)) for conversation in found]
        fitting = [entry for entry in rendered if len(entry[1]) <= self.target.context_limit]
        self.examples = [Example(np.array(tokens, np.int64), prompt) for _, tokens, prompt in fitting]
        _, unseen = held_out(len(self.examples), self.recipe.held_out, self.recipe.seed)
        self.questions = [tokenizer.decode(fitting[number][0].question_ids) for number in unseen[:DECODE_QUESTIONS]]
        self.facts = describe_corpus(self.corpus, self.examples)

    def target_states(self, layers: tuple[int, ...]) -> TargetStates:
        """The target's states at `layers`, kept in a folder of this corpus and target."""
        name = f"{self.target.name}-{fingerprint(self.target.model)}-{self.facts.sha256[:12]}-{len(self.examples)}"
        return TargetStates(self.target.model, self.examples, layers, self.states / name if self.states else None)

    def train(self, student: Student, kind: str, what: str, start: str) -> Outcome:
        """Train to the end or an interrupt; weights and card in `out` are those of the best validation."""
        def decode() -> float:
            latest = self.out / "training" / "latest"
            student.write(latest)
            return short_tau(self.target, kind, latest, self.questions, DECODE_TOKENS)

        made_from = {"target": fingerprint(self.target.model), "corpus": self.facts.sha256[:12],
                     "conversations": str(len(self.examples)), "drafter": what, "start": start}
        trainer = Trainer(student, self.examples, self.recipe, self.out, self.target.device, made_from=made_from,
                          decode=decode if self.questions else None, on_progress=self.on_progress)
        outcome = trainer.run()
        if outcome.best:
            write_card(self.out, self.target.name, kind, what, self.facts, self.recipe, outcome, self.command, start)
        return outcome


def distill_lm(job: Job, layers: list[int], start_from: Path | None) -> Outcome:
    """Train a shallow copy of the target's `layers`. Errors: `DistillError`, `ModelError`."""
    model = lm.shallow_copy(job.target.model, layers)
    if start_from:
        continue_lm(model, start_from)
    counts = answer_counts(job.examples, job.target.vocab_size)
    student = lm.LMStudent(model, job.target_states(()), ranking(counts)[: np.count_nonzero(counts)])
    chosen = ", ".join(map(str, layers))
    return job.train(student, "lm", f"Layers {chosen} of the target, trained further; embeddings and output head are "
                     "the target's own tensors and are not stored.", f"weights of {start_from}" if start_from else
                     "the target's own layers")


def continue_lm(model: torch.nn.Module, folder: Path) -> None:
    """Take over the weights of an earlier student of the same shape. Errors: `DistillError`."""
    ours, given = model.state_dict(), read_tensors(locate(folder))
    own = {name for name in ours if not any(part in name for part in lm.SHARED)}
    wrong = sorted(own ^ given.keys() | {name for name in own & given.keys() if ours[name].shape != given[name].shape})
    if wrong:
        raise DistillError(f"{folder} holds a model of another shape than this student ({len(wrong)} tensors differ, "
                           f"the first is {wrong[0]}). Give the same number of layers, or start from the target.")
    model.load_state_dict(given, strict=False)


def distill_eagle3(job: Job, draft_vocab: int, layers: tuple[int, ...] | None, steps: int,
                   start_from: str | None) -> Outcome:
    """Train an EAGLE-3 head, unrolled `steps` steps. Errors: `DistillError`, `ModelError`."""
    target, counts = job.target.model, answer_counts(job.examples, job.target.vocab_size)
    if start_from:
        head, vocab = continue_head(job.target, start_from)
    else:
        vocab = np.sort(ranking(counts)[:draft_vocab])
        layers = layers or default_aux_layers(target.config.get_text_config().num_hidden_layers)
        torch.manual_seed(job.recipe.seed)
        head = Eagle3Head(eagle3.config_for(target, len(vocab), layers)).to(target.device)
        eagle3.start_from_target(head, target, vocab)
    layers, covered = head.config.aux_layers, coverage(counts, vocab)
    job.say(f"The draft vocabulary of {len(vocab):,} tokens covers {covered:.1%} of the answer tokens.")
    student = eagle3.Eagle3Student(head, target, vocab, job.target_states(layers), steps)
    return job.train(student, "eagle3", f"An EAGLE-3 head (SpecForge layout) on the outputs of target layers "
                     f"{', '.join(map(str, layers))}, trained with {steps} unroll steps; its {len(vocab):,} draft "
                     f"tokens cover {covered:.1%} of the answer tokens.",
                     f"weights of {start_from}" if start_from else "the target's last layer on its high state")


def continue_head(target: TargetModel, given: str) -> tuple[Eagle3Head, np.ndarray]:
    """The head in a folder or hub id, ready to be trained, and the target ids of its output rows."""
    loaded = read_head(given, target)
    return loaded.head.float().train().requires_grad_(True), loaded.vocab
