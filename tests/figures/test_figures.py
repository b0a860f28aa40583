"""Tests of figures: charts, answers, learning, plans, and time-lines."""

from __future__ import annotations

import math
import re
import sys
import warnings
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from figures.answers import comparison, over_time, run_panels, search_path, tornado
from figures.charts import bars, distributions, grouped_bars, lines, profile_times, scalability
from figures.plans import error_by_group, learning_curve, plans_beside_a_promise, predicted_vs_simulated
from figures.style import FONT_PT, LABEL_PT, looks
from figures.svg import width_px
from figures.time_line import FONT_PX, WIDTH_PX, Panel, time_line

# figures -------------------------------------------------------------------------------------------------------------
# Tests of figures: they draw what the table says, one artist a row, and change nothing global.


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


def test_each_plan_with_a_latency_has_a_dot_beside_the_promise() -> None:
    axes = axes_of(plans_beside_a_promise(PLANS, 0.15, "latency"))
    assert dots(axes) == [(20.0, 0), (0.2, 2), (0.1, 3)]
    assert [label.get_text() for label in axes.get_yticklabels()] == PLANS["plan"]
    assert axes.get_xscale() == "log"
    assert axes.get_xlim()[0] < 0.1 < 20.0 < axes.get_xlim()[1]


def test_a_promise_is_kept_by_plans_that_keep_up_within_it() -> None:
    faster_but_failing = {**PLANS, "latency_s": [0.01, float("nan"), 0.2, 0.1]}
    words = [text.get_text() for text in axes_of(plans_beside_a_promise(faster_but_failing, 0.15, "latency")).texts]
    assert [each for each in words if "kept" in each] == ["100 ms, kept"]
    assert any("200 ms, broken" in each for each in words)
    assert any("10 ms, does not keep up" in each for each in words)
    assert any("no result" in each for each in words)


def test_plans_beside_a_promise_need_a_latency() -> None:
    with pytest.raises(ValueError, match="finite latency_s"):
        plans_beside_a_promise({**PLANS, "latency_s": [float("nan")] * 4}, 0.1, "latency")


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
    plans_beside_a_promise(PLANS, 0.15, "latency")
    assert "matplotlib.pyplot" not in sys.modules


def test_profiled_times_are_a_curve_an_operator_that_ends_at_its_longest_time() -> None:
    times = {f"operator-{number}": [1e-7 * (number + 1), 2e-7 * (number + 1), 9e-7] for number in range(12)}
    axes = axes_of(profile_times(times))
    assert [line.get_label() for line in axes.lines] == list(times)
    assert list(axes.lines[3].get_xdata()) == pytest.approx([400, 800, 900])
    assert list(axes.lines[3].get_ydata()) == [0, 0.5, 1]
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 12


MANY = [f"planner {number}" for number in range(9)]
"""Names of more series than there are colours."""


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


@pytest.mark.parametrize("letter", ["i", "n", "W"])
def test_names_beside_an_axis_leave_room_whatever_their_letters_are(letter: str) -> None:
    """As many letters are shown as have room: more of a narrow one than of a wide one."""
    name = 200 * letter
    listed = comparison({**GRID, "x": [NAN] * 8, "variant": [name] * 8}, "")
    inputs = {"input": [name], "low": ["1"], "high": ["2"], "at_low": [1.0], "at_high": [2.0]}
    for figure in (listed, tornado(inputs, 1.5, "q")):
        shown = axes_of(figure).get_yticklabels()[0].get_text()
        assert shown.endswith("…") and width_px(shown, FONT_PT) <= LABEL_PT
        assert width_px(f"{letter}{shown}", FONT_PT) > LABEL_PT


def test_bands_between_quantiles_are_as_dark_on_paper_as_on_the_page() -> None:
    series = {name: [float(value), value + 1.0] for value, name in enumerate(("p50", "p90", "p95", "p99"), 1)}
    panel = Panel("latency", [0.0, 1.0], series, end_s=1.0, nested=True)
    dark = [each.get_alpha() for each in axes_of(run_panels([panel])).collections]
    assert dark == [float(each) for each in re.findall(r'<polygon[^>]*opacity="([^"]*)"', time_line(panel))]
    assert len(dark) == len(series) - 1


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


LONG = [
    f"plan.placement.match={{edge-{number}: 12, cloud-{number}: 4}}, workload.arrivals.x.rate_per_s=10M"
    for number in range(5)
]
"""Names as people get by varying several values at once."""


@pytest.mark.parametrize(
    "names", [LONG, LONG[:1], MANY[:5], ["a", LONG[0], "b", "c"]], ids=["long", "one", "short", "mixed"]
)
def test_no_legend_is_cut(names: list[str]) -> None:
    """It stays within the figure and leaves the axes room, however many names there are and however long they are."""
    count = len(names)
    over = {
        "panel": ["q"] * count,
        "series": names,
        "x": [0.0] * count,
        "mean": [1.0] * count,
        "half_width": [0.1] * count,
    }
    table = {"metric": ["T"] * 2 * count, "variant": names * 2, "series": names * 2, "x": [1] * count + [2] * count}
    table |= {"mean": [1.0] * 2 * count, "half_width": [0.1] * 2 * count}
    steps = {"runs": range(count), "best": [1.0] * count, "as_required": [False] * count, "found_by": names}
    panel = Panel("latency", [0.0, 1.0], {name: [1.0, 2.0] for name in names}, end_s=1.0)
    drawn = {
        "comparison": comparison(table, "x"),
        "over_time": over_time(over),
        "search_path": search_path(steps, count, "q"),
        "lines": lines({"series": names * 2, "x": [1] * count + [2] * count, "y": [1.0] * 2 * count}, "x", "y"),
        "distributions": distributions({name: [1.0, 2.0] for name in names}, "q"),
        "profile_times": profile_times({name: [1e-7, 2e-7] for name in names}),
        "run_panels": run_panels([panel, panel]),
    }
    for name, figure in drawn.items():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        whole = figure.bbox
        for legend in [*figure.legends, *(each for axes in figure.axes if (each := axes.get_legend()))]:
            box = legend.get_window_extent(canvas.get_renderer())
            assert whole.x0 - 1 <= box.x0 and box.x1 <= whole.x1 + 1, name
            assert whole.y0 - 1 <= box.y0 and box.y1 <= whole.y1 + 1, name
        for axes in figure.axes:
            if axes.get_visible():
                assert axes.bbox.width > 0.2 * whole.width and axes.bbox.height > 0.1 * whole.height, name


