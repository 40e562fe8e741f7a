"""The bundled lessons say what their recordings say; a lesson that is wrong, or does not fit, is refused in words."""

from __future__ import annotations

import re
from functools import cache
from random import Random

import pytest

import treegraft
from tests.strategies import make_run
from treegraft.view.lesson_facts import fact
from treegraft.view.lesson_html import glossary_html, lesson_html
from treegraft.view.lesson_places import LessonError, place
from treegraft.view.lessons import Lesson, Question, filled, lessons, parse
from treegraft.view.library import DEMOS

LESSONS = lessons()
ids = [one.title for one in LESSONS]

SMALL = """# Small
recording: chain

## A step
at: most accepted, accept, last accepted
needs: accepted > 1

{accepted} tokens, {token}.

## Question
at: round 0, accept
kind: number
answer: rounds

How many rounds?

right: {rounds}

wrong: {rounds}
"""


@cache
def demo(name: str):
    return treegraft.open(DEMOS / f"{name}.jsonl.zst").runs[0]


@cache
def read(number: int):
    return filled(LESSONS[number - 1], demo)


def told(text: str) -> str:
    return re.sub("[\u2068\u2069]", "", text)


def test_there_are_eight_and_each_begins_where_the_last_one_ends():
    assert [one.number for one in LESSONS] == list(range(1, 9))
    assert LESSONS[0].recording == "plain"
    assert LESSONS[-1].recording == "scheduler"


@pytest.mark.parametrize("lesson", LESSONS, ids=ids)
def test_a_lesson_fits_its_recordings(lesson: Lesson):
    steps, question = read(lesson.number)
    assert 3 <= len(steps) <= 5
    assert 150 <= len(" ".join(told(one.text) for one in [*steps, question]).split()) <= 250
    for step in [*steps, question]:
        round = demo(step.recording).rounds[step.spot.round]
        assert step.spot.event < len(round.record.events)
        assert step.spot.node in (None, "bonus") or step.spot.node < len(round.record.nodes.token)
        assert "{" not in step.text
        assert "}" not in step.text


@pytest.mark.parametrize("lesson", LESSONS, ids=ids)
def test_a_lesson_types_no_numbers_of_a_recording(lesson: Lesson):
    for section in (*lesson.steps, lesson.question):
        assert not re.search(r"\d", re.sub(r"\{[^}]*\}|eagle\d", "", section.text)), section.title


@pytest.mark.parametrize("lesson", LESSONS, ids=ids)
def test_right_and_wrong_explain_with_the_recording(lesson: Lesson):
    question = read(lesson.number)[1]
    assert question.kind != "choice" or question.answer in question.options
    for text in (question.right, question.wrong):
        assert "\u2068" in text
        assert text.endswith(".")


def test_answers_are_those_of_the_recordings():
    plain, eagle2, repetition = demo("plain"), demo("eagle2"), demo("repetition")
    assert read(1)[1].answer == len(plain.rounds)
    pruned = eagle2.rounds[read(4)[1].spot.round]
    assert read(4)[1].answer == pruned.fates.count("pruned")
    copied = max(repetition.rounds, key=lambda round: round.accepted)
    assert read(5)[1].answer == copied.accepted + 1
    riser = read(7)[1]
    nodes = demo("treegraft").rounds[riser.spot.round]
    assert nodes.fates[riser.answer] == "accepted"
    assert nodes.record.nodes.origin[riser.answer] == 0


def test_a_lost_token_is_what_the_target_wrote_and_was_pruned():
    run = demo("eagle2")
    spot = place(run, "lost to pruning, prune, lost")
    round = run.rounds[spot.round]
    assert round.fates[spot.node] == "pruned"
    assert fact(run, spot, "bonus").text == fact(run, spot, "token").text


def test_a_surprise_was_not_the_favourite():
    run = demo("eagle2")
    spot = place(run, "surprise, accept, surprise")
    nodes = run.rounds[spot.round].record.nodes
    beside = [node for node, parent in enumerate(nodes.parent) if parent == nodes.parent[spot.node]]
    assert fact(run, spot, "place").value == 1 + sum(nodes.score[one] > nodes.score[spot.node] for one in beside) > 1


def changed(old: str, new: str) -> Lesson:
    assert old in SMALL
    return parse(SMALL.replace(old, new))


def test_holes_are_filled_from_the_recording():
    steps, question = filled(parse(SMALL), demo)
    best = max(demo("chain").rounds, key=lambda round: round.accepted)
    assert told(steps[0].text).startswith(f"{best.accepted} tokens, “")
    assert isinstance(question, Question)
    assert question.answer == len(demo("chain").rounds)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("accepted > 1", "accepted > 99", "needs accepted > 99, but the recording says 4 and 99"),
    ("accepted > 1", "accepted is 4", "not of the form"),
    ("{token}", "{tokne}", "there is no fact “tokne” here; there are: accepted,"),
    ("most accepted,", "most liked,", "there is no round “most liked”"),
    ("last accepted", "nicest", "there is no node “nicest”"),
    ("last accepted", "lost", "has no node that is “lost”"),
    ("at: round 0, accept", "at: round 0, rescore", "has no event “rescore”"),
    ("at: round 0, accept", "at: round 99, accept", "it has no “round 99”"),
    ("at: round 0, accept", "at: round 0", "must name a round, an event"),
])
def test_a_lesson_that_does_not_fit_is_refused(old, new, said):
    with pytest.raises(LessonError, match=re.escape(said)):
        filled(changed(old, new), demo)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("# Small\n", "", "must begin with"),
    ("## Question", "## The end", "“## Question”"),
    ("kind: number", "kind: guess", "kind is one of number, choice, node"),
    ("needs: accepted > 1", "claim: accepted > 1", "allowed are at, needs, recording"),
    ("{accepted} tokens, {token}.\n", "", "has no text"),
])
def test_a_file_that_is_no_lesson_is_refused(old, new, said):
    with pytest.raises(LessonError, match=re.escape(said)):
        changed(old, new)


@pytest.mark.parametrize("lesson", LESSONS, ids=ids)
def test_another_recording_is_refused_or_changes_the_text(lesson: Lesson):
    run = make_run(Random(3), [(2, 2)] * 4)
    with pytest.raises(LessonError):
        filled(lesson, lambda name: run)


def test_what_a_recording_said_stays_text():
    shown = lesson_html("The **root** is \u2068<img src=x onerror=1> **root**\u2069 & no more", "light")
    body = shown.split('<div class="tg-lesson">')[1]
    assert '<b class="tg-fact">&lt;img src=x onerror=1&gt;' in body
    assert "<img" not in body
    assert body.count("<abbr") == 1
    assert "&amp; no more" in body
    assert "&lt;b&gt;" in glossary_html({"<b>": "bold"}, "dark")
