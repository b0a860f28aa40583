"""Arrival laws: counts follow the cumulative intensity, whatever the grain; bad laws are explained."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scenarios.files import scenario_file
from tests.twin.arrivals import DIURNAL, LAWS, SPIKES, STEPS, TWO_STATES, clock_of, counts, law_of, times
from twin.arrivals.laws import MIN_RATE_PER_S
from twin.errors import BadInput
from twin.randomness import random_stream
from twin.spec import parse
from twin.workload import Workload


def rate_at(name: str, t: np.ndarray) -> np.ndarray:
    """Rates that the laws promise, written down once more."""
    match name:
        case "diurnal":
            return 300 * (1 + np.sin(2 * np.pi * (t / 8 + 0.25)))
        case "steps":
            return np.select([t % 8 < 1, t % 8 < 3, t % 8 < 6], [0, 500, 0], 100)
        case "spikes":
            return np.where(t % 4 < 3, 100, 800)
        case _:
            return np.full_like(t, 200.0)


def expected(name: str, edges: np.ndarray) -> np.ndarray:
    fine = np.linspace(edges[0], edges[-1], (len(edges) - 1) * 2000 + 1)
    middle = (fine[1:] + fine[:-1]) / 2
    return (rate_at(name, middle) * np.diff(fine)).reshape(len(edges) - 1, -1).sum(axis=1)


@pytest.mark.parametrize("name", LAWS)
def test_counts_follow_the_cumulative_intensity(name: str) -> None:
    """Counts pass Pearson's test over bins of half a second; a silent bin is empty."""
    edges = np.arange(0.0, 40.5, 0.5)
    want = expected(name, edges)
    got = counts(clock_of(law_of(LAWS[name])), edges)
    assert got[want < 1e-9].sum() < 1e-6
    some = want > 1e-9
    freedom = some.sum()
    assert ((got - want)[some] ** 2 / want[some]).sum() < freedom + 4 * math.sqrt(2 * freedom)
    assert abs(got.sum() - want.sum()) < 4 * math.sqrt(want.sum())


@pytest.mark.parametrize("name", ["diurnal", "steps", "spikes"])
def test_even_spacing_has_no_noise(name: str) -> None:
    law = law_of(LAWS[name] | {"poisson": False})
    assert law.gap_scv == 0.0
    edges = np.arange(0.0, 40.5, 0.5)
    assert np.abs(np.cumsum(counts(clock_of(law), edges)) - np.cumsum(expected(name, edges))).max() < 2.0


@pytest.mark.parametrize("rate_per_s", [200.0, 1.0, 0.05])
@pytest.mark.parametrize("name", ["poisson", "constant"])
def test_gaps_have_the_moments_that_a_steady_law_states(name: str, rate_per_s: float) -> None:
    law = law_of({"law": name, "rate_per_s": rate_per_s})
    gaps = np.diff(list(times(clock_of(law), 10_000 / rate_per_s)))
    assert gaps.mean() == pytest.approx(1 / law.mean_rate_per_s, rel=0.04)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(law.gap_scv, rel=0.1, abs=1e-9)


def test_bursty_counts_have_mean_and_variance_of_the_process() -> None:
    """Var N(t) = m t + 2 p q d^2 (t/k - (1 - e^(-k t))/k^2), d: difference of rates, k: sum of switching rates."""
    law, t = law_of(TWO_STATES), 6.0
    got = np.array([counts(clock_of(law, seed), np.array([0.0, t]))[0] for seed in range(150)])
    k = 1 / 0.5 + 1 / 1.5
    variance = 100 * t + 2 * 0.25 * 0.75 * 400**2 * (t / k - (1 - math.exp(-k * t)) / k**2)
    assert abs(got.mean() - 100 * t) < 4 * math.sqrt(variance / 150)
    assert abs(got.var() / variance - 1) < 4 * math.sqrt(2 / 150) + 0.05


def test_random_spikes_come_as_often_as_regular_ones() -> None:
    law = law_of(SPIKES | {"random": True, "every_s": 2})
    got = counts(clock_of(law), np.array([0.0, 2000.0]))[0]
    cycles = 1000  # one cycle in records: 1 s at 800/s and a quiet time whose length varies like its mean, 1 s
    assert abs(got - law.mean_rate_per_s * 2000) < 4 * math.sqrt(cycles) * 1.1 * 350


