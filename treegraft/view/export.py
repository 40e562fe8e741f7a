"""Files that a run can leave the app as: a page that replays it offline, and a table of its nodes."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from treegraft.trace.records import NATS
from treegraft.view.model import FATES, run_view
from treegraft.view.web import HTML, script, styles
from treegraft.view.words import chance

if TYPE_CHECKING:
    from treegraft.trace.reader import Run

REPLAY_BYTES = 50_000_000
"""A replay page holds about this much of a run at most, and says so if it is cut."""

POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
"""What the browser may do for the page: nothing that leaves it."""

THEME = """
:root { color-scheme: light dark; --st-background-color: #fcfbf8; --st-secondary-background-color: #f2f0ea;
  --st-text-color: #1a2421; }
@media (prefers-color-scheme: dark) { :root { --st-background-color: #101614; --st-secondary-background-color: #1a2320;
  --st-text-color: #e6ece8; } }
body { margin: 0; background: var(--st-background-color); }
.tg-root { max-width: 1440px; margin: 0 auto; padding: 20px; }
"""


def replay_html(run: Run) -> str:
    """One HTML file that plays the run in any browser, offline: it refers to nothing outside itself."""
    view = run_view(run, rounds=len(run.rounds), size=REPLAY_BYTES)
    title = html.escape(f"{view['title']} · {view['policy']} · treegraft")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{THEME}{styles()}</style>\n</head>\n<body>\n{HTML}\n"
        f'<script type="application/json" id="view">{_safe_json(view)}</script>\n'
        f'<script type="module">{script("page")}</script>\n</body>\n</html>\n')


def _safe_json(view: dict[str, Any]) -> str:
    """JSON that cannot end the script element that it stands in."""
    return msgspec.json.encode(view).decode().replace("<", "\\u003c")


def node_rows(view: dict[str, Any], round: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The nodes of a round of `view`, a row each: q and p are probabilities, scores are in nats, ranks start at 1.

    `u` is the random number (or the threshold) of a sampled verdict, `chance` that of being accepted after the parent.
    `rank in row` is the place in the row of the parent's token, for drafters that rank."""
    names = {drafter["id"]: drafter["name"] for drafter in view["drafters"]}
    fates = {letter: fate for fate, letter in FATES.items()}
    first = {node: before for _, node, before, _ in reversed(round["changes"])}
    grafted, retrieved, merged = (set(round[name]) for name in ("grafted", "retrieved", "merged"))
    verdicts = {node: ("accepted" if accepted else "not accepted", u) for event in round["events"]
                for node, _, _, u, accepted, _ in event.get("tried", ())}
    depth: list[int] = []
    for node, parent in enumerate(round["parent"]):
        depth.append(depth[parent] + 1 if node else 0)
        event = round["events"][round["born"][node]] if round["born"][node] >= 0 else {}
        yield {
            "round": round["index"], "node": node, "parent": parent if node else None, "depth": depth[node],
            "token": round["token"][node], "text": view["pieces"][round["token"][node]],
            "drafter": names.get(round["origin"][node], "") if node else "", "layer": event.get("layer"),
            "q": _probability(round["q"][node]), "p": _probability(round["logprob"][node]),
            "rank under target": round["ranks"][node] + 1 if node in round["ranks"] else None,
            "score": _nats(round["score"][node]), "score when drafted": _nats(first.get(node, round["score"][node])),
            "rank by score": round["rank"][node] if node and node not in retrieved - merged else None,
            "grafted": node in grafted, "retrieved": node in retrieved,
            "rank in row": round["row"][node] + 1 if node in round["row"] else None,
            "fate": fates[round["fate"][node]], "rule": view["rule"]["name"],
            **dict(zip(("verdict", "u"), verdicts.get(node, ("", None)), strict=True)),
            "chance": round["chances"].get(node) if node else None,
        }


def _nats(units: int | None) -> float | None:
    return None if units is None else units / NATS


def _probability(logprob: int | None) -> float | None:
    return None if logprob is None else chance(logprob)


def nodes_csv(run: Run) -> str:
    """All nodes of a run as a table, the columns of `node_rows`.

    A spreadsheet takes a cell that begins with one of = + - @ for a formula; such texts get an apostrophe in front."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for number in range(len(run.rounds)):
        view = run_view(run, number, rounds=1)
        rows = list(node_rows(view, view["rounds"][0]))
        if number == 0:
            writer.writerow(rows[0])
        writer.writerows([harmless(cell) for cell in row.values()] for row in rows)
    return out.getvalue()


def harmless(cell: Any) -> Any:
    return "'" + cell if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell
