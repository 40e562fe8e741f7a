"""Figures as files."""

from __future__ import annotations

import shutil

import kaleido
import plotly.graph_objects as go
import pytest
from kaleido.errors import ChromeNotFoundError, KaleidoError

from treegraft.view.still import save_html, save_png

FIGURE = go.Figure(go.Bar(x=[1, 2], y=[2, 1]), layout={"width": 300, "height": 200})


def test_a_page_needs_no_network(tmp_path):
    save_html(FIGURE, tmp_path / "plots.html")
    text = (tmp_path / "plots.html").read_text()
    assert text.startswith("<!doctype html>")
    assert 'src="http' not in text


@pytest.mark.browser
@pytest.mark.timeout(300)
@pytest.mark.skipif(not shutil.which("chromium"), reason="there is no Chromium on this machine")
def test_a_picture_is_drawn_by_a_browser(tmp_path):
    assert save_png(FIGURE, tmp_path / "plots.png") == ""
    picture = (tmp_path / "plots.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert int.from_bytes(picture[16:20], "big") == 600


@pytest.mark.parametrize("error", [
    ChromeNotFoundError("no Chrome\nhere"), KaleidoError(1, "no Chrome"), TimeoutError()])
def test_without_a_browser_the_reason_is_told_and_no_old_picture_stays(tmp_path, monkeypatch, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(kaleido, "calc_fig_sync", fail)
    (tmp_path / "plots.png").write_bytes(b"old")
    problem = save_png(FIGURE, tmp_path / "plots.png")
    assert problem.startswith("plots.png was not written: ")
    assert "\n" not in problem
    assert list(tmp_path.iterdir()) == []
