"""Lessons: Markdown files whose steps point at places of a bundled recording (assets/lessons/README.md says how).

A lesson holds no numbers and no token texts of its own. `filled` looks its places up in the recordings and puts in what
they say; a lesson that does not fit its recordings is refused in words.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from treegraft.trace import Run
from treegraft.view.lesson_facts import Fact, fact
from treegraft.view.lesson_places import LessonError, Spot, place

LESSONS = Path(__file__).parents[2] / "assets" / "lessons"

KINDS = ("number", "choice", "node")
STEP_KEYS = {"recording", "at", "needs"}
QUESTION_KEYS = STEP_KEYS | {"kind", "answer", "options", "right", "wrong"}
COMPARISONS = {"<": operator.lt, ">": operator.gt, "=": operator.eq}
HOLE = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Section:
    """A step, or the question at the end: its title, its `key: value` lines, and its paragraphs."""

    title: str
    keys: Mapping[str, str]
    text: str

    def key(self, name: str) -> str:
        """The value of a key that must be there."""
        if name not in self.keys:
            raise LessonError(f"“{self.title}” needs a line “{name}: …”.")
        return self.keys[name]


@dataclass(frozen=True)
class Lesson:
    """A lesson as it is written. `recording` is the demo that its sections show unless they name another."""

    number: int
    title: str
    recording: str
    steps: tuple[Section, ...]
    question: Section


@dataclass(frozen=True)
class Step:
    """A section with its facts filled in: where the player goes, and what to read there.

    In `text`, what the recording said stands between the signs U+2068 and U+2069."""

    title: str
    recording: str
    spot: Spot
    text: str


@dataclass(frozen=True)
class Question(Step):
    """The step at the end. `answer` is a whole number, one of `options`, or a node, as its `kind` has it; `right` and
    `wrong` explain it."""

    kind: Literal["number", "choice", "node"]
    answer: int | str
    right: str
    wrong: str
    options: tuple[str, ...] = field(default=())


# --- reading --------------------------------------------------------------------------------------------------------


def lessons(folder: Path = LESSONS) -> list[Lesson]:
    """All lessons in order. Errors: `LessonError` with the file's name."""
    found = []
    for path in sorted(folder.glob("[0-9]*.md")):
        try:
            found.append(parse(path.read_text(encoding="utf-8"), len(found) + 1))
        except LessonError as error:
            raise LessonError(f"{path.name}: {error}") from None
    return found


def parse(text: str, number: int = 1) -> Lesson:
    """A lesson from its Markdown. Errors: `LessonError`, in words for its author."""
    head, *parts = re.split(r"^## +", text, flags=re.MULTILINE)
    top = re.fullmatch(r"# +(.+)\n+recording: *(\w+)\s*", head)
    if not top:
        raise LessonError("The file must begin with “# Title” and a line “recording: …”, and nothing else before the"
                          " first “## …”.")
    sections = [_section(part) for part in parts]
    if len(sections) < 2 or sections[-1].title != "Question":
        raise LessonError("A lesson has one or more steps, and at its end a section “## Question”.")
    for section in sections:
        allowed = QUESTION_KEYS if section is sections[-1] else STEP_KEYS
        if unknown := set(section.keys) - allowed:
            raise LessonError(f"“{section.title}” has a line “{min(unknown)}: …”; allowed are "
                              + ", ".join(sorted(allowed)) + ".")
    if sections[-1].key("kind") not in KINDS:
        raise LessonError(f"A question's kind is one of {', '.join(KINDS)}.")
    return Lesson(number, top[1].strip(), top[2], tuple(sections[:-1]), sections[-1])


def _section(part: str) -> Section:
    title, _, body = part.partition("\n")
    keys, paragraphs = {}, []
    for block in re.split(r"\n\s*\n", body.strip()):
        lines = [re.fullmatch(r"([a-z]+): +(.+)", line) for line in block.split("\n")]
        if all(lines):
            keys |= {line[1]: line[2].strip() for line in lines}
        else:
            paragraphs.append(" ".join(block.split()))
    if not paragraphs:
        raise LessonError(f"“{title.strip()}” has no text.")
    return Section(title.strip(), keys, "\n\n".join(paragraphs))


# --- filling in -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """Looks facts up for one section: at its place, or, as `name@recording`, those of another recording as a whole."""

    run: Run
    spot: Spot
    open_run: Callable[[str], Run]

    def fact(self, name: str) -> Fact:
        plain, _, other = name.partition("@")
        return fact(self.open_run(other), None, plain) if other else fact(self.run, self.spot, plain)

    def fill(self, text: str) -> str:
        return HOLE.sub(lambda hole: f"\u2068{self.fact(hole[1]).text}\u2069", text)

    def side(self, name: str) -> Fact:
        """One side of a condition: a number, or a fact."""
        return Fact(float(name), name) if re.fullmatch(r"-?\d+(\.\d+)?", name) else self.fact(name)

    def check(self, needs: str) -> None:
        """Errors: `LessonError` for a condition that does not hold."""
        for condition in needs.split(","):
            parts = re.fullmatch(r"\s*([^<>=]+?)\s*([<>=])\s*([^<>=]+?)\s*", condition)
            if not parts:
                raise LessonError(f"“needs: {condition.strip()}” is not of the form “this < that”, with <, > or =.")
            left, right = self.side(parts[1]), self.side(parts[3])
            if not COMPARISONS[parts[2]](left.value, right.value):
                raise LessonError(f"needs {condition.strip()}, but the recording says {left.text} and {right.text}.")


def filled(lesson: Lesson, open_run: Callable[[str], Run]) -> tuple[list[Step], Question]:
    """The steps and the question with what the recordings say; `open_run` opens a demo by name.

    Errors: `LessonError` where a place, a fact or a condition does not fit.
    """
    return [_step(lesson, section, open_run) for section in lesson.steps], _question(lesson, open_run)


def _told(lesson: Lesson, section: Section, open_run: Callable[[str], Run]) -> tuple[str, Told]:
    recording = section.keys.get("recording", lesson.recording)
    try:
        run = open_run(recording)
        told = Told(run, place(run, section.key("at")), open_run)
        if "needs" in section.keys:
            told.check(section.keys["needs"])
    except LessonError as error:
        raise LessonError(f"Lesson {lesson.number}, “{section.title}”, on the recording {recording}: {error}") from None
    return recording, told


def _step(lesson: Lesson, section: Section, open_run: Callable[[str], Run]) -> Step:
    recording, told = _told(lesson, section, open_run)
    return Step(section.title, recording, told.spot, told.fill(section.text))


def _question(lesson: Lesson, open_run: Callable[[str], Run]) -> Question:
    section = lesson.question
    recording, told = _told(lesson, section, open_run)
    kind, wanted, options = section.key("kind"), section.key("answer"), ()
    if kind == "node":
        answer = place(told.run, f"round {told.spot.round}, , {wanted}").node
    elif kind == "number":
        answer = int(told.fact(wanted).value)
    else:
        answer = told.fact(wanted).text
        options = tuple(sorted({_option(told, one.strip()) for one in section.key("options").split(",")}))
        if answer not in options or len(options) < 2:
            raise LessonError(f"Lesson {lesson.number}: the options of the question are {options}, its answer {answer}")
    return Question(section.title, recording, told.spot, told.fill(section.text), kind, answer,
                    told.fill(section.key("right")), told.fill(section.key("wrong")), options)


def _option(told: Told, option: str) -> str:
    return option.strip('"') if option.startswith('"') else told.fact(option).text
