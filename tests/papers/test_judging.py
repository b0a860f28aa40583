"""Lines of the tables: ours and the paper's have the same columns, and numbers beside the text."""

from __future__ import annotations

import pytest

from models.evaluation import ErrorRow
from papers.costream.judging import COLUMNS, SHORT, line, published
from papers.costream.published import TABLE_III, TABLE_IV, TABLE_V
from scenarios.spaces.unseen_hardware import EXTRAPOLATIONS
from twin.metrics import METRICS, REGRESSION_METRICS

REPORTED = {
    **{f"III {name}": each for name, each in TABLE_III.items()},
    **{f"IV {name}": each for name, each in TABLE_IV.items()},
    **TABLE_V,
}


@pytest.mark.parametrize("name", REPORTED)
def test_the_papers_figures_are_complete_and_possible(name):
    reported = REPORTED[name]
    assert set(reported) == set(METRICS) == set(SHORT)
    for metric, values in reported.items():
        if metric in REGRESSION_METRICS:
            q50, q95 = values
            assert 1 <= q50 <= q95
        else:
            (accuracy,) = values
            assert 0 < accuracy <= 1
    cells = published(name, reported)
    assert all(cells[metric] for metric in METRICS)
    assert cells["model"].startswith("paper")


def test_every_extrapolation_has_its_published_column():
    assert [each.name for each in EXTRAPOLATIONS] == list(TABLE_V)


def test_a_line_has_text_and_numbers_and_what_is_missing_is_none():
    rows = [
        ErrorRow("throughput_per_s", "m", 10, q50=1.0123, q95=12.3, q50_se=0.01, q95_se=2.0),
        ErrorRow("success", "m", 10, accuracy=0.945),
        ErrorRow("backpressured", "m", 10),
    ]
    cells = line("m", 10, rows)
    assert cells["throughput_per_s"] == "1.012 ± 0.01 / 12.3 ± 2"
    assert cells["throughput_per_s_q95"] == 12.3
    assert cells["throughput_per_s_q50_se"] == 0.01
    assert cells["success"] == "94.5%"
    assert cells["backpressured"] is None
    assert set(METRICS) < set(COLUMNS)
