"""Measures policies against transformers' own decoding: same loaded models, same prompts, alternating, with spread.

`samples` says what is measured, `rows` how each row of the result decodes, `measure` in which order, `summary` what
follows from the numbers, `report` how it is shown, and `runner` puts them together.
"""
