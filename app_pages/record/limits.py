"""How long a run may get, what ends it, and what is measured and kept besides."""

from __future__ import annotations

import streamlit as st

from app_pages.record.settings import KEEP
from app_pages.shared.look import readable_choices
from treegraft import public
from treegraft.policies import Policy
from treegraft.sampling import Sampling

MAX_NEW_TOKENS = 8192

LEVELS = {"run": "The run", "dense": "Dense", "exhaustive": "Exhaustive"}
LEVEL_HELP = """How much is kept for what-if questions, which replay a recording without the models.

- **The run**: every draft tree as it was. Smaller budgets and other thresholds may be beyond it.
- **Dense**: also what the drafters say at every place of the text, probed after the run. What-ifs about budgets, depths
  and widths become exact. Takes about as long again as the run.
- **Exhaustive**: also what they say under every choice of calls, so that the scheduler's decisions can be judged.
  Takes many times as long as the run."""


def choose_limits() -> tuple[int, tuple[str, ...]]:
    """The most new tokens, and the texts that end the answer."""
    most = public.MOST_NEW_TOKENS if public.is_public() else MAX_NEW_TOKENS
    limit = st.number_input("Most new tokens", 1, most, min(256, most), key="max_new_tokens", **KEEP)
    readable_choices()
    stop = st.multiselect("Stop texts", [], key="stop", accept_new_options=True, placeholder="None", **KEEP,
                          help="The answer ends at the first of these. Write \\\\n for a line break.")
    st.caption("One sequence, in bfloat16 where this machine is fast in it, else in float32.")
    return limit, tuple(text.replace("\\n", "\n") for text in stop)


def choose_level(policy: Policy, sampling: Sampling) -> str:
    """How much is recorded; for text that is drawn only the run itself can be."""
    if sampling.temperature > 0:
        st.caption("Records the run alone: exact what-ifs need temperature 0.")
        return "run"
    levels = [level for level in LEVELS if (level != "exhaustive" or policy.decides)
              and (level in public.LEVELS or not public.is_public())]
    return st.selectbox("Recording level", levels, key=f"level {len(levels)}", format_func=LEVELS.__getitem__,
                        help=LEVEL_HELP, **KEEP)


def choose_race() -> bool:
    """Whether plain decoding is measured beside the run."""
    return st.checkbox("Race against plain decoding", key="race", **KEEP, help=(
        "Decodes the same prompt first without drafting, and measures that. Its text is then replayed at its own "
        "measured times beside the run; both at once on one machine would slow each other down."))
