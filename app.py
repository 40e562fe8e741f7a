"""The dashboard: `streamlit run app.py`."""

import streamlit as st

st.set_page_config(page_title="treegraft", page_icon=":material/account_tree:", layout="wide")
st.navigation([
    st.Page("pages/tree.py", title="Tree", icon=":material/account_tree:", default=True),
    st.Page("pages/record.py", title="Record", icon=":material/fiber_manual_record:"),
], position="top").run()
