"""Broker: backlogs in order, rate changes at once, the same arrivals over subtasks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.twin.arrivals import DIURNAL, LAWS, SPIKES, STEPS, TWO_STATES, arrived, broker_of, law_of
from tests.twin.worlds import chain, simulated


@pytest.mark.parametrize("law", ["poisson", "constant"])
def test_a_backlog_waits_in_order(law: str) -> None:
    world, broker = broker_of({"law": law, "rate_per_s": 5e3})
    world.advance(10.0)
    assert broker.arrived == broker.backlog == pytest.approx(5e4, abs=1e3)
    born = np.array(broker.hand_over())
    assert broker.arrived == len(born) and broker.backlog == 0
    gaps = np.diff(born) * 5e3
    assert (gaps >= 0).all() and born[-1] <= 10.0
    assert gaps.mean() == pytest.approx(1, abs=0.02)
    assert gaps.var() == pytest.approx(1.0 if law == "poisson" else 0.0, rel=0.05, abs=1e-9)


def test_a_rate_change_takes_effect_at_once() -> None:
    """A rate change takes effect at once: the second half of a gap and all that follow are three times as short."""
    world, broker = broker_of({"law": "constant", "rate_per_s": 10})
    world.advance(10.05)
    broker.scale(3.0)
    assert broker.arrived == broker.backlog == 100
    world.advance(20.0)
    broker.scale(1.0)
    assert broker.arrived == 100 + math.floor(0.5 + 30 * 9.95)
    waiting = broker.backlog
    born = broker.hand_over()
    assert born == sorted(born) and born[-1] <= 20.0 and len(born) == waiting
    with pytest.raises(ValueError, match="factor"):
        broker.scale(0.0)


@pytest.mark.parametrize("data", [LAWS["poisson"], DIURNAL, TWO_STATES])
def test_rate_changes_scale_the_expected_counts(data: dict[str, Any]) -> None:
    before, after = [], []
    for seed in range(60):
        world, broker = broker_of(data, seed)
        world.advance(8.0)
        broker.scale(4.0)
        before.append(broker.arrived)
        world.advance(16.0)
        broker.scale(1.0)
        after.append(broker.arrived - before[-1])
    mean = law_of(data).mean_rate_per_s * 8
    for found, want in ((before, mean), (after, 4 * mean)):
        assert abs(np.mean(found) - want) < 4 * np.std(found, ddof=1) / math.sqrt(60)


# in a simulation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [DIURNAL, STEPS, SPIKES, TWO_STATES, LAWS["constant"]])
def test_subtasks_share_the_rate(data: dict[str, Any]) -> None:
    one, many = (
        simulated(chain([], data, placement={"source": ["h"] * parallelism}), horizon_s=16, period_s=0.5, seed=2)
        for parallelism in (1, 4)
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
                {"at_s": 2, "rate_per_s": 1e5},
                {"at_s": 2.001, "rate_per_s": 1e-9},
                {"at_s": 3, "rate_per_s": 0},
            ],
        },
        {"law": "bursty", "states": [{"rate_per_s": 1e5, "mean_s": 0.01}, {"rate_per_s": 0, "mean_s": 9}]},
        {"law": "diurnal", "rate_per_s": 3e4, "amplitude": 1, "period_s": 1},
        {"law": "spikes", "rate_per_s": 1e-3, "factor": 1e6, "every_s": 2, "duration_s": 1},
        {"law": "constant", "rate_per_s": 1e5},
        {"law": "steps", "steps": [{"at_s": 1e6, "rate_per_s": 1}]},
    ],
)
def test_extreme_rates_neither_hang_nor_lose_records(data: dict[str, Any]) -> None:
    middle = [{"kind": "filter", "name": "f", "selectivity": 1, "service_time_s": 1e-3}]
    run = simulated(chain(middle, data), horizon_s=5, period_s=1)
    assert (arrived(run) >= 0).all()
    assert run.cpu_s < 30
