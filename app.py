"""The dashboard's pages: `treegraft dashboard` serves them.

Its pages do not lie in a folder named `pages`: Streamlit would take that for pages of its own, and tell the first
visitor with a link to one of them that it was not found.
"""

from pathlib import Path
from uuid import uuid4

import streamlit as st

from app_pages.record.demo import is_demo
from treegraft.public import is_public
from treegraft.sessions import identify_by

ICON = Path(__file__).parent / "assets" / "icon.svg"


def session_name() -> str:
    """A name for this browser session that nobody can guess."""
    return st.session_state.setdefault("session_name", uuid4().hex)


identify_by(session_name)
if is_public():
    st.set_option("client.showErrorDetails", "none")  # they name files of this machine
st.set_page_config(page_title="treegraft", page_icon=str(ICON), layout="wide")
if not is_demo():
    st.logo(str(ICON), size="large")
st.navigation([
    st.Page("app_pages/tree/page.py", title="Tree", icon=":material/account_tree:", default=True),
    st.Page("app_pages/acceptance/page.py", title="Acceptance", icon=":material/bar_chart:", url_path="acceptance"),
    st.Page("app_pages/what_if/page.py", title="What-if", icon=":material/tune:", url_path="what-if"),
    st.Page("app_pages/scheduler/page.py", title="Scheduler", icon=":material/alt_route:", url_path="scheduler"),
    st.Page("app_pages/compare/page.py", title="Compare", icon=":material/compare_arrows:", url_path="compare"),
    st.Page("app_pages/record/page.py", title="Record", icon=":material/fiber_manual_record:", url_path="record"),
    st.Page("app_pages/learn/page.py", title="Learn", icon=":material/school:", url_path="learn"),
], position="hidden" if is_demo() else "top").run()
