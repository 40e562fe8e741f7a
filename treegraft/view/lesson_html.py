"""The texts of lessons and of the glossary as HTML. Only texts that come with the program become markup; what a
recording said is escaped, and set apart from the words around it."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from treegraft.view.glossary import marked
from treegraft.view.palette import COLORS, PAGE

FACT = re.compile("\u2068([^\u2069]*)\u2069")
BOLD = re.compile(r"\*\*(.+?)\*\*")

STYLE = """<style>
.tg-lesson p {{ position: relative; margin: 0 0 0.8em; font-size: 1.05rem; line-height: 1.6; overflow-wrap: anywhere; }}
.tg-lesson.tg-reading p {{ margin: 0; font-size: 0.95rem; line-height: 1.5; }}
.tg-lesson b.tg-fact {{ font-weight: 600; unicode-bidi: isolate; }}
.tg-lesson abbr {{ text-decoration: underline dotted {quiet}; text-underline-offset: 3px; cursor: help; }}
.tg-lesson abbr:focus-visible {{ outline: 2px solid {accent}; outline-offset: 2px; border-radius: 2px; }}
.tg-lesson abbr:hover::after, .tg-lesson abbr:focus::after {{ content: attr(data-means); position: absolute; z-index: 9;
  left: 0; max-width: min(100%, 26rem); margin-top: 2.1em; padding: 0.5em 0.8em; font-size: 0.9rem; line-height: 1.45;
  color: {ink}; background: {page}; border: 1px solid {quiet}; border-radius: 8px; pointer-events: none;
  box-shadow: 0 4px 16px rgb(0 0 0 / 0.2); }}
.tg-lesson dl {{ margin: 0; padding: 0; }}
.tg-lesson dt {{ font-weight: 600; margin: 0.7em 0 0.1em; }}
.tg-lesson dd {{ margin: 0; line-height: 1.5; }}
</style>"""


def lesson_html(text: str, theme: str) -> str:
    """Paragraphs of a lesson; `text` as `lessons.filled` gives it."""
    told: set[str] = set()
    return _page("".join(f"<p>{_paragraph(part, told)}</p>" for part in text.split("\n\n")), theme)


def reading_html(text: str, theme: str) -> str:
    """A sentence about a chart; it may name what a recording named, so nothing in it becomes markup but its terms."""
    return _page(f"<p>{marked(text)}</p>", theme, "tg-lesson tg-reading")


def glossary_html(terms: Mapping[str, str], theme: str) -> str:
    """Terms and their meanings as a list."""
    rows = (f"<dt>{html.escape(term)}</dt><dd>{html.escape(means)}</dd>" for term, means in terms.items())
    return _page(f"<dl>{''.join(rows)}</dl>", theme)


def _paragraph(text: str, told: set[str]) -> str:
    words = FACT.split(text)  # facts are every other part
    return BOLD.sub(r"<b>\1</b>", "".join(
        f'<b class="tg-fact">{html.escape(part)}</b>' if place % 2 else marked(part, told)
        for place, part in enumerate(words)))


def _page(inner: str, theme: str, kind: str = "tg-lesson") -> str:
    colors = COLORS[theme]
    style = STYLE.format(ink=colors["ink"], quiet=colors["neutral"], accent=colors["accent"], page=PAGE[theme])
    return f'{style}<div class="{kind}">{inner}</div>'
