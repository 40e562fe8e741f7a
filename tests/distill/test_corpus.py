"""A target's conversations with itself: what is in them, and that an interrupted corpus becomes the same file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests import tiny
from tests.distill import tiny_chat
from treegraft.distill import corpus
from treegraft.distill.author import STEMS, Author
from treegraft.distill.conversations import CorpusError, read_conversations, render
from treegraft.distill.corpus import CorpusCounts, make_corpus, settings_file

WANTED, CHUNK = 30, 8
SIZES = {"rows": 4, "max_question": 24, "max_answer": 16}
NAMES = ["corpus.jsonl", "corpus.jsonl.zst"]


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(corpus, "ROUNDS", CHUNK // SIZES["rows"])


def make(out: Path, conversations: int = WANTED, family: str = "llama", **options) -> CorpusCounts:
    return make_corpus(tiny_chat.target(family), out, conversations, **SIZES | options)


@pytest.fixture(scope="module", params=NAMES)
def whole(request, tmp_path_factory) -> tuple[str, bytes]:
    """A file's name and what an uninterrupted run writes into it."""
    out = tmp_path_factory.mktemp("whole") / request.param
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "ROUNDS", CHUNK // SIZES["rows"])
        make(out)
    return out.name, out.read_bytes()


# --- what is in it --------------------------------------------------------------------------------------------------


def test_conversations_are_as_the_settings_say(tmp_path):
    out = tmp_path / "corpus.jsonl"
    counts = make(out)
    found = read_conversations(out, tiny.VOCAB)
    assert len(found) == WANTED
    assert counts.conversations == WANTED
    assert counts.answer_tokens == sum(len(conversation.answer_ids) for conversation in found)
    assert counts.dropped > 0
    assert len({tuple(conversation.question_ids) for conversation in found}) == WANTED
    assert {conversation.temperature for conversation in found} == {0.0, 0.7, 1.0}
    for conversation in found:
        assert len(conversation.question_ids) <= SIZES["max_question"]
        assert tiny_chat.END not in [*conversation.question_ids, *conversation.answer_ids[:-1]]
        assert conversation.answer_ids[-1] == tiny_chat.END or len(conversation.answer_ids) == SIZES["max_answer"]
    assert {conversation.answer_ids[-1] == tiny_chat.END for conversation in found} == {True, False}


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_greedy_answers_are_those_of_generate(tmp_path, family):
    out = tmp_path / "corpus.jsonl"
    make(out, family=family)
    target = tiny_chat.target(family)
    greedy = [conversation for conversation in read_conversations(out, tiny.VOCAB) if conversation.temperature == 0]
    assert len(greedy) > 10
    for conversation in greedy:
        ids, prompt = render(conversation, target.tokenizer)
        given = torch.tensor([ids[:prompt]])
        text = target.model.generate(given, attention_mask=torch.ones_like(given), do_sample=False, pad_token_id=0,
                                     max_new_tokens=SIZES["max_answer"], eos_token_id=tiny_chat.END)
        assert text[0].tolist() == ids


def test_half_of_the_questions_start_from_a_stem():
    author = Author(tiny_chat.target(), seed=1, rows=1, max_question=200, max_answer=8)
    drafts = [author.draft(chunk, number) for chunk in range(20) for number in range(100)]
    beginnings = Counter(author.target.tokenizer.decode(draft.question) for draft in drafts)
    assert abs(beginnings[""] - 1000) < 100
    assert len(beginnings) == len(STEMS) + 1
    assert set(beginnings) - {""} <= {"".join(letter if letter in tiny_chat.TOKENS else "<unk>" for letter in stem)
                                      for stem in STEMS}
    temperatures = Counter(draft.temperature for draft in drafts)
    assert [round(temperatures[value] / 2000, 1) for value in (0.0, 0.7, 1.0)] == [0.6, 0.2, 0.2]
    assert all(len(draft.question) + len(draft.for_question) == 201 for draft in drafts)


def test_drafts_have_chance_of_their_own():
    author = Author(tiny_chat.target(), seed=1, rows=1, max_question=20, max_answer=8)
    other = Author(tiny_chat.target(), seed=2, rows=4, max_question=20, max_answer=8)
    numbers = [who.draft(*place).for_answer[0] for who in (author, other) for place in [(0, 0), (0, 1), (1, 0)]]
    assert len(set(numbers)) == 6
    assert np.array_equal(author.draft(1, 0).for_answer, author.draft(1, 0).for_answer)


def test_no_question_is_asked_twice(tmp_path):
    """Short questions are few: many are repeated, within a chunk and from an earlier one."""
    out, target = tmp_path / "corpus.jsonl", tiny_chat.target(end=4.0)
    make_corpus(target, out, WANTED, **SIZES | {"max_question": 2})
    found = read_conversations(out, tiny.VOCAB)
    assert len({tuple(conversation.question_ids) for conversation in found}) == WANTED
    once = out.read_bytes()
    out.write_bytes(once[: len(once) // 2])
    make_corpus(target, out, WANTED, **SIZES | {"max_question": 2})
    assert out.read_bytes() == once


def test_questions_without_words_or_with_markers_are_dropped():
    author = Author(tiny_chat.target(), seed=0, rows=1, max_question=20, max_answer=8)
    word, space, newline, marker = (tiny_chat.TOKENS.index(token) for token in ("a", " ", "\n", "<s>"))
    assert author._is_text([space, word])
    assert not author._is_text([])
    assert not author._is_text([space, newline, space])
    assert not author._is_text([word, marker])


def test_progress_is_told(tmp_path):
    heard: list[tuple[str, float | None]] = []
    make(tmp_path / "corpus.jsonl", progress=lambda stage, fraction: heard.append((stage, fraction)))
    fractions = [fraction for _, fraction in heard]
    assert fractions == sorted(fractions)
    assert heard[-1] == (f"answer {WANTED} of {WANTED}", 1.0)
    assert heard[0] == (f"question 1 of {WANTED}", 0.0)


# --- going on -------------------------------------------------------------------------------------------------------


def test_an_interrupted_corpus_becomes_the_same_file(whole, tmp_path):
    name, expected = whole
    out = tmp_path / name
    for moment in ("question 3", "answer 5", f"question {CHUNK + 2}", f"answer {2 * CHUNK + 1}"):
        def interrupt(stage: str, fraction: float | None, moment: str = moment) -> None:
            if stage == f"{moment} of {WANTED}":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            make(out, progress=interrupt)
    assert len(read_conversations(out, tiny.VOCAB)) == 2 * CHUNK
    assert make(out).conversations == WANTED
    assert out.read_bytes() == expected


def test_a_killed_corpus_becomes_the_same_file(whole, tmp_path):
    name, expected = whole
    out = tmp_path / name
    make(out, conversations=1)
    for size in range(0, len(expected), len(expected) // 3):
        out.write_bytes(expected[:size])
        make(out)
        assert out.read_bytes() == expected


def test_a_finished_corpus_is_left_as_it_is_and_grows(whole, tmp_path):
    name, expected = whole
    out = tmp_path / name
    first = make(out, conversations=CHUNK + 3)
    again = make(out, conversations=3)
    assert again == replace(first, dropped=0)
    make(out)
    assert out.read_bytes() == expected


def test_another_seed_writes_another_corpus(whole, tmp_path):
    name, expected = whole
    make(tmp_path / name, seed=1)
    assert (tmp_path / name).read_bytes() != expected


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "message"), [
    ({"conversations": 0}, "conversations was 0; allowed: 1 to"),
    ({"rows": 0}, "rows was 0; allowed: 1 to 1024"),
    ({"seed": 1 << 32}, "seed was 4294967296; allowed: 0 to 4294967295"),
    ({"max_question": 1}, "max_question was 1; allowed: 2 to"),
    ({"max_answer": 0}, "max_answer was 0; allowed: 1 to"),
    ({"max_answer": 500}, "takes 543 tokens with its chat template; the context of tiny has 512. Lower one of them"),
])
def test_settings_out_of_range_are_refused(tmp_path, options, message):
    with pytest.raises(CorpusError, match=message):
        make(tmp_path / "corpus.jsonl", **options)
    assert not list(tmp_path.iterdir())


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"is no name for a corpus; end it with .jsonl or .jsonl.zst"):
        make(tmp_path / "corpus.txt")
    with pytest.raises(CorpusError, match="cannot be written: No such file or directory"):
        make(tmp_path / "missing" / "corpus.jsonl")
    with pytest.raises(CorpusError, match="null byte"):
        make(Path("a\0b.jsonl"))
    strange = tmp_path / "strange.jsonl"
    strange.write_text("precious")
    with pytest.raises(CorpusError, match=r"no strange.jsonl.settings.json that tells how it was made"):
        make(strange)
    assert strange.read_text() == "precious"


def test_a_corpus_is_resumed_with_its_own_settings_only(whole, tmp_path):
    name, expected = whole
    out = tmp_path / name
    make(out)
    with pytest.raises(CorpusError, match=r"was begun with target tiny, seed 0, .* this is target tiny, seed 7, "):
        make(out, seed=7, conversations=2 * WANTED)
    settings_file(out).write_text("rubbish")
    with pytest.raises(CorpusError, match="tells how it was made"):
        make(out, conversations=2 * WANTED)
    assert out.read_bytes() == expected


def test_a_target_without_a_chat_template_is_refused(tmp_path):
    with pytest.raises(CorpusError, match=r"has no chat template.*Use its instruction-tuned version"):
        make_corpus(tiny_chat.target(chat_template=None), tmp_path / "corpus.jsonl", 4)


def test_a_template_without_a_mark_before_the_user_is_refused(tmp_path):
    target = tiny_chat.target(chat_template="{{ messages[0]['content'] + '</s>' }}")
    with pytest.raises(CorpusError, match="nothing before a user's words"):
        make_corpus(target, tmp_path / "corpus.jsonl", 4)


def test_a_target_that_never_ends_its_questions_is_refused(tmp_path):
    target = tiny_chat.target(end=tiny_chat.NEVER)
    with pytest.raises(CorpusError, match=r"tiny invented only 0 new questions in \d+ tries"):
        make_corpus(target, tmp_path / "corpus.jsonl", 4, **SIZES)
