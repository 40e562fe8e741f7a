"""Colours by meaning, for the light and the dark theme; the tests hold them to contrast and to colour-blind vision.

Fates differ in shape and size as well, and drafters in shape, so that nothing hangs on colour.
"""

from __future__ import annotations

PAGE = {"light": "#fcfbf8", "dark": "#101614"}
"""Backgrounds of the app's own themes, as in `.streamlit/config.toml`."""

COLORS = {
    "light": {"ink": "#0f1815", "accepted": "#0b6e5e", "rejected": "#cc3f08", "unreached": "#878f95",
              "pruned": "#8a9195", "discarded": "#9a6700", "bonus": "#6f3fc9", "neutral": "#5c6a70",
              "accent": "#1f66d1", "graft0": "#6a5a00", "graft1": "#a50d8c"},
    "dark": {"ink": "#e6ece8", "accepted": "#48d8c8", "rejected": "#ff8550", "unreached": "#7c8783",
             "pruned": "#76817c", "discarded": "#e0b23c", "bonus": "#bda0ff", "neutral": "#a5b0ab",
             "accent": "#7db4ff", "graft0": "#ddc95a", "graft1": "#e25fd0"},
}
"""Colour of each fate, of a token whose fate is not known yet (`neutral`), of what the user points at, and of edges to
grafted tokens, by the drafter's id (even, odd)."""


def css_variables() -> str:
    """The colours as variables `--tg-...` of `.tg-player`, by its `data-theme`."""
    return "\n".join(
        f'.tg-player[data-theme="{theme}"] {{ ' + " ".join(f"--tg-{name}: {color};" for name, color in colors.items())
        + " }" for theme, colors in COLORS.items())
