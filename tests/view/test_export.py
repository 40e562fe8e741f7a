"""Exports hold the run and nothing that acts or reaches out."""

from __future__ import annotations

import copy
import csv
import io
import json
import math
import re
from html.parser import HTMLParser

from tests.view.examples import SKY, drawn, example, grafted, retrieved
from treegraft.verify import RULES
from treegraft.view.acceptance import LOSSY
from treegraft.view.export import node_rows, nodes_csv, replay_html
from treegraft.view.model import run_view


class Elements(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script":
            self.scripts.append(data)


def hostile_run():
    run = example()
    run.pieces[SKY] = b"</script><img src=x onerror=alert(1)><!--"
    run.header.prompt.messages = [{"role": "user", "content": "</title><script>alert(2)</script>"}]
    return run


def test_a_replay_page_is_one_file_that_reaches_nowhere():
    page = replay_html(example())
    assert not re.search(r"""(?:src|href|url|import|from)\\s*[=(]?\\s*["']?(?:https?:)?//""", page)
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
    assert "default-src 'none'" in page


def test_tokens_cannot_leave_their_script():
    elements = Elements(replay_html(hostile_run()))
    assert [tag for tag, _ in elements.tags] == [
        "html", "head", "meta", "title", "meta", "meta", "style", "body", "div", "script", "script"]
    view = json.loads(elements.scripts[0])
    assert view["pieces"][str(SKY)] == "</script><img\u00b7src=x\u00b7onerror=alert(1)><!--"


def test_rows_hold_the_numbers_of_the_record():
    view = run_view(example())
    rows = list(node_rows(view, view["rounds"][0]))
    assert rows[4] == {
        "round": 0, "node": 4, "parent": 1, "depth": 2, "token": 22, "text": "\u00b7was", "drafter": "small",
        "layer": 2, "q": math.exp(-1), "p": math.exp(-2.5), "rank under target": 2, "score": -1.5,
        "score when drafted": -1.5, "rank by score": 5, "grafted": False, "retrieved": False,
        "rank in row": None, "fate": "rejected", "rule": "greedy", "verdict": "", "u": None, "chance": None}
    assert rows[8]["score"] is None
    assert rows[8]["p"] is None


def test_rows_say_what_was_rescored_and_grafted():
    view = run_view(grafted())
    rows = list(node_rows(view, view["rounds"][0]))
    assert [row["score when drafted"] for row in rows] == [0, -0.5, -0.7, None, -0.6, -1.2]
    assert [row["score"] for row in rows] == [0, -0.8, -0.2, -9, -0.6, -1.2]
    assert [row["grafted"] for row in rows] == [False, False, False, False, True, True]


def test_rows_say_what_was_retrieved():
    view = run_view(retrieved())
    rows = list(node_rows(view, view["rounds"][0]))
    assert [row["retrieved"] for row in rows] == [False, True, False, False, True, False, True, True, True]
    assert [row["rank in row"] for row in rows] == [None] * 6 + [2, 3, 1]
    assert [row["rank by score"] for row in rows] == [None, 1, 3, 2, 5, 4, None, None, None]
    assert list(csv.DictReader(io.StringIO(nodes_csv(retrieved()))))[7]["rank in row"] == "3"


def test_rows_hold_the_verdicts_of_a_sampled_round():
    view = run_view(drawn())
    rows = list(node_rows(view, view["rounds"][0]))
    assert {row["rule"] for row in rows} == {"points"}
    assert [row["verdict"] for row in rows[:7]] == ["", "not accepted", "accepted", "", "", "not accepted", ""]
    assert [row["u"] for row in rows[:7]] == [None, 0.75, 0.25, None, None, 0.97, None]
    assert [row["chance"] for row in rows[:7]] == [None, 0.670, 0.301, 0.905, 0.082, 0.951, None]


def test_a_replay_page_names_the_rule():
    assert json.loads(Elements(replay_html(drawn("typical"))).scripts[0])["rule"] == {
        "name": "typical", "help": RULES["typical"].help, "lossy": LOSSY}


def test_csv_has_a_line_a_node_and_no_formulas():
    run = example()
    run.pieces[SKY] = b"=1+1"
    lines = list(csv.DictReader(io.StringIO(nodes_csv(run))))
    assert len(lines) == 9
    assert lines[1]["text"] == "'=1+1"
    assert lines[4]["p"] == str(math.exp(-2.5))


def test_nonsense_above_a_probability_of_one_is_no_error():
    run = example()
    run.records[0].events[6] = copy.deepcopy(run.records[0].events[6])
    run.records[0].events[6].logprob[1] = 2**53
    view = run_view(run)
    assert list(node_rows(view, view["rounds"][0]))[1]["p"] == 1
