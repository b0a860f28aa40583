"""Calls to systems outside, found from latencies and full operators; costs that share a factor."""

from __future__ import annotations

import numpy as np
import pytest

from scenarios.calibration import profile_file
from scenarios.calibration.calibrate import calibrate
from scenarios.calibration.judging import HeldOut
from scenarios.calibration.newton import NewtonFit, untied
from scenarios.calibration.predicting import predict
from scenarios.calibration.unit_costs import TIED, of_kinds, ties
from tests.scenarios.calibration.engines import WARMUP_S, at_rates, job, simulated
from twin.profiles import FLINK
from twin.scenario import Scenario

KNOWN = job(
    [
        {"kind": "source", "name": "source"},
        {"kind": "async", "name": "ask", "latency_s": 0.02, "capacity": 10, "service_time_s": 1e-4},
        {"kind": "lookup-join", "name": "look", "latency_s": 0.01, "hit_ratio": 0.5},
        {"kind": "sink", "name": "sink"},
    ],
    [("source", "ask"), ("ask", "look"), ("look", "sink")],
    {"source": 50},
    {"source": "h", "ask": ["h", "h"], "look": ["h", "h"], "sink": "h"},
)
TRUE = {"ask": 0.08, "look": 0.004}


def hidden(scenario: Scenario) -> Scenario:
    """With calls four times as slow, and less than half."""
    query = scenario.query
    operators = tuple(
        each.model_copy(update={"latency_s": TRUE.get(each.name, 0.0)}) if each.name in TRUE else each
        for each in query.operators
    )
    return scenario.model_copy(update={"query": query.model_copy(update={"operators": operators})})


def test_how_long_calls_take_is_told_apart_by_what_a_full_operator_lets_through() -> None:
    """One operator's calls limit the job, to 10 of 80 ms a replica; what is left of the latency is the other's.

    Room comes back by the buffer: a source that is held back takes a buffer of records at a stretch, here every six
    seconds, so what it takes in a time may be off by one buffer. Runs are so long that this is at most 2 %.
    """
    points = []
    buffer = KNOWN.engine.batch_of(KNOWN.engine.output_bytes(KNOWN.query, "source"))
    borne_per_s = 2 * 10 / TRUE["ask"]
    measured_s = buffer / (0.02 * borne_per_s)
    for factor in (1.0, 4.0, 40.0):
        known = at_rates(KNOWN, factor).with_run(horizon_s=WARMUP_S + measured_s, period_s=measured_s / 10)
        points.append(simulated(f"x{factor:g}", known, hidden(known), cpu={}))
    found = calibrate(points)
    estimates = {each.name: each for each in found.estimates}
    assert estimates["call_s.ask"].value == pytest.approx(TRUE["ask"], rel=0.06) and estimates["call_s.ask"].known
    assert estimates["call_s.look"].unit == "s" and estimates["call_s.look"].prior == 0.01
    profile = profile_file.profile_of(KNOWN, found, HeldOut(), points, "")
    asked = profile_file.applied(profile, KNOWN).query.operator("ask")
    assert asked.latency_s == found.hidden["call_s.ask"] and asked.capacity == 10
    unseen = at_rates(KNOWN, 2.5)
    run = simulated("x2.5", unseen, hidden(unseen))
    assert predict(found.applied(unseen)).latency_s == pytest.approx(run.latency_s, rel=0.1)


def test_points_that_say_nothing_of_latencies_leave_calls_as_they_are() -> None:
    points = [simulated(f"x{f:g}", at_rates(KNOWN, f), at_rates(KNOWN, f), cpu={}, latency_s=None) for f in (1.0, 2.0)]
    assert "call_s.ask" not in calibrate(points).hidden


@pytest.mark.parametrize("others", [0, 2])
def test_costs_of_a_tie_share_a_factor_and_its_uncertainty(others: int) -> None:
    costs = of_kinds(FLINK)
    names, ties_kf = [cost.name for cost in costs], ties(costs)
    assert (ties_kf.sum(axis=1) == 1.0).all()
    assert ties_kf.shape[1] == len(costs) - sum(len(tie) - 1 for tie in TIED)
    rng = np.random.default_rng(0)
    size = ties_kf.shape[1] + others
    root = rng.normal(size=(size, size))
    factors = NewtonFit(rng.normal(size=size), root @ root.T, 9)
    found = untied(factors, ties_kf)
    assert len(found.logs_k) == len(costs) + others and found.readings == 9
    for tie in TIED:
        first, *more = [names.index(name) for name in tie]
        for each in more:
            assert found.logs_k[each] == found.logs_k[first]
            assert found.covariance_kk[each] == pytest.approx(found.covariance_kk[first])
    assert found.logs_k[len(costs) :] == pytest.approx(factors.logs_k[size - others :])
    assert np.linalg.eigvalsh(found.covariance_kk).min() > -1e-9


def test_a_profile_without_most_of_a_tie_has_a_factor_for_what_is_left() -> None:
    costs = [cost for cost in of_kinds(FLINK) if cost.name in ("value_us.strings", "scan_us", "tuple_us.source")]
    assert (ties(costs) == np.eye(3)).all()
    assert ties([]).shape == (0, 0)
