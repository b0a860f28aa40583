"""Intervals of a calibrated twin, as wide as held-out points are off; calls to outside systems, and shared factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scenarios.calibration import profile_file
from scenarios.calibration.calibrate import LEVEL, Prediction, calibrate, reach
from scenarios.calibration.newton import NewtonFit, predict, untied
from scenarios.calibration.points import Point
from scenarios.calibration.profile_file import CalibratedProfile, HeldOut, UnderProfile, held_out
from scenarios.calibration.unit_costs import TIED, Rows, UnitCost, fit, of_kinds, ties
from scenarios.planning.cost_models import CalibratedCostModel, cost_model
from tests.commands import refused
from tests.scenarios.calibration.engines import WARMUP_S, at_rates, formula, job, simulated
from twin.errors import BadInput
from twin.profiles import FLINK
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.spec import parse


def test_intervals_of_few_readings_hold_the_costs_as_often_as_they_say() -> None:
    """Intervals of two costs from four readings, by Student's t of two degrees of freedom, hold them often enough."""
    rng, true_k, held = np.random.default_rng(3), np.array([1.0, 2.0]), np.zeros(2)
    for _ in range(200):
        need_rk = rng.uniform(0.5, 2.0, (4, 2))
        cores_r = need_rk @ true_k * (1.0 + 0.02 * rng.normal(size=4))
        rows = Rows(cores_r, np.zeros(4), need_rk, np.ones(4), ("",) * 4)
        low_k, high_k = fit(rows, [UnitCost(name, "us", 1.0) for name in "ab"]).intervals_k2().T
        held += (low_k <= true_k) & (true_k <= high_k)
    assert (held / 200 >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 200)).all(), held


def test_as_many_new_readings_are_within_as_is_said() -> None:
    """New readings are within as often as claimed, whatever the errors; with so few that none may be outside, all."""
    rng = np.random.default_rng(5)
    for seen in (9, 20, 60):
        sizes = np.abs(rng.standard_t(2, (2000, seen + 1)))
        within = [row[-1] <= np.log(reach(row[:-1].tolist()).factor) for row in sizes]
        assert LEVEL - 0.03 < np.mean(within) < LEVEL + 1.0 / (seen + 1) + 0.03
    assert reach([0.1, 0.3, 0.2]).factor == pytest.approx(np.exp(0.3))


@pytest.fixture(scope="module")
def base() -> Scenario:
    operators = [
        {"name": "s", "kind": "source"},
        {"name": "m", "kind": "map", "service_time_s": 0.0004},
        {"name": "k", "kind": "sink"},
    ]
    return job(operators, [("s", "m"), ("m", "k")], {"s": 1000.0}, {"s": "h", "m": ["h", "h"], "k": "h"})


def read(base: Scenario, noise: float, seed: int = 1, rates: Sequence[float] = (0.3, 0.6, 0.9, 1.2)) -> list[Point]:
    """Points with busy times at some rates, each off by up to a share of it."""
    rng, points = np.random.default_rng(seed), []
    for number, factor in enumerate(rates):
        scenario = at_rates(base, factor)
        exact = formula(str(number), scenario, scenario)
        busy = {name: share * (1.0 + noise * rng.uniform(-1.0, 1.0)) for name, share in predict(scenario).busy.items()}
        points.append(Point(name=str(number), scenario=scenario, taken_per_s=exact.taken_per_s, busy=busy))
    return points


def profile_of(base: Scenario, points: Sequence[Point]) -> CalibratedProfile:
    found = calibrate(points, by="operator")
    return profile_file.profile_of(base, found, held_out(points, found), points, "")


def test_a_profile_is_a_cost_model_whose_spread_is_what_is_not_known(base: Scenario) -> None:
    """A profile's spread is its uncertainty: nearly none if read exactly, more with busy times that scatter."""
    spreads = []
    for noise in (0.0, 0.2):
        profile = profile_of(base, read(base, noise))
        model = CalibratedCostModel("p", profile, RateModel())
        said = model.predict(base, [base.plan])
        plain = RateModel().predict(profile_file.applied(profile, base), [base.plan])
        assert said["throughput_per_s"] == pytest.approx(plain["throughput_per_s"])
        spreads.append(float(said.spread[0]))
    assert spreads[0] < 0.2 * spreads[1]


def ends(said: Prediction) -> tuple[float, float]:
    assert said.low is not None and said.high is not None
    return said.low, said.high


def test_what_a_job_bears_has_an_interval_only_where_a_point_tells(base: Scenario) -> None:
    """The load that a job bears has an interval only with a slowed source; else it follows from costs alone."""
    light = read(base, 0.1)
    slowed = replace(light[-1], taken_per_s={**light[-1].taken_per_s, "s": 0.9 * light[-1].offered_per_s("s")})
    for points in (light, [*light, slowed]):
        profile = parse(CalibratedProfile, profile_of(base, points).model_dump(mode="json"), where="")
        (bears,) = (each for each in profile_file.predictions(profile, base) if each.kind == "bears")
        assert profile.saturated == (slowed in points) == (bears.low is not None)


