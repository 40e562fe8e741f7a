"""The Learn page without a browser."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from treegraft.view.glossary import TERMS

PAGE = Path(__file__).parents[2] / "app_pages" / "learn" / "page.py"


def learn(**address: str) -> AppTest:
    app = AppTest.from_file(PAGE, default_timeout=60)
    for name, value in address.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def step(app: AppTest) -> tuple[int, int]:
    """Lesson and step that the address names; what a test and what a page puts there reads differently."""
    return int("".join(app.query_params["lesson"])), int("".join(app.query_params["step"]))


def text(app: AppTest) -> str:
    return unescape(" ".join(one.proto.body for one in app.get("html")))


def test_steps_go_on_and_the_address_follows():
    app = learn()
    assert step(app) == (1, 1)
    assert app.button(key="step back").disabled
    app.button(key="step on").click().run()
    app.button(key="step on").click().run()
    assert step(app) == (1, 3)
    app.button(key="step back").click().run()
    assert step(app) == (1, 2)


@pytest.mark.parametrize(("lesson", "number", "shown"), [
    ("3", "2", (3, 2)), ("3", "99", (3, 6)), ("99", "1", (8, 1)), ("x", "y", (1, 1))])
def test_a_link_opens_its_step(lesson, number, shown):
    assert step(learn(lesson=lesson, step=number)) == shown


def test_each_lesson_keeps_the_step_where_it_was_left():
    app = learn(lesson="2", step="3")
    app.selectbox(key="learn list").select(5).run()
    assert step(app) == (5, 1)
    app.selectbox(key="learn list").select(2).run()
    assert step(app) == (2, 3)


def test_a_wrong_and_a_right_number_are_explained():
    app = learn(lesson="4", step="5")
    assert app.button(key="check 4").disabled
    app.number_input(key="answer 4").set_value(3).run()
    app.button(key="check 4").click().run()
    assert app.error
    assert not app.success
    assert "470" in text(app)
    assert any("0 of 8" in one.value for one in app.caption)
    app.number_input(key="answer 4").set_value(470).run()
    app.button(key="check 4").click().run()
    assert app.success
    assert not app.error
    assert any("1 of 8" in one.value for one in app.caption)


def test_a_choice_is_checked_and_the_next_lesson_begins():
    app = learn(lesson="8", step="6")
    app.radio(key="answer 8").set_value("It skips").run()
    app.button(key="check 8").click().run()
    assert app.error
    app.radio(key="answer 8").set_value("It calls").run()
    app.button(key="check 8").click().run()
    assert app.success
    app = learn(lesson="2", step="6")
    app.button(key="lesson on").click().run()
    assert step(app) == (3, 1)
    assert app.selectbox(key="learn list").value == 3


def test_the_glossary_opens_with_all_terms():
    app = learn()
    app.button(key="glossary").click().run()
    assert all(meaning in text(app) for meaning in TERMS.values())


def test_without_its_recording_a_lesson_says_so(tmp_path, monkeypatch):
    import streamlit as st

    st.cache_resource.clear()
    monkeypatch.setattr("treegraft.view.library.DEMOS", tmp_path)
    app = learn(lesson="2")
    assert "not among the bundled ones" in app.info[0].value
    st.cache_resource.clear()
