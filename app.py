"""The dashboard: `streamlit run app.py`.

Each page has a folder below `pages`: until this script has run once, Streamlit takes scripts that lie in `pages`
itself for pages of their own.
"""

from pathlib import Path

import streamlit as st

ICON = Path(__file__).parent / "assets" / "icon.svg"

st.set_page_config(page_title="treegraft", page_icon=str(ICON), layout="wide")
st.logo(str(ICON), size="large")
st.navigation([
    st.Page("pages/tree/page.py", title="Tree", icon=":material/account_tree:", default=True),
    st.Page("pages/acceptance/page.py", title="Acceptance", icon=":material/bar_chart:", url_path="acceptance"),
    st.Page("pages/scheduler/page.py", title="Scheduler", icon=":material/alt_route:", url_path="scheduler"),
    st.Page("pages/compare/page.py", title="Compare", icon=":material/compare_arrows:", url_path="compare"),
    st.Page("pages/record/page.py", title="Record", icon=":material/fiber_manual_record:", url_path="record"),
], position="top").run()
