"""Policies compared on many prompts: one trace a policy, one table, plots. See `docs/compare.md`."""
