"""Means stand where the table says, over numbers or below each other, each with its interval."""

from __future__ import annotations

import math

import numpy as np

from figures.comparison import comparison

NAN = math.nan
GRID = {
    "metric": ["T", "T", "T", "T", "Le", "Le", "Le", "Le"],
    "variant": ["a1", "a2", "b1", "b2"] * 2,
    "series": ["a", "a", "b", "b"] * 2,
    "x": [2, 1, 1, 2] * 2,
    "mean": [20.0, 10.0, 11.0, 22.0, 1.0, 2.0, math.inf, 4.0],
    "half_width": [1.0, NAN, 1.0, 2.0, 0.1, 0.1, NAN, 0.1],
}


def test_numbers_are_an_axis_and_a_line_each_series():
    figure = comparison(GRID, "rate")
    figure.savefig("/dev/null", format="png")
    top, bottom = figure.axes
    lines = [container.lines[0] for container in top.containers]
    assert [line.get_xdata().tolist() for line in lines] == [[1, 2], [1, 2]]
    assert [line.get_ydata().tolist() for line in lines] == [[10, 20], [11, 22]]
    assert [container.lines[0].get_ydata().tolist() for container in bottom.containers] == [[2, 1], [4]]
    assert bottom.get_xlabel() == "rate"
    assert len(figure.legends) == 1


def test_names_stand_below_each_other():
    figure = comparison({**GRID, "x": [NAN] * 8}, "")
    figure.savefig("/dev/null", format="png")
    top, bottom = figure.axes
    assert [label.get_text() for label in top.get_yticklabels()] == ["a1", "a2", "b1", "b2"]
    dots = [container.lines[0] for container in bottom.containers]
    assert [(dot.get_xdata()[0], dot.get_ydata()[0]) for dot in dots] == [(1.0, 0), (2.0, 1), (4.0, 3)]
    assert not figure.legends
    assert np.isclose(top.get_xlim()[0], 0)