def test_intervals_hold_what_new_points_read(base: Scenario) -> None:
    """Intervals from thirty points hold fifty new ones; a noisy operator widens its own readings alone."""
    profile = profile_of(base, read(base, 0.2, rates=np.linspace(0.5, 4.5, 30).tolist()))
    held: list[bool] = []
    for point in read(base, 0.2, seed=2, rates=np.linspace(0.6, 4.0, 50).tolist()):
        said = {(each.kind, each.of): each for each in profile_file.predictions(profile, point.scenario)}
        known = {key: ends(each) for key, each in said.items() if each.kind != "bears"}
        assert all(low <= said[key].predicted <= high for key, (low, high) in known.items())
        held += [low <= point.busy[of] <= high for (kind, of), (low, high) in known.items() if kind == "busy"]
    assert 0.85 < np.mean(held) < 0.97

    quiet = [replace(each, busy={**each.busy, "m": predict(each.scenario).busy["m"]}) for each in read(base, 0.3)]
    load = profile_of(base, quiet).intervals.load
    assert load["operator m"].factor < 1.02 < 1.05 < load["operator k"].factor


def test_an_interval_near_the_knee_is_that_of_the_load(base: Scenario) -> None:
    """Costs a fifth off leave a latency as it is at light load, and make its interval wide at the knee."""
    profile = profile_of(base, read(base, 0.2))
    knee_at = math.exp(predict(profile_file.applied(profile, base)).margin["s"])
    light, knee = (
        next(each for each in profile_file.predictions(profile, at_rates(base, factor)) if each.kind == "latency")
        for factor in (0.1 * knee_at, 0.98 * knee_at)
    )
    (low, high), (least, most) = ends(light), ends(knee)
    assert high / low < 1.1 and most / least > 5.0
    best = profile_file.tells_most(profile, base)
    assert best is not None and 0.7 < best.load / knee_at < 1.5, "the knee is where one more point tells most"


def test_a_profile_is_named_as_a_cost_model_by_its_file(base: Scenario, tmp_path: Path) -> None:
    profile = profile_of(base, read(base, 0.1))
    (tmp_path / "p.yaml").write_text(profile_file.dump(profile))
    model = cost_model(str(tmp_path / "p.yaml"))
    assert isinstance(model, CalibratedCostModel) and model.profile == profile
    (tmp_path / "no.yaml").write_text("query: 3\n")
    assert "no.yaml" in refused("optimize", "smart-grid", "--cost-model", tmp_path / "no.yaml")


def test_rows_are_seen_under_a_profile(base: Scenario) -> None:
    """Rows are encoded under a profile as `twin use-profile` applies it; two profiles never share a kept encoding."""
    profiles = [
        profile_file.profile_of(base, calibrate(points, by="operator"), HeldOut(), points, "")
        for points in (read(base, 0.0), read(base, 0.2))
    ]
    seen = [UnderProfile(each)(base.deployment, "run") for each in profiles]
    assert seen[0] == profile_file.applied(profiles[0], base).deployment != base.deployment
    assert seen[0] != seen[1] and len({UnderProfile(each).name for each in profiles}) == 2


def test_a_profile_that_changes_hosts_is_applied_once(base: Scenario) -> None:
    points = read(base, 0.1)
    found = calibrate(points, by="operator")
    profile = profile_file.profile_of(base, found, HeldOut(), points, "").model_copy(update={"exponent": 0.8})
    calibrated = profile_file.applied(profile, base)
    assert calibrated.cluster.hosts[0].cpu_percent == pytest.approx(100 * 16**0.8)
    with pytest.raises(BadInput, match="under this profile already"):
        profile_file.applied(profile, calibrated)


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
    """Scenario with one operator's calls four times as slow, and the other's less than half."""
    query = scenario.query
    operators = tuple(
        each.model_copy(update={"latency_s": TRUE.get(each.name, 0.0)}) if each.name in TRUE else each
        for each in query.operators
    )
    return scenario.model_copy(update={"query": query.model_copy(update={"operators": operators})})


def test_how_long_calls_take_is_told_apart_by_what_a_full_operator_lets_through() -> None:
    """Times of two operators' calls are told apart: one limits the job, to 10 of 80 ms a subtask; the rest is the
    other's.

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
    there = [[name for name in tie if name in names] for tie in TIED]  # only where state is stored, it is accessed
    assert ties_kf.shape[1] == len(costs) - sum(len(tie) - 1 for tie in there if tie)
    rng = np.random.default_rng(0)
    size = ties_kf.shape[1] + others
    root = rng.normal(size=(size, size))
    factors = NewtonFit(rng.normal(size=size), root @ root.T, 9)
    found = untied(factors, ties_kf)
    assert len(found.logs_k) == len(costs) + others and found.readings == 9
    for tie in filter(None, there):
        first, *more = [names.index(name) for name in tie]
        for each in more:
            assert found.logs_k[each] == found.logs_k[first]
            assert found.covariance_kk[each] == pytest.approx(found.covariance_kk[first])
    assert found.logs_k[len(costs) :] == pytest.approx(factors.logs_k[size - others :])
    assert np.linalg.eigvalsh(found.covariance_kk).min() > -1e-9


def test_a_profile_without_most_of_a_tie_has_a_factor_for_what_is_left() -> None:
    costs = [cost for cost in of_kinds(FLINK) if cost.name in ("value_us.strings", "scan_us", "record_us.source")]
    assert (ties(costs) == np.eye(3)).all()
    assert ties([]).shape == (0, 0)
