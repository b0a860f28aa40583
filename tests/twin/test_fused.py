"""Fused operators: against one operator that does it all, against theory, and while a plan changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twin.changing import HOSTS, column
from tests.twin.changing import run as run_changing
from tests.twin.fused_jobs import CONSTANT, COUNT, TIME, counting, filter_, fuse, map_, results, run, totals
from tests.twin.worlds import HOST, chain, deployment, sink, source
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Migration, Scale
from twin.plan import ExecutionPlan
from twin.scenario import RunSettings, Scenario

# against one operator that takes as long ------------------------------------------------------------------------------


@pytest.mark.parametrize(("window", "most"), [(None, 1000), (COUNT, 30), (TIME, 30)], ids=["map", "count", "time"])
def test_what_is_fused_with_a_map_before_it_is_one_that_takes_as_long(window: dict[str, Any] | None, most: int) -> None:
    """An operator fused with a map equals one with the sum of service times: the same records at the same times."""

    def last(name: str, service_s: float) -> dict[str, Any]:
        return map_(name, service_s) if window is None else counting(name, service_s, window)

    two = fuse(chain([map_("a", 2e-3), last("b", 3e-3)], CONSTANT), ("a", "b"))
    found, expected = (results(run(each, noise=False)) for each in (two, chain([last("a", 5e-3)], CONSTANT)))
    assert sum(row["latencyCount"] for row in found) > most
    assert found == expected


def test_a_sink_that_is_fused_counts_what_it_has_served() -> None:
    """A fused sink has the latency of both services, 5 ms each at a constant rate."""
    job = deployment([source(), map_("a", 3e-3), sink(service_time_s=2e-3)], [("source", "a"), ("a", "sink")],
                     {"source": CONSTANT})  # fmt: skip
    result = run(fuse(job, ("a", "sink")), noise=False)
    assert result.metrics.e2e_latency_s.mean == pytest.approx(5e-3, abs=1e-9)
    assert [each.busy for each in result.operators] == pytest.approx([0.0, 0.5, 0.5], abs=0.01)


def test_a_source_that_is_fused_takes_a_record_as_it_begins_with_it() -> None:
    """A fused source's processing latency is the service alone, however long a record waits in the broker."""
    job = fuse(chain([map_("a", 6e-3)], {"law": "poisson", "rate_per_s": 100}), ("source", "a", "sink"))
    result = run(job, 60.0, noise=False)
    assert result.metrics.processing_latency_s.mean == pytest.approx(6e-3, rel=1e-6)
    assert result.metrics.e2e_latency_s.mean > 8e-3


# against theory -------------------------------------------------------------------------------------------------------


def test_a_fused_tandem_is_one_queue() -> None:
    """A fused tandem is an M/D/1 of both services, S + rho S / (2 (1 - rho)); apart, only the first's records wait."""
    first_s, second_s, rate = 4e-3, 2e-3, 120
    job = chain([map_("a", first_s), map_("b", second_s)], rate)
    whole_s = first_s + second_s
    for together_, service_s, rest_s in ((("a", "b"), whole_s, 0.0), ((), first_s, second_s)):
        load = rate * service_s
        expected_s = service_s + load * service_s / 2 / (1 - load) + rest_s
        result = run(fuse(job, *filter(None, [together_])), 150.0, noise=False)
        assert result.metrics.e2e_latency_s.mean == pytest.approx(expected_s, rel=0.06)


def test_a_fused_queue_with_a_filter_is_an_m_g_1() -> None:
    """A filter fused with b, which every second record takes, is an M/G/1 (Pollaczek-Khinchine)."""
    rate, first_s, second_s = 150, 2e-3, 6e-3
    job = chain([filter_("f", first_s, 0.5), map_("b", second_s)], rate)
    result = run(fuse(job, ("f", "b")), 300.0, noise=False)
    mean_s, square_s2 = first_s + second_s / 2, (first_s**2 + (first_s + second_s) ** 2) / 2
    wait_s = rate * square_s2 / 2 / (1 - rate * mean_s)
    assert result.metrics.e2e_latency_s.mean == pytest.approx(wait_s + first_s + second_s, rel=0.08)


@settings(max_examples=15, deadline=None)
@given(
    services_ms=st.lists(st.floats(0.5, 3.0), min_size=2, max_size=4),
    load=st.floats(0.2, 0.9),
    seed=st.integers(0, 99),
)
def test_fused_is_never_slower_on_the_same_core(services_ms: list[float], load: float, seed: int) -> None:
    """On one core fused operators are never slower: apart, tasks share it, and no service is done sooner."""
    middle = [map_(f"m{k}", each * 1e-3) for k, each in enumerate(services_ms)]
    rate = load / (sum(services_ms) * 1e-3)
    job = chain(middle, rate, hosts=[{**HOST, "cpu_percent": 100}])
    apart, as_one = (
        run(each, 8.0, noise=False, seed=seed).metrics.e2e_latency_s.mean
        for each in (job, fuse(job, tuple(each["name"] for each in middle)))
    )
    assert as_one <= apart * (1 + 1e-6)


# every operator counts its own ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [COUNT, TIME], ids=["count", "time"])
def test_what_one_hands_over_the_next_has_taken(window: dict[str, Any]) -> None:
    middle = [map_("m", 1e-4, selectivity=2.0), filter_("f", 1e-4, 0.5), counting("a", 1e-4, window, 5)]
    job = chain([*middle, filter_("g", 1e-3, 0.5)], 200)
    found = totals(run(fuse(job, ("source", "m", "f", "a", "g", "sink"))))
    for first, second in (("source", "m"), ("m", "f"), ("f", "a"), ("a", "g")):
        assert found[first][1] == found[second][0] > 100
    assert found["m"][1] == pytest.approx(2 * found["m"][0], rel=0.01)
    assert found["f"][1] == pytest.approx(found["f"][0] / 2, rel=0.06)
    assert found["g"][1] == pytest.approx(found["sink"][0], abs=10)
    fires = found["a"][0] / 10 if window is COUNT else 16.0 / 0.5
    assert found["a"][1] == pytest.approx(5 * fires, rel=0.05)


