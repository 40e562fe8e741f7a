"""Who may import what (docs: a recording opens in a second on a machine without torch)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [*(ROOT / "treegraft").rglob("*.py"), ROOT / "app.py", *(ROOT / "app_pages").rglob("*.py")]
HEAVY = {"torch", "transformers", "accelerate", "safetensors"}
LIGHT_PLACES = ("treegraft/trace", "treegraft/analysis", "treegraft/view", "treegraft/doctor", "app_pages", "app.py")
NUMPY_ONLY = ("treegraft/tree.py", "treegraft/verify.py", "treegraft/policies", "treegraft/drafters/base.py",
              "treegraft/drafters/lookup.py",
              "treegraft/drafters/ngrams.py", "treegraft/drafters/ngram.py", "treegraft/drafters/logitspec.py",
              "treegraft/drafters/lookahead.py", "treegraft/drafters/datastore.py", "treegraft/datastore/store.py",
              "treegraft/settings.py", "treegraft/scheduler/features.py", "treegraft/scheduler/network.py")
STANDARD = set(sys.stdlib_module_names)


def imported(path: Path, everywhere: bool = False) -> set[str]:
    """Modules that a file imports: at import time, or also inside its functions (`everywhere`)."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if everywhere else top_level(tree)
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def top_level(tree: ast.AST):
    """Nodes that run when a module is imported; `if TYPE_CHECKING` blocks do not."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        yield from top_level(node)


def packages(names: set[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def within(path: Path, places: tuple[str, ...]) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(places)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_import_rules(path):
    eager, ever = packages(imported(path)), packages(imported(path, everywhere=True))
    if within(path, LIGHT_PLACES):
        assert not eager & HEAVY
    if within(path, NUMPY_ONLY):
        assert eager - STANDARD <= {"numpy", "treegraft"}
    if within(path, ("treegraft/trace",)):
        assert eager - STANDARD <= {"msgspec", "zstandard", "treegraft"}
    if not within(path, ("treegraft/view/player.py", "app_pages", "app.py")):
        assert "streamlit" not in ever
    if not within(path, ("treegraft/view",)):
        assert "plotly" not in ever


def test_policies_know_drafters_by_their_base_class_alone():
    for path in (ROOT / "treegraft/policies").glob("*.py"):
        drafters = {name for name in imported(path) if name.startswith("treegraft.drafters")}
        assert drafters <= {"treegraft.drafters.base"}, path


def test_engine_knows_policies_by_their_base_class_alone():
    names = imported(ROOT / "treegraft/engine.py")
    assert {name for name in names if name.startswith("treegraft.policies")} == {"treegraft.policies.base"}


@pytest.mark.parametrize("module", ["treegraft", "treegraft.trace", "treegraft.policies", "treegraft.view.model",
                                    "treegraft.view.figure", "treegraft.analysis.metrics", "treegraft.cli"])
def test_importing_does_not_load_torch(module):
    code = f"import sys, {module}; sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
