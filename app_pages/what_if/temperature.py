"""How the recorded trees would fare if tokens were drawn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app_pages.shared.charts import chart, origin_badge
from app_pages.shared.glossary import explain
from app_pages.shared.look import theme
from app_pages.shared.recording import Opened
from treegraft.analysis.temperature import Expected, expected_accepted
from treegraft.trace import Run
from treegraft.view.whatif_charts import temperature_figure

TEMPERATURES = np.round(np.arange(0.1, 2.01, 0.1), 2)

ASSUMED = """The recorded trees stand, each at its place in the recorded text, and drafted tokens are accepted by the
rule for drafts that were not drawn at random: with the target's own probability. A text that is drawn soon goes other
ways, where other trees would stand; and of each distribution the trace holds only some tokens, so the truth for these
trees lies between the two lines (at temperature 1 they meet)."""


@st.cache_resource(max_entries=8)
def expected_of(_run: Run, key: str) -> Expected | None:
    return expected_accepted(_run, TEMPERATURES)


def show_temperature(opened: Opened) -> None:
    expected = expected_of(opened.run, opened.key)
    if expected is None:
        st.text("This is known for greedy recordings alone: the probabilities of a sampled one are those at its own "
                "temperature. Its expected accepted length is on the Acceptance page.")
        return
    accepted = sum(round.accepted for round in opened.run.rounds) / len(opened.run.rounds)
    one = int(np.flatnonzero(expected.temperatures == 1.0)[0])
    origin_badge("estimated")
    rows = pd.DataFrame({"temperature": expected.temperatures, "at least": expected.low, "at most": expected.high})
    chart(temperature_figure(expected, accepted, theme()), key="what if temperature", table=rows,
          reading=f"At temperature 1 these trees would have {expected.low[one]:.2f} tokens accepted a round on "
                  f"average; greedy decoding accepted {accepted:.2f} (measured).")
    explain(" ".join(ASSUMED.split()))
