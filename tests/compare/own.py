"""A small comparison, as the tests of this folder run it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from treegraft import cli

POLICIES = ("eagle2:budget=5,top_k=2,depth=2", "treegraft@lookup+small:schedule=1,3,budget=8,top_k=2,layers=3")
QUESTIONS = [
    {"question_id": 81, "category": "writing", "turns": ["The fox jumps, the fox jumps.", "Again, the fox."]},
    {"question_id": 201, "category": "qa", "turns": ["Say it twice."], "reference": ["It. It."]},
    {"question_id": 202, "category": "qa", "turns": ["12345 12345 times"]}]


def write_questions(folder: Path, questions: list[dict] = QUESTIONS, name: str = "question.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(question) + "\n" for question in questions))
    return path


def options(folders: tuple[Path, Path], questions: Path, out: Path) -> list[object]:
    """Of the whole comparison on the tiny pair."""
    target, small = folders
    return ["--target", target, "--drafter", "lookup", "--drafter", small, "--dtype", "float32", "--device", "cpu",
            "--prompt-file", questions, "--max-new-tokens", 12, "--out", out,
            *(part for policy in POLICIES for part in ("--policy", policy))]


def compare(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, ["compare", *map(str, arguments)], env={"COLUMNS": "250"})
