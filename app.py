"""The dashboard: `streamlit run app.py`."""

from pathlib import Path

import streamlit as st

ICON = Path(__file__).parent / "assets" / "icon.svg"

st.set_page_config(page_title="treegraft", page_icon=str(ICON), layout="wide")
st.logo(str(ICON), size="large")
st.navigation([
    st.Page("pages/tree.py", title="Tree", icon=":material/account_tree:", default=True),
    st.Page("pages/record.py", title="Record", icon=":material/fiber_manual_record:"),
], position="top").run()
