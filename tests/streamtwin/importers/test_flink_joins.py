"""Windows with two inputs: joins tell what a pair's chance to match is, unions are one stream."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamtwin.connect.importers.flink_job import FlinkJob, TaskManagers, Vertex
from streamtwin.connect.importers.flink_scenario import scenario_of
from twin.flow import nominal_rates
from twin.query import Aggregate, Join
from twin.workload import Constant

JOIN = "Window(TumblingProcessingTimeWindows(2000), ProcessingTimeTrigger, CoGroupWindowFunction)"
SLIDES = "Window(SlidingProcessingTimeWindows(4000, 1000), ProcessingTimeTrigger, CoGroupWindowFunction)"
REDUCES = "Window(TumblingProcessingTimeWindows(2000), ProcessingTimeTrigger, Reducer, PassThroughWindowFunction)"


def vertex(name: str, inputs: tuple[str, ...], in_per_s: float, out_per_s: float, steps: str = "") -> Vertex:
    return Vertex(
        id=name,
        name=name,
        steps=(steps or name,),
        inputs=tuple((each, "HASH" if steps else "REBALANCE") for each in inputs),
        replicas=1,
        key_groups=128,
        hosts=("h",),
        dealt=(in_per_s,),
        in_per_s=in_per_s,
        out_per_s=out_per_s,
        out_bytes_per_s=50.0 * out_per_s,
        busy=0.1,
        backpressured=0.0,
    )


def job(window: str, results_per_s: float, sides: int = 2, rate_per_s: float = 100.0) -> FlinkJob:
    sources = [vertex(f"s{side}", (), 0.0, rate_per_s) for side in range(sides)]
    names = tuple(each.name for each in sources)
    window_ = vertex("window", names, rate_per_s * sides, results_per_s, window)
    sink = vertex("sink", ("window",), results_per_s, 0.0)
    return FlinkJob("j", "2.3.0", (*sources, window_, sink), (TaskManagers("h", 4.0, 8000.0),), {}, 0.0, ())


@pytest.mark.parametrize(("window", "size_s", "slide_s"), [(JOIN, 2.0, 2.0), (SLIDES, 4.0, 1.0)])
def test_a_join_of_two_sides_is_right_at_other_rates(window: str, size_s: float, slide_s: float) -> None:
    """Of 64 even keys one pair in 64 matches; results grow with the product of the sides, not with their sum."""
    chance = 1.0 / 64.0
    imported = scenario_of(job(window, chance * (100.0 * size_s) ** 2 / slide_s), {})
    join = imported.scenario.query.operator("window")
    assert isinstance(join, Join) and join.selectivity == pytest.approx(chance)
    thrice = nominal_rates(imported.scenario.query, dict.fromkeys(("s0", "s1"), Constant(rate_per_s=300.0)))
    assert thrice["sink"].in_per_s == pytest.approx(chance * (300.0 * size_s) ** 2 / slide_s, rel=0.01)


def test_sides_that_nobody_tells_apart_keep_their_results_by_input() -> None:
    imported = scenario_of(job(JOIN, 600.0, sides=3), {})
    join = imported.scenario.query.operator("window")
    assert isinstance(join, Join) and join.amplification == pytest.approx(2.0)
    assert any("those at these rates" in note for note in imported.notes)


def test_streams_that_meet_in_a_window_are_no_join() -> None:
    window = scenario_of(job(REDUCES, 25.0), {}).scenario.query.operator("window")
    assert isinstance(window, Aggregate) and window.groups == 50


def test_a_window_that_ends_a_job_has_the_sink_in_its_chain() -> None:
    whole = job(REDUCES, 25.0)
    for each, end in ((whole, "sink"), (replace(whole, vertices=whole.vertices[:-1]), "window#sink")):
        operators = scenario_of(each, {}).scenario.query.operators
        assert [operator.name for operator in operators if operator.kind == "sink"] == [end]
