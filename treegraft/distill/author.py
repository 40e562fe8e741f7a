"""A target that invents user questions and answers them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from treegraft.distill.batch import BatchDecoder, Job
from treegraft.distill.conversations import Conversation, CorpusError, split_prompt, template_of
from treegraft.models.loader import TargetModel

TOP_P = 0.97
"""Share of the probability among whose tokens a question is drawn, at temperature 1."""

TEMPERATURES, SHARES = (0.0, 0.7, 1.0), (0.6, 0.2, 0.2)
"""Of answers. Most are greedy, as most speculative decoding is."""

STEM_SHARE = 0.5
"""Share of the questions that start from a stem; the others start from nothing."""

MAX_TRIES = 20
"""Questions tried for each one that is wanted, before the target is given up."""

STEMS = (
    "Write a Python function that", "Explain step by step what this code does:", "Find the bug in this program:",
    "Write an SQL query that", "How do I use JavaScript to",
    "Summarize this article in three sentences:", "What is the main idea of this paragraph?",
    "Rewrite this sentence so that it sounds more polite:", "Correct the spelling and grammar of this text:",
    "List five", "Give me ten ideas for", "What are the pros and cons of", "Compare",
    "Explain to a ten-year-old how", "What is the difference between", "Why is it that", "How does",
    "What happens when",
    "Solve this equation step by step:", "A farmer has", "If a shop sells", "What is the probability that",
    "Translate this sentence into French:", "How do you say in Spanish:",
    "Write an email to", "Write a letter of complaint about", "Write a cover letter for",
    "Write a short story about", "Write a poem about", "Write a dialogue between",
    "Who was", "When did", "Give me a recipe for", "Plan a trip to", "What should I do if",
    "Is the tone of this review positive or negative?", "Extract all names and dates from this text:",
)
"""Beginnings of questions in the styles that users write in."""

Tell = Callable[[int], None]
"""Hears how many texts are done."""


@dataclass
class Draft:
    """A conversation that is not yet written, with all the chance that goes into it.

    `question` begins with its stem. The uniform numbers are one for each token that may be written.
    """

    question: list[int]
    temperature: float
    for_question: np.ndarray
    for_answer: np.ndarray


class Author:
    """Writes conversations with a target. `max_question` and `max_answer` are in tokens, without the markers around.

    Errors: `CorpusError` for a target whose chat template or context does not allow it, `UnsupportedModel`.
    """

    def __init__(self, target: TargetModel, seed: int, rows: int, max_question: int, max_answer: int) -> None:
        self.target, self.seed, self.rows = target, seed, rows
        self.max_question, self.max_answer = max_question, max_answer
        self.template = template_of(target.tokenizer)
        length = sum(map(len, self.template)) + max_question + max_answer
        if not self.template.head:
            raise CorpusError(f"The chat template of {target.name} puts nothing before a user's words, so there is "
                              "nothing to begin a question with. Use a target whose template marks the user's turn.")
        if length > target.context_limit:
            raise CorpusError(
                f"A conversation of {max_question} tokens of question and {max_answer} of answer takes {length} tokens "
                f"with its chat template; the context of {target.name} has {target.context_limit}. Lower one of them.")
        self.stems = [split_prompt(target.tokenizer, stem)[1][: max_question // 2] for stem in STEMS]
        self.ends = target.eos_ids | set(self.template.tail[:1])
        self.markers = {id for id, token in target.tokenizer.added_tokens_decoder.items() if token.special}
        self.decoder = BatchDecoder(target.model, rows, length, target.usable_vocab)

    def draft(self, chunk: int, number: int) -> Draft:
        """The beginning of a conversation, the same at every call."""
        chance = np.random.Generator(np.random.PCG64((self.seed, chunk, number)))
        stem = self.stems[chance.integers(len(self.stems))] if chance.random() < STEM_SHARE else []
        return Draft(list(stem), float(chance.choice(TEMPERATURES, p=SHARES)),
                     chance.random(self.max_question + 1 - len(stem)), chance.random(self.max_answer))

    def ask(self, chunk: int, count: int, asked: AbstractSet[tuple[int, ...]], tell: Tell) -> tuple[list[Draft], int]:
        """Drafts with `count` questions that were not `asked` before, and how many questions were dropped.

        Errors: `CorpusError` where the target hardly ever asks one.
        """
        found: dict[tuple[int, ...], Draft] = {}
        tried, dropped = 0, 0
        while len(found) < count:
            if tried >= MAX_TRIES * max(count, self.rows):
                raise CorpusError(
                    f"{self.target.name} invented only {len(found)} new questions in {tried} tries: the others were "
                    f"empty, repeated one, or did not end within {self.max_question} tokens. Allow longer questions, "
                    "or use an instruction-tuned target.")
            number = max(count - len(found), min(count, self.rows))
            drafts = [self.draft(chunk, tried + index) for index in range(number)]
            tried += number
            for draft, complete in zip(drafts, self._invent(drafts, len(found), tell), strict=True):
                question = tuple(draft.question)
                if len(found) == count:
                    break
                if complete and question not in asked and question not in found:
                    found[question] = draft
                else:
                    dropped += 1
        return list(found.values()), dropped

    def _invent(self, drafts: Sequence[Draft], found: int, tell: Tell) -> list[bool]:
        """Write the questions of some drafts to their ends; tells which have become questions."""
        jobs = [Job(self.template.head + draft.question, 1.0, draft.for_question) for draft in drafts]
        texts = self._write(jobs, self.ends, TOP_P, lambda done: tell(found + done))
        for draft, text in zip(drafts, texts, strict=True):
            draft.question += text[:-1]
        return [text[-1] in self.ends and self._is_text(text[:-1]) for text in texts]

    def _is_text(self, ids: list[int]) -> bool:
        """Whether these tokens spell something, and nothing that belongs to the template."""
        return not self.markers & set(ids) and bool(self.target.tokenizer.decode(ids).strip())

    def answer(self, drafts: Sequence[Draft], tell: Tell) -> list[Conversation]:
        """The drafts as conversations, in their order."""
        head, tail = self.template
        jobs = [Job([*head, *draft.question, *tail], draft.temperature, draft.for_answer) for draft in drafts]
        texts = self._write(jobs, self.target.eos_ids, 1.0, tell)
        return [Conversation(draft.question, draft.temperature, text)
                for draft, text in zip(drafts, texts, strict=True)]

    def _write(self, jobs: Sequence[Job], stop: AbstractSet[int], top_p: float, tell: Tell) -> list[list[int]]:
        texts: dict[int, list[int]] = {}
        for number, text in self.decoder.write(jobs, stop, top_p):
            texts[number] = text
            tell(len(texts))
        return [texts[number] for number in range(len(jobs))]
