"""What makes a prediction doubtful: what a model does not see, and latencies that a little of the load moves far."""

from __future__ import annotations

import pytest

from scenarios.beside import doubts, steepness
from tests.twin.worlds import deployment, queue, sink, source
from twin.rates.model import RateModel
from twin.scenario import Scenario


@pytest.mark.parametrize(("load", "named"), [(0.5, False), (0.7, False), (0.9, True), (0.97, True)])
def test_latencies_so_steep_that_they_are_not_known_are_named(load: float, named: bool) -> None:
    """At a load of rho, 5 % more of it makes the time in M/M/1, 1 / (1 - rho), longer by (1 - rho) / (1 - 1.05 rho)."""
    scenario = Scenario.of(queue(100.0, load, 1.0))
    words = steepness(scenario)
    assert bool(words) == named == ((1.0 - load) / max(1.0 - 1.05 * load, 0.02) > 1.2)
    assert all(f"queue is fullest, at {load:.0%}" in each for each in words)
    assert RateModel().blind_to(scenario) == () and doubts(RateModel(), scenario) == words


def test_both_what_is_not_seen_and_a_steep_load_are_doubts() -> None:
    scenario, model = Scenario.of(queue(100.0, 0.9, 1.0)), RateModel(horizon_s=60.0)
    (horizon,), (steep,) = model.blind_to(scenario), steepness(scenario)
    assert doubts(model, scenario) == (horizon, steep)


def test_latencies_of_nothing_are_not_steep() -> None:
    """A job without costs has results at once, whatever comes."""
    nothing = deployment([source(service_time_s=0.0), sink(service_time_s=0.0)], [("source", "sink")], {"source": 10})
    free = Scenario.of(nothing)
    assert RateModel().predict(free, [free.plan])["processing_latency_s"][0] == 0.0
    assert steepness(free) == ()