@pytest.mark.parametrize(
    "data",
    [
        DIURNAL,
        STEPS,
        SPIKES,
        {"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 7}]},
        {"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 1}, {"at_s": 2, "rate_per_s": 4}]},
        {"law": "poisson", "rate_per_s": 3},
    ],
)
def test_mean_and_peak_are_those_of_the_phases(data: dict[str, Any]) -> None:
    law, left_s, records, peak = law_of(data), 8.0, 0.0, 0.0
    if data.get("steps", [{}])[-1].get("at_s") == 2:
        left_s = 4.0  # the last step counts as long as the first
    whole_s = left_s
    for length_s, rate in law.phases(random_stream(0, "")):
        records += rate * min(length_s, left_s)
        peak = max(peak, rate)
        left_s -= length_s
        if left_s <= 1e-9:
            break
    assert law.mean_rate_per_s == pytest.approx(records / whole_s)
    assert law.peak_rate_per_s == pytest.approx(peak, rel=2e-3)
    assert law.scaled(0.3).mean_rate_per_s == pytest.approx(0.3 * law.mean_rate_per_s)
    assert law.scaled(0.3).peak_rate_per_s == pytest.approx(0.3 * law.peak_rate_per_s)


amounts = st.floats(min_value=0, max_value=1e4)
lengths = st.floats(min_value=0.1, max_value=50)
"""Strategy of lengths; shorter ones than the gaps between records only take long."""
states = st.lists(st.fixed_dictionaries({"rate_per_s": amounts, "mean_s": lengths}), min_size=2, max_size=4)
random_laws = st.one_of(
    st.builds(
        lambda rate, amplitude, period: {
            "law": "diurnal",
            "rate_per_s": rate,
            "amplitude": amplitude,
            "period_s": period,
        },
        st.floats(min_value=0.1, max_value=1e6),
        st.floats(min_value=0, max_value=1),
        lengths,
    ),
    states.filter(lambda each: any(state["rate_per_s"] >= MIN_RATE_PER_S for state in each)).map(
        lambda each: {"law": "bursty", "states": each}
    ),
    st.builds(
        lambda rate, factor, quiet, spike, random: {
            "law": "spikes",
            "rate_per_s": rate,
            "factor": factor,
            "every_s": quiet + spike,
            "duration_s": spike,
            "random": random,
        },
        st.floats(min_value=0.1, max_value=1e5),
        st.floats(min_value=0, max_value=100),
        lengths,
        lengths,
        st.booleans(),
    ),
)
factors = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), max_size=40)


@settings(deadline=None, max_examples=80)
@given(random_laws, st.booleans(), factors)
@example(
    data={"law": "bursty", "states": [{"rate_per_s": 1.0, "mean_s": 2.0}, {"rate_per_s": 5e-324, "mean_s": 1.0}]},
    poisson=False,
    factors=[(50, 10)],
)
def test_whatever_is_done_to_a_clock_time_goes_forward(
    data: dict[str, Any], poisson: bool, factors: list[tuple[int, int]]
) -> None:
    """Each block of a clock is behind the one before, or behind the moment within it at which the rate changed."""
    clock, now_s = clock_of(law_of(data | {"poisson": poisson})), 0.0
    for place, number in factors:
        block = clock.block()
        assert np.all(np.diff(block, prepend=now_s) >= -1e-9 * (1 + now_s))
        if math.isinf(block[0]):
            return
        now_s = float(block[-1])
        if place < len(block) - 1:
            now_s = float(block[place])
            clock.scale(number / 10, now_s, place + 1)


# specs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (DIURNAL | {"amplitude": 1.5}, ["amplitude", "1.5"]),
        (DIURNAL | {"period_s": 0}, ["period_s", "0"]),
        (STEPS | {"period_s": 5}, ["period_s = 5", "longer"]),
        ({"law": "steps", "steps": [{"at_s": 2, "rate_per_s": 1}, {"at_s": 1, "rate_per_s": 1}]}, ["steps.1", "sort"]),
        ({"law": "steps", "steps": [{"at_s": 0, "rate_per_s": 0}]}, ["0 throughout", "rate > 0"]),
        ({"law": "steps", "steps": []}, ["steps"]),
        ({"law": "bursty", "states": [{"rate_per_s": 1, "mean_s": 1}]}, ["states"]),
        ({"law": "bursty", "states": [{"rate_per_s": 1e-310, "mean_s": 1}] * 2}, ["0 throughout"]),
        ({"law": "constant", "rate_per_s": 1e-310}, ["rate_per_s", "greater"]),
        ({"law": "bursty", "states": [{"rate_per_s": 0, "mean_s": 1}] * 2}, ["0 throughout"]),
        ({"law": "bursty", "states": [{"rate_per_s": math.inf, "mean_s": 1}] * 2}, ["rate_per_s", "inf"]),
        (SPIKES | {"duration_s": 4}, ["duration_s", "every_s"]),
        ({"law": "brusty"}, ["did you mean 'bursty'?"]),
    ],
)
def test_impossible_laws_are_explained(data: dict[str, Any], expected: list[str]) -> None:
    with pytest.raises(BadInput) as error:
        law_of(data)
    assert all(part in str(error.value) for part in expected)


def test_errors_name_keys_that_are_called_like_a_law_too() -> None:
    with pytest.raises(BadInput, match=r"arrivals\.steps\.steps\.0\.at_s: .*-1"):
        parse(Workload, {"arrivals": {"steps": {"law": "steps", "steps": [{"at_s": -1, "rate_per_s": 1}]}}})


@pytest.mark.parametrize("data", [TWO_STATES, DIURNAL, STEPS, SPIKES])
def test_laws_are_written_as_they_are_read(data: dict[str, Any]) -> None:
    base = scenario_file.load("edge-filter")
    scenario = base.model_copy(update={"workload": Workload(arrivals={"sensors": law_of(data)})})
    assert scenario_file.parse_scenario(scenario_file.dump(scenario), "dumped") == scenario
