"""The heat map of the mask and the tables beside it."""

from __future__ import annotations

import numpy as np

from tests.view.examples import example
from treegraft.analysis.inspection import attention, caches
from treegraft.trace.records import TARGET
from treegraft.view import inspection_charts
from treegraft.view.inspection_charts import cache_table, mask_figure, mask_reading, mask_table


def test_the_heat_map_is_the_mask_with_the_accepted_path_marked():
    record = example().records[0]
    seen = attention(record)
    figure = mask_figure(seen, ["<b>"] * 6, [1, 3], "light")
    values = np.array(figure.data[0].z)
    assert np.array_equal(values > 0, seen.mask)
    assert {(row, column) for row, column in np.argwhere(values == 2).tolist()} == {
        (0, 0), (1, 0), (1, 1), (3, 0), (3, 1), (3, 3)}
    assert figure.data[0].y[0] == "0 &lt;b&gt;"
    assert mask_reading(seen, [1, 3]).startswith("6 nodes in the order of the verification: 14 of 36 places")


def test_a_large_mask_is_cut_and_says_so(monkeypatch):
    monkeypatch.setattr(inspection_charts, "MOST_ROWS", 4)
    seen = attention(example().records[0])
    assert np.array(mask_figure(seen, ["x"] * 6, [1], "dark").data[0].z).shape == (4, 4)
    assert mask_reading(seen, [1]).endswith("The first 4 of 6 rows are drawn.")


def test_tables_name_nodes_and_models():
    run = example()
    record = run.records[0]
    table = mask_table(run, attention(record), record.nodes.token)
    assert table.loc[5].tolist() == [5, "\u00b7is", 2, 5, "0 2 5"]
    record.kv = {TARGET: 6, 1: 5}
    rows = cache_table(run, caches(record, None, run.header)).to_numpy().tolist()
    assert rows == [["target", "not recorded", "9", "6", "6"],
                    ["small", "not recorded", "not recorded", "5", "at most 6"]]
