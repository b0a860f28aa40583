"""Figures of errors draw every value that the table has, where it says."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from figures.bars import grouped_bars
from figures.error_by_group import error_by_group


def test_every_value_is_a_point_of_its_group() -> None:
    rows = [
        ("CPU", "1-2", "T", "q_error", 1.2),
        ("CPU", "2-3", "T", "q_error", 1.4),
        ("CPU", "1-2", "S", "accuracy", 0.9),
        ("CPU", "2-3", "S", "accuracy", float("nan")),
        ("RAM", "4-8", "T", "q_error", 1.3),
        ("RAM", "4-8", "S", "accuracy", 0.8),
    ]
    table = dict(zip(("dimension", "group", "metric", "quantity", "value"), zip(*rows, strict=True), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a panel without a line has no legend
        figure = error_by_group(table, {"q_error": 1.6}, "the paper's")
        only = {name: [each for each, quantity in zip(column, table["quantity"], strict=True) if quantity == "q_error"]
                for name, column in table.items()}  # fmt: skip
        error_by_group(only, {}, "")
    figure.savefig("/dev/null", format="png")
    cpu_error, ram_error, cpu_accuracy, _ = figure.axes
    assert [axes.get_title() for axes in (cpu_error, ram_error)] == ["CPU", "RAM"]
    assert cpu_error.lines[0].get_ydata().tolist() == [1.2, 1.4]
    assert [label.get_text() for label in cpu_error.get_xticklabels()] == ["1-2", "2-3"]
    assert ram_error.lines[0].get_ydata().tolist() == [1.3]
    np.testing.assert_array_equal(cpu_accuracy.lines[0].get_ydata(), [0.9, np.nan])
    assert [len(axes.lines) for axes in figure.axes] == [2, 2, 1, 1]  # the bound is a line more


def test_bars_reach_their_values_and_none_is_drawn_without_one() -> None:
    table = {"group": ["a", "b", "a", "b"], "series": ["x", "x", "y", "y"], "value": [2.0, 3.0, 4.0, float("nan")]}
    figure = grouped_bars(table, "q-error")
    figure.savefig("/dev/null", format="png")
    tops = [bar.get_y() + bar.get_height() for bar in figure.axes[0].patches]
    assert tops == pytest.approx([2.0, 3.0, 4.0])
    centres = [bar.get_x() + bar.get_width() / 2 for bar in figure.axes[0].patches]
    assert centres[0] < 0 < centres[2] < centres[1]