def test_two_windows_over_time_in_a_row() -> None:
    """A second window holds the results of the first, one each half second: 4 of them in 2 s."""
    job = chain([counting("a", 1e-4, TIME), counting("b", 0.0, {"policy": "time", "size_s": 2, "slide_s": 2})], 200)
    apart, as_one = (totals(run(each)) for each in (job, fuse(job, ("a", "b"))))
    assert as_one["a"][1] == as_one["b"][0] == pytest.approx(apart["b"][0], abs=1) and as_one["b"][0] >= 31
    assert as_one["b"][1] == pytest.approx(apart["b"][1], abs=1)


def test_fused_subtasks_overloaded_are_one_core_each() -> None:
    """Overloaded fused subtasks use one core each: 2 ms and 3 ms a record are 200 a second."""
    job = chain([map_("a", 2e-3), map_("b", 3e-3)], 1000, placement={"a": ["h", "h"], "b": ["h", "h"]})
    job = fuse(job, ("a", "b"))
    result = run(job, 30.0, noise=False)
    assert result.metrics.throughput_per_s == pytest.approx(400, rel=0.02)
    assert result.metrics.backpressured


def test_an_overloaded_window_works_on_one_core_at_most() -> None:
    """An overloaded fused window uses one core, though its matches take more than the time between evaluations."""
    join = {"kind": "join", "name": "j", "window": TIME, "selectivity": 0.02, "service_time_s": 1e-3}
    operators = [source("s"), source("t"), join, map_("n", 1e-3), filter_("o", 1e-3, 0.5), sink()]
    streams = [("s", "j"), ("t", "j"), ("j", "n"), ("n", "o"), ("o", "sink")]
    job = fuse(deployment(operators, streams, {"s": 100, "t": 60}), ("j", "n", "o"))
    # evaluations take seconds, and their work is booked as they begin: that of a warm-up would lie beyond it
    result = run(job, 60.0, period_s=5.0, warmup_s=0.0)
    assert result.hosts[0].cpu * 16 == pytest.approx(1.0, abs=0.08)


GROUPS = [("source", "m"), ("m", "a"), ("a", "g", "sink"), ("source", "m", "a", "g", "sink")]
DOWN = Failure(at_s=8.5, host="h1", recover_after_s=3)


def changing(group: tuple[str, ...], window: dict[str, Any], parallelism: int = 1) -> Deployment:
    """Job with fused operators on h1, all others on h0."""
    middle = [map_("m", 2e-4), counting("a", 1e-4, window, 20), map_("g", 1e-4)]
    names = ["source", "m", "a", "g", "sink"]
    placement = {name: ["h1"] * parallelism if name in group else ["h0"] for name in names}
    forward = dict.fromkeys(group[1:], "forward")
    job = chain(middle, 400, hosts=HOSTS, placement=placement, partitioning=forward)
    return job.with_plan(ExecutionPlan(placement=job.plan.placement, fused=(group,)))


@pytest.mark.slow
@pytest.mark.parametrize("window", [COUNT, TIME], ids=["count", "time"])
@pytest.mark.parametrize("group", GROUPS)
def test_a_failure_loses_and_repeats_as_much_as_apart(group: tuple[str, ...], window: Any) -> None:
    """After a failure fused operators have the results of the job that runs apart (each run checks conservation)."""
    job = changing(group, window)
    as_one, apart = (
        run_changing(each, DOWN, horizon_s=16, checkpoint_interval_s=3)
        for each in (job, job.with_plan(job.plan.model_copy(update={"fused": ()})))
    )
    assert as_one.event_rows[0]["end_s"] == 11.5
    made = as_one.metrics.records_out - as_one.duplicates
    assert made == pytest.approx(apart.metrics.records_out - apart.duplicates, rel=0.03)


def test_windows_that_are_fused_move_with_what_they_hold() -> None:
    job = changing(("a", "g", "sink"), TIME)
    for event in (
        Migration(at_s=8.2, operator="a", subtask=0, to="h3"),
        Scale(at_s=8.2, operator="a", placement=("h1", "h3")),
    ):
        result = run_changing(job, event)
        assert "refused" not in result.event_rows[0]["detail"] and result.event_rows[0]["bytes"] > 1000
        assert min(column(result, "a", "numRecordsOut")[3:]) >= 36  # 20 groups, twice a second


def test_a_subtask_that_comes_later_is_a_chain_as_well() -> None:
    job = changing(("m", "a"), COUNT, parallelism=2)
    result = run_changing(job, Scale(at_s=5, operator="m", placement=("h1", "h1", "h2")))
    parallelism = {name: column(result, name, "parallelism")[-1] for name in ("m", "a", "g")}
    assert parallelism == {"m": 3, "a": 3, "g": 1}


def test_an_event_names_the_first() -> None:
    job = changing(("a", "g"), TIME)
    events: list[AnyEvent] = [
        Migration(at_s=1, operator="g", subtask=0, to="h3"),
        Scale(at_s=1, operator="g", placement=("h3",)),
    ]
    for event in events:
        with pytest.raises(BadInput, match="'g' runs as one with 'a' and goes where that goes; name 'a'"):
            Scenario.of(job, RunSettings(), (event,))
