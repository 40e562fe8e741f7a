"""Colours can be seen by everybody: contrast on both pages, and apart under the common colour deficiencies."""

from __future__ import annotations

import tomllib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from treegraft.view.palette import COLORS, PAGE, css_variables

CONFIG = tomllib.loads((Path(__file__).parents[2] / ".streamlit" / "config.toml").read_text())

DEFICIENCIES = {
    "none": np.eye(3),
    "protanopia": np.array([
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deuteranopia": np.array([
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritanopia": np.array([
        [1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
"""Linear RGB as it is seen, complete deficiency (Machado, Oliveira and Fernandes 2009)."""


def linear(color: str) -> np.ndarray:
    channels = np.array([int(color[place:place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def luminance(rgb: np.ndarray) -> float:
    return float(rgb @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    low, high = sorted([luminance(linear(one)), luminance(linear(other))])
    return (high + 0.05) / (low + 0.05)


def lab(rgb: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of linear sRGB, white point D65."""
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ np.clip(rgb, 0, 1)
    f = np.cbrt(np.maximum(xyz / [0.9505, 1, 1.089], 1e-6))
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_the_one_that_the_app_is_set_to(theme):
    assert CONFIG["theme"][theme]["backgroundColor"] == PAGE[theme]
    assert CONFIG["theme"][theme]["textColor"] == COLORS[theme]["ink"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contrast(theme):
    for name, color in COLORS[theme].items():
        text = name in {"ink", "accepted", "rejected", "bonus", "discarded", "accent"}
        assert contrast(color, PAGE[theme]) >= (4.5 if text else 3.0), name


@pytest.mark.parametrize("seen", DEFICIENCIES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_fates_stay_apart(theme, seen):
    fates = ("accepted", "rejected", "unreached", "bonus")
    for one, other in combinations(fates, 2):
        colors = [lab(DEFICIENCIES[seen] @ linear(COLORS[theme][fate])) for fate in (one, other)]
        assert np.linalg.norm(colors[0] - colors[1]) >= 18, (one, other)


@pytest.mark.parametrize("seen", DEFICIENCIES)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_grafts_stay_apart_by_drafter(theme, seen):
    colors = [lab(DEFICIENCIES[seen] @ linear(COLORS[theme][name])) for name in ("graft0", "graft1", "neutral")]
    for one, other in combinations(colors, 2):
        assert np.linalg.norm(one - other) >= 18


def test_every_colour_is_a_variable_of_both_themes():
    style = css_variables()
    assert all(f"--tg-{name}: {color};" in style for colors in COLORS.values() for name, color in colors.items())