# time-lines ----------------------------------------------------------------------------------------------------------
# Lines over time: quantiles as bands, and nothing of a legend beside the picture.


SVG = "{http://www.w3.org/2000/svg}"
QUANTILES = ("p50", "p95", "p99")
GAPPED = st.lists(st.none() | st.tuples(*[st.floats(0.001, 100)] * 3).map(sorted), min_size=1, max_size=12)


def points(shape: ET.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (each.split(",") for each in shape.get("points", "").split())]


@given(GAPPED)
def test_the_room_between_quantiles_is_shaded_and_nothing_else(values: list[list[float] | None]) -> None:
    """A band's outline is the line of one quantile and, back, that of the next one; a gap is a gap of both."""
    series = {name: [each and each[n] for each in values] for n, name in enumerate(QUANTILES)}
    panel = Panel("latency", range(len(values)), series, logarithmic=True, nested=True)
    root = ET.fromstring(time_line(panel))
    bands = [points(each) for each in root.iter(f"{SVG}polygon")]
    runs = sum(a is not None and (n == 0 or values[n - 1] is None) for n, a in enumerate(values))
    assert len(bands) == runs * (len(QUANTILES) - 1)
    for outline in bands:
        half = len(outline) // 2
        below, above = outline[:half], outline[: half - 1 : -1]
        assert [x for x, _ in below] == [x for x, _ in above]
        assert all(low >= high for (_, low), (_, high) in zip(below, above, strict=True))  # pixels count downwards
    assert "polygon" not in time_line(panel._replace(nested=False))


@given(st.lists(st.text(max_size=60), min_size=1, max_size=6, unique=True))
def test_no_name_of_the_legend_goes_beyond_the_edge(names: list[str]) -> None:
    root = ET.fromstring(time_line(Panel("", [0.0], {name: [1.0] for name in names})))
    (legend,) = [each for each in root if each.tag == f"{SVG}g" and each.find(f"{SVG}path") is not None]
    words = list(legend.iter(f"{SVG}text"))
    assert len(words) == len(names)
    for each in words:
        assert float(each.get("x", "")) + width_px(each.text or "", FONT_PX) <= WIDTH_PX


@pytest.mark.parametrize("values", [(0.021, 0.0211), (80.0, 79.5), (1.0, 100.0)])
def test_markers_of_values_that_hardly_differ_are_within_their_axis(values):
    table = {"metric": ["m"] * 2, "variant": ["a", "b"], "series": ["s"] * 2, "x": [1.0, 2.0], "mean": values}
    for x in ([1.0, 2.0], [math.nan] * 2):
        (axes,) = comparison({**table, "x": x, "half_width": [math.nan] * 2}, "subtasks").axes
        low, high = axes.get_xlim() if math.isnan(x[0]) else axes.get_ylim()
        assert low == 0 and high >= 1.04 * max(values)


def test_an_axis_of_whole_numbers_has_no_others():
    table = {"metric": ["m"] * 3, "variant": ["a", "b", "c"], "series": ["s"] * 3, "mean": [1.0] * 3}
    for x, whole in (([1.0, 2.0, 3.0], True), ([0.5, 0.75, 1.0], False)):
        (axes,) = comparison({**table, "x": x, "half_width": [0.1] * 3}, "x").axes
        assert all(float(each).is_integer() for each in axes.get_xticks()) == whole


@pytest.mark.parametrize(("values", "scale"), [((1.0, 1.007), "linear"), ((1.0, 70.0), "log")])
def test_ticks_of_samples_that_lie_close_together_do_not_cover_each_other(values, scale):
    figure = distributions({"a": values, "b": values}, "factor", log=True)
    (axes,) = figure.axes
    assert axes.get_xscale() == scale
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    labels = [each for each in [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)] if each.get_text()]
    boxes = sorted((each.get_window_extent(canvas.get_renderer()) for each in labels), key=lambda box: box.x0)
    shown = [box for box in boxes if axes.bbox.x0 - 1 <= (box.x0 + box.x1) / 2 <= axes.bbox.x1 + 1]
    assert len(shown) > 1 and all(left.x1 <= right.x0 + 1 for left, right in pairwise(shown))


def test_the_path_of_a_search_may_rise_and_is_not_called_the_best():
    steps = {"runs": [0, 10, 20], "best": [2.0, 1.0, 1.2], "as_required": [True] * 3, "found_by": ["a", "b", "b"]}
    (axes,) = search_path(steps, 30, "q").axes
    assert "plan kept" in axes.get_ylabel() and "best" not in axes.get_ylabel()
