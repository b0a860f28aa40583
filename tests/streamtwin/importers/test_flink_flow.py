"""Rates within a Flink job, and names of its operators, from counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from streamtwin.connect.importers.flink_chain import once, steps_of
from streamtwin.connect.importers.flink_job import Vertex
from streamtwin.connect.importers.flink_readings import flow_of
from streamtwin.connect.importers.flink_scenario import scenario_of
from tests.streamtwin.importers.test_flink_versions import joining, vertex
from twin.deployment import nominal_rates

TOLD = "counters do not tell which operator of its chain sends to which consumer"


@pytest.mark.parametrize("subtasks", [1, 2, 4])
def test_each_subtask_counts_what_is_broadcast_and_its_producer_counts_it_once(subtasks: int) -> None:
    """b sends 10 records/s to c, to all its subtasks, and the same to e."""
    c = replace(vertex("c", ("b",), 10.0 * subtasks, 0.0), parallelism=subtasks, hosts=("h",) * subtasks, dealt=())
    vertices = (
        vertex("a", (), 0.0, 10.0),
        vertex("b", ("a",), 10.0, 20.0),
        replace(c, inputs=(("b", "BROADCAST"),)),
        vertex("e", ("b",), 10.0, 0.0),
    )
    assert flow_of(vertices).rates == {("b", 0): 10.0, ("c", 0): 10.0, ("e", 0): 10.0}
    scenario = scenario_of(replace(joining("Window", 1.0), vertices=vertices), {}).scenario
    rates = nominal_rates(scenario.query, scenario.workload.arrivals)
    assert [rates[name].in_per_s for name in "bce"] == pytest.approx([10.0] * 3)


def branching(consumers: Sequence[tuple[str, float]], counters: dict[str, float]) -> tuple[Vertex, ...]:
    """Source of 100 records/s, of which one branch keeps a tenth and another one half. consumers: with their rates."""
    chain = steps_of("Source: s -> (few, half)", "Source: s<br/>:- few<br/>+- half<br/>", counters)
    source = replace(vertex("s", (), 0.0, sum(rate for _, rate in consumers)), chain=chain)
    return (source, *(vertex(name, ("s",), rate, 0.0) for name, rate in consumers))


COUNTERS = {
    "few.numRecordsIn": 100.0,
    "half.numRecordsIn": 100.0,
    "few.numRecordsOut": 10.0,
    "half.numRecordsOut": 50.0,
}


@pytest.mark.parametrize("reverse", [False, True])
def test_counters_tell_which_branch_sends_to_which_consumer(reverse: bool) -> None:
    consumers = sorted((("x", 10.0), ("y", 50.0)), reverse=reverse)
    job = replace(joining("Window", 1.0), vertices=branching(consumers, COUNTERS))
    found = scenario_of(job, {})
    assert {(each.producer, each.consumer) for each in found.scenario.query.streams} >= {("few", "x"), ("half", "y")}
    assert not any(TOLD in note for note in found.notes)
    rates = nominal_rates(found.scenario.query, found.scenario.workload.arrivals)
    assert [rates[name].in_per_s for name, _ in consumers] == pytest.approx([rate for _, rate in consumers])


def test_a_stream_leaves_from_the_branch_that_sends_as_much() -> None:
    """The other branch writes somewhere itself, which its name does not say."""
    for name, rate in (("few", 10.0), ("half", 50.0)):
        job = replace(joining("Window", 1.0), vertices=branching([("x", rate)], COUNTERS))
        streams = scenario_of(job, {}).scenario.query.streams
        assert [each.producer for each in streams if each.consumer == "x"] == [name]


def test_where_counters_do_not_tell_which_branch_sends_what_it_is_said() -> None:
    job = replace(joining("Window", 1.0), vertices=branching([("x", 10.0), ("y", 50.0)], {}))
    (note,) = (note for note in scenario_of(job, {}).notes if TOLD in note)
    assert note.startswith("s: ")


@pytest.mark.parametrize("mark", ["#", "-"])
@pytest.mark.parametrize(
    "names", [["a", "a", "a#2"], ["a", "a", "a-2", "a-2"], ["a#2", "a", "a", "a", "a#2#2", "a#2"], ["a"] * 5, []]
)
def test_names_are_used_once_and_those_that_are_are_kept(names: list[str], mark: str) -> None:
    found = once(names, mark)
    assert len(set(found)) == len(names) and once(found, mark) == found
    assert {each: found[names.index(each)] for each in names} == {each: each for each in names}


def test_a_job_of_one_task_has_no_streams_that_counters_should_tell() -> None:
    job = replace(joining("Window", 1.0), vertices=branching([], {}))
    assert not any(TOLD in note for note in scenario_of(job, {"s": 100.0}).notes)
