"""Draws of constants: spread as the points leave them open, never negative, together where only a sum is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scenarios.calibration import posterior, profile_file
from scenarios.calibration.calibrate import calibrate
from scenarios.calibration.design import Rows
from scenarios.calibration.least_squares import LinearFit, fit
from scenarios.calibration.point import Point
from scenarios.calibration.predicting import predict
from scenarios.calibration.profile_file import UnderProfile
from scenarios.calibration.unit_costs import UnitCost
from scenarios.planning.calibrated_cost import CalibratedCostModel
from scenarios.planning.cost_models import cost_model
from tests.commands import refused
from tests.scenarios.calibration.engines import at_rates, formula, job
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.scenario import Scenario


def fitted(values: list[float], covariance: list[list[float]]) -> LinearFit:
    return LinearFit(np.array(values), np.array(covariance), np.ones(1), np.zeros(1), 5, 0.0)


def many(fit: LinearFit) -> np.ndarray:
    drawn = [row for seed in range(80) for row in posterior.linear(fit, ("a", "b"), seed)]
    return np.array([[row["a"], row["b"]] for row in drawn])


def test_intervals_of_few_readings_hold_the_costs_as_often_as_they_say() -> None:
    """Of two costs from four readings: by Student's t of two degrees of freedom, within four standard errors."""
    rng, true_k, held = np.random.default_rng(3), np.array([1.0, 2.0]), np.zeros(2)
    for _ in range(200):
        need_rk = rng.uniform(0.5, 2.0, (4, 2))
        cores_r = need_rk @ true_k * (1.0 + 0.02 * rng.normal(size=4))
        rows = Rows(cores_r, np.zeros(4), need_rk, np.ones(4), ("",) * 4)
        low_k, high_k = fit(rows, [UnitCost(name, "us", 1.0) for name in "ab"]).intervals_k2().T
        held += (low_k <= true_k) & (true_k <= high_k)
    assert (held / 200 >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 200)).all(), held


def test_draws_have_the_mean_and_spread_of_the_fit() -> None:
    drawn = many(fitted([50.0, 9.0], [[25.0, -4.0], [-4.0, 1.0]]))
    assert drawn.mean(axis=0) == pytest.approx([50.0, 9.0], rel=0.02)
    assert np.cov(drawn.T) == pytest.approx(np.array([[25.0, -4.0], [-4.0, 1.0]]), rel=0.2)


def test_what_is_known_as_a_sum_is_drawn_as_one() -> None:
    """Costs of two operators in a chain: their sum within 0.2, each anything."""
    drawn = many(fitted([5.0, 5.0], [[25.02, -24.98], [-24.98, 25.02]]))
    assert (drawn >= 0).all()
    assert drawn.sum(axis=1).std() < 0.3 and drawn.std(axis=0).min() > 1.5


def test_a_cost_that_may_be_nothing_is_half_a_normal() -> None:
    drawn = many(fitted([0.0, 3.0], [[4.0, 0.0], [0.0, 0.01]]))
    assert (drawn[:, 0] >= 0).all()
    assert drawn[:, 0].mean() == pytest.approx(2.0 * np.sqrt(2.0 / np.pi), rel=0.1)


@pytest.fixture(scope="module")
def base() -> Scenario:
    operators = [
        {"name": "s", "kind": "source"},
        {"name": "m", "kind": "map", "service_time_s": 0.0004},
        {"name": "k", "kind": "sink"},
    ]
    return job(operators, [("s", "m"), ("m", "k")], {"s": 1000.0}, {"s": "h", "m": ["h", "h"], "k": "h"})


def read(base: Scenario, noise: float) -> list[Point]:
    """Busy times at four rates, each off by up to a share of it."""
    rng, points = np.random.default_rng(1), []
    for number, factor in enumerate((0.3, 0.6, 0.9, 1.2)):
        scenario = at_rates(base, factor)
        exact = formula(str(number), scenario, scenario)
        busy = {name: share * rng.uniform(1 - noise, 1 + noise) for name, share in predict(scenario).busy.items()}
        points.append(Point(name=str(number), scenario=scenario, taken_per_s=exact.taken_per_s, busy=busy))
    return points


def test_a_profile_is_a_cost_model_whose_spread_is_what_is_not_known(base: Scenario) -> None:
    """Read exactly, the draws agree; with busy times that scatter, they do not."""
    spreads = []
    for noise in (0.0, 0.2):
        found = calibrate(read(base, noise), by="operator")
        model = CalibratedCostModel("p", profile_file.profile_of(base, found, (), 4, ""), RateModel())
        said, plain = model.predict(base, [base.plan]), RateModel().predict(found.applied(base), [base.plan])
        assert said["throughput_per_s"] == pytest.approx(plain["throughput_per_s"])
        spreads.append(float(said.spread[0]))
    assert spreads[0] < 0.2 * spreads[1]


def test_a_profile_is_named_as_a_cost_model_by_its_file(base: Scenario, tmp_path: Path) -> None:
    profile = profile_file.profile_of(base, calibrate(read(base, 0.1), by="operator"), (), 4, "")
    (tmp_path / "p.yaml").write_text(profile_file.dump(profile))
    model = cost_model(str(tmp_path / "p.yaml"))
    assert isinstance(model, CalibratedCostModel) and model.profile == profile
    (tmp_path / "no.yaml").write_text("query: 3\n")
    assert "no.yaml" in refused("optimize", "smart-grid", "--cost-model", tmp_path / "no.yaml")


def test_rows_are_seen_under_a_profile(base: Scenario) -> None:
    """As `twin use-profile` makes of them; two profiles never share a kept encoding."""
    profiles = [
        profile_file.profile_of(base, calibrate(read(base, noise), by="operator"), (), 4, "") for noise in (0.0, 0.2)
    ]
    seen = [UnderProfile(each)(base.deployment, "run") for each in profiles]
    assert seen[0] == profile_file.applied(profiles[0], base).deployment != base.deployment
    assert seen[0] != seen[1] and len({UnderProfile(each).name for each in profiles}) == 2


def test_a_profile_that_changes_hosts_is_applied_once(base: Scenario) -> None:
    found = calibrate(read(base, 0.1), by="operator")
    profile = profile_file.profile_of(base, found, (), 4, "").model_copy(update={"exponent": 0.8})
    calibrated = profile_file.applied(profile, base)
    assert calibrated.cluster.hosts[0].cpu_percent == pytest.approx(100 * 16**0.8)
    with pytest.raises(BadInput, match="under this profile already"):
        profile_file.applied(profile, calibrated)
