"""The broker: backlogs in few objects, rate changes at once, the same arrivals in both fidelities and over replicas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.twin.arrivals import DIURNAL, LAWS, SPIKES, STEPS, TWO_STATES, arrived, broker_of, law_of
from tests.twin.worlds import chain
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


@pytest.mark.parametrize("size", [1, 10])
@pytest.mark.parametrize("law", ["poisson", "constant"])
def test_a_backlog_of_many_is_few_objects_and_loses_no_time(law: str, size: int) -> None:
    env, source, broker = broker_of({"law": law, "rate_per_s": 2e4}, size)
    env.run(until=10.0)
    assert len(source.queue) + len(broker._pieces) < 200
    assert broker.arrived == broker.backlog == pytest.approx(2e5, abs=2e3)
    before = broker.arrived
    first = source.take_all()
    assert sum(segment.n for segment in first) == broker.arrived == pytest.approx(before, abs=2e3)
    assert broker.arrived >= before and broker.backlog == 0
    ends = np.array([segment.b_s for segment in first])
    assert (np.diff(ends) >= 0).all() and ends[-1] <= 10.0
    gaps = np.diff(ends) * 2e4 / size  # Gamma of that many tuples, of mean 1
    whole = np.array([segment.n == size for segment in first])[1:]
    assert gaps[whole].mean() == pytest.approx(1, abs=0.01)
    assert gaps[whole].var() == pytest.approx(broker.gap_scv / size, rel=0.05, abs=1e-9)
    counts = np.histogram(ends, bins=500, range=(0, 10))[0] * size
    if law == "poisson":
        assert counts.var() / counts.mean() == pytest.approx(1, abs=4 * math.sqrt(2 / 500))


def test_a_rate_change_takes_effect_at_once() -> None:
    """10 tuples a second; at 10.05 s half a gap is over, the rest and all that follow are three times as short."""
    env, source, broker = broker_of({"law": "constant", "rate_per_s": 10}, 64)
    env.run(until=10.05)
    broker.scale(3.0)
    assert broker.arrived == source.queued == 100
    env.run(until=20.0)
    broker.scale(1.0)
    assert broker.arrived == 100 + math.floor(0.5 + 30 * 9.95)
    ends = [segment.b_s for segment in source.take_all()]
    assert ends == sorted(ends)
    with pytest.raises(ValueError, match="factor"):
        broker.scale(0.0)


@pytest.mark.parametrize("data", [LAWS["poisson"], DIURNAL, TWO_STATES])
@pytest.mark.parametrize("size", [1, 30])
def test_rate_changes_scale_the_expected_counts(data: dict[str, Any], size: int) -> None:
    before, after = [], []
    for seed in range(60):
        env, _, broker = broker_of(data, size, seed)
        env.run(until=8.0)
        broker.scale(4.0)
        before.append(broker.arrived)
        env.run(until=16.0)
        broker.scale(1.0)
        after.append(broker.arrived - before[-1])
    mean = law_of(data).mean_rate_per_s * 8
    for found, want in ((before, mean), (after, 4 * mean)):
        assert abs(np.mean(found) - want) < 4 * np.std(found, ddof=1) / math.sqrt(60)


# in a simulation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [DIURNAL, STEPS, SPIKES, TWO_STATES])
@pytest.mark.parametrize("service_s", [1e-4, 5e-3])
def test_exact_and_fast_agree_on_arrivals(data: dict[str, Any], service_s: float) -> None:
    """Keeping up, and far behind (so that tuples are gathered)."""
    middle = [{"kind": "filter", "name": "f", "selectivity": 1, "service_time_s": service_s, "service_scv": 0}]
    runs = [
        simulate(
            Scenario.of(
                chain(middle, data), RunSettings(horizon_s=24, period_s=1, fidelity=fidelity, seed=4, segments=400)
            )
        )
        for fidelity in ("exact", "fast")
    ]
    exact, fast = map(arrived, runs)
    n = 20  # a segment may hold that many tuples of the period before
    assert (np.abs(exact - fast) < 4.5 * np.sqrt(exact + fast + 1) + n).all()
    assert exact.sum() > 1000
    throughput = [run.metrics.throughput_per_s for run in runs]
    assert throughput[0] == pytest.approx(throughput[1], rel=0.12)


@pytest.mark.parametrize("data", [TWO_STATES, DIURNAL, SPIKES | {"random": True}])
def test_same_seed_same_run(data: dict[str, Any]) -> None:
    first, again, other = (
        simulate(Scenario.of(chain([], data), RunSettings(horizon_s=10, period_s=1, seed=seed))).operator_rows
        for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("data", [DIURNAL, STEPS, SPIKES, TWO_STATES, LAWS["constant"]])
@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_replicas_share_the_rate(data: dict[str, Any], fidelity: str) -> None:
    one, many = (
        simulate(
            Scenario.of(
                chain([], data, placement={"source": ["h"] * replicas}),
                RunSettings(horizon_s=16, period_s=0.5, fidelity=fidelity, seed=2, segments=1000),
            )
        )
        for replicas in (1, 4)
    )
    a, b = arrived(one), arrived(many)
    assert abs(int(a.sum()) - int(b.sum())) < 4 * math.sqrt(a.sum() + b.sum()) + 16
    if data is TWO_STATES:  # the same bursts come to all at the same time, so the total is as bursty as one source's
        assert np.corrcoef(a, b)[0, 1] > 0.9


@pytest.mark.parametrize(
    "data",
    [
        {
            "law": "steps",
            "steps": [
                {"at_s": 1, "rate_per_s": 0},
                {"at_s": 2, "rate_per_s": 1e9},
                {"at_s": 2.001, "rate_per_s": 1e-9},
                {"at_s": 3, "rate_per_s": 0},
            ],
        },
        {"law": "bursty", "states": [{"rate_per_s": 1e9, "mean_s": 0.01}, {"rate_per_s": 0, "mean_s": 9}]},
        {"law": "diurnal", "rate_per_s": 1e8, "amplitude": 1, "period_s": 1},
        {"law": "spikes", "rate_per_s": 1e-3, "factor": 1e6, "every_s": 2, "duration_s": 1},
        {"law": "constant", "rate_per_s": 1e9},
        {"law": "steps", "steps": [{"at_s": 1e6, "rate_per_s": 1}]},
    ],
)
@pytest.mark.parametrize("fidelity", ["exact", "fast"])
def test_extreme_rates_neither_hang_nor_lose_tuples(data: dict[str, Any], fidelity: str) -> None:
    middle = [{"kind": "filter", "name": "f", "selectivity": 1, "service_time_s": 1e-3}]
    run = simulate(Scenario.of(chain(middle, data), RunSettings(horizon_s=5, period_s=1, fidelity=fidelity)))
    assert (arrived(run) >= 0).all()
    assert run.cpu_s < 3
