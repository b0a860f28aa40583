"""Figures draw what the table says, one artist a row, and touch nothing global."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from figures.bars import bars, grouped_bars
from figures.distributions import distributions, profile_times
from figures.error_by_group import error_by_group
from figures.learning_curve import learning_curve
from figures.lines import lines, scalability
from figures.placement_regret import placement_regret
from figures.predicted_vs_simulated import predicted_vs_simulated
from figures.style import looks

PLANS = {
    "plan": ["naive", "random", "governor", "learned"],
    "latency_s": [20.0, float("nan"), 0.2, 0.1],
    "ci95_s": [2.0, float("nan"), 0.01, 0.2],
    "backpressured": [True, True, False, False],
}


def axes_of(figure: Figure) -> Axes:
    figure.savefig("/dev/null", format="png")  # draws everything: an artist that cannot be drawn fails here
    return figure.axes[0]


def dots(axes: Axes) -> list[tuple[float, float]]:
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if line.get_marker() == "o"]


def test_regret_has_a_dot_a_plan_with_a_latency() -> None:
    axes = axes_of(placement_regret(PLANS, "latency"))
    assert dots(axes) == [(20.0, 0), (0.2, 2), (0.1, 3)]
    assert [label.get_text() for label in axes.get_yticklabels()] == PLANS["plan"]
    assert axes.get_xscale() == "log"
    assert axes.get_xlim()[0] < 0.1 < 20.0 < axes.get_xlim()[1]


def test_regret_is_measured_from_the_best_plan_that_keeps_up() -> None:
    faster_but_failing = {**PLANS, "latency_s": [0.01, float("nan"), 0.2, 0.1]}
    words = [text.get_text() for text in axes_of(placement_regret(faster_but_failing, "latency")).texts]
    assert any("×2.00" in each for each in words)
    assert any("×0.10, backpressured" in each for each in words)
    assert any("no result" in each for each in words)


def test_regret_needs_a_latency() -> None:
    with pytest.raises(ValueError, match="finite latency_s"):
        placement_regret({**PLANS, "latency_s": [float("nan")] * 4}, "latency")


def test_predictions_are_placed_as_given_and_summarised() -> None:
    table = {"simulated": [1.0, 2.0, 4.0, np.nan, 0.0], "predicted": [2.0, 2.0, 1.0, 1.0, 1.0]}
    axes = axes_of(predicted_vs_simulated(table, "latency [s]"))
    drawn = [line for line in axes.lines if line.get_marker() == "o"]
    assert drawn[0].get_xdata().tolist() == [1.0, 2.0, 4.0]
    assert drawn[0].get_ydata().tolist() == [2.0, 2.0, 1.0]
    assert "3 runs" in axes.texts[0].get_text()
    assert "median 2.00" in axes.texts[0].get_text()
    with pytest.raises(ValueError, match="both values positive"):
        predicted_vs_simulated({"simulated": [0.0], "predicted": [1.0]}, "latency [s]")


def test_learning_curve_rings_the_best_step_of_each_member() -> None:
    validation = [3.0, 1.0, 2.0, 4.0, 3.0, 2.0]
    table = {
        "member": [0] * 3 + [1] * 3,
        "step": [0, 1, 2] * 2,
        "training_loss": validation,
        "validation_loss": validation,
    }
    assert dots(axes_of(learning_curve(table))) == [(1.0, 1.0), (2.0, 2.0)]


def test_no_figure_uses_pyplot() -> None:
    placement_regret(PLANS, "latency")
    assert "matplotlib.pyplot" not in sys.modules


def test_profiled_times_are_a_curve_an_operator_that_ends_at_its_longest_time() -> None:
    times = {f"operator-{number}": [1e-7 * (number + 1), 2e-7 * (number + 1), 9e-7] for number in range(12)}
    axes = axes_of(profile_times(times))
    assert [line.get_label() for line in axes.lines] == list(times)
    assert list(axes.lines[3].get_xdata()) == pytest.approx([400, 800, 900])
    assert list(axes.lines[3].get_ydata()) == [0, 0.5, 1]
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 12


MANY = [f"planner {number}" for number in range(9)]
"""More series than there are colours."""


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4, 5, 7, 9])
def test_every_series_is_drawn_and_named_and_none_looks_like_another(count: int) -> None:
    names = MANY[:count]
    points = {"series": [name for name in names for _ in range(2)], "x": [1, 2] * count, "y": list(range(2 * count))}
    sockets = {"series": points["series"], "sockets": points["x"], "speed_up": points["y"]}
    shares = {"group": ["g"] * count, "series": names, "value": [1.0 + number for number in range(count)]}
    errors = {name: [column] * count for name, column in (("dimension", "d"), ("group", "g"), ("quantity", "q_error"))}
    drawn = {
        "bars": bars(shares, "q"),
        "grouped_bars": grouped_bars(shares, "q"),
        "lines": lines(points, "x", "y"),
        "scalability": scalability(sockets),
        "distributions": distributions({name: [1.0, 2.0] for name in names}, "q"),
        "error_by_group": error_by_group({**errors, "metric": names, "value": [1.0] * count}, {}, ""),
    }
    for name, figure in drawn.items():
        figure.savefig("/dev/null", format="png")
        legends = [each for axes in figure.axes if (each := axes.get_legend())] + list(figure.legends)
        told = {text.get_text() for legend in legends for text in legend.get_texts()}
        assert set(names) <= told, name
    styles = looks(names)
    assert len(set(styles.values())) == len(styles) == count


def test_more_series_than_can_be_told_apart_are_refused() -> None:
    assert len(set(looks(map(str, range(30))).values())) == 30
    with pytest.raises(ValueError, match="31 series"):
        looks(map(str, range(31)))
