"""Tasks that share a core: the work that waits there is what one queue would hold, and lies where lines are long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from benchmarks.validity import oracles
from tests.twin.test_crowding import unequal
from twin.engine.compute.conservation import SEGMENTS, Conservation, Feeds
from twin.engine.compute.load import Load
from twin.engine.compute.waiting import tuple_wait_s, walk_wait
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


@dataclass
class Stage:
    """A task that keeps up: its load, and its line as a queue by itself at the speed that it gets while busy."""

    load: Load = field(default_factory=Load)
    service_scv: float = 1.0
    wait_s: float = 0.0
    speed: float = 1.0


def stage(per_s: float, work_each_s: float, busy: float, scv: float = 1.0, gap_scv: float = 1.0) -> Stage:
    """One that is busy for that share of the time."""
    made = Stage(service_scv=scv, speed=per_s * work_each_s / busy)
    seconds = 1000.0
    made.load.tuples, made.load.work_s = round(per_s * seconds), per_s * seconds * work_each_s
    made.load.gaps, made.load.last_s = per_s * seconds * gap_scv, seconds
    made.load.refresh()
    made.wait_s = tuple_wait_s(busy, gap_scv, scv, work_each_s / made.speed)
    return made


def row(stages: Sequence[Stage]) -> Conservation:
    """Of a core on which each passes all on to the next."""
    feeds: list[Feeds] = [[(1.0, at + 1)] for at in range(len(stages) - 1)] + [[]]
    return Conservation(1.0, stages, feeds)


@pytest.mark.parametrize("scv", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("needs", [(0.3, 0.2, 0.3), (0.1, 0.6), (0.2, 0.2, 0.2, 0.1)])
def test_unfinished_work_is_that_of_one_queue(needs: tuple[float, ...], scv: float) -> None:
    """Pollaczek and Khinchine, of all that the core does for a tuple; at 10,000 a second chance is small."""
    per_s = 10_000.0
    stages = [stage(per_s, need / per_s, min(0.95, 1.3 * need), scv) for need in needs]
    law = row(stages)
    assert law.holds(0.0)
    ahead_s = np.cumsum(needs[::-1])[::-1] / per_s
    lines = sum(per_s * law.wait_s(each) * ahead for each, ahead in zip(stages, ahead_s, strict=True))
    served = sum(
        each.load.work_per_s / each.speed * (ahead - own / 2 * (1 - scv))
        for each, ahead, own in zip(stages, ahead_s, np.array(needs) / per_s, strict=True)
    )
    square_s2 = (sum(needs) ** 2 + scv * sum(need * need for need in needs)) / per_s**2
    assert lines + served == pytest.approx(per_s * square_s2 / 2 / (1 - sum(needs)), rel=1e-3)


@pytest.mark.parametrize("needs", [(0.4, 0.4), (0.6, 0.3), (0.3, 0.6), (0.1, 0.4), (0.25, 0.25), (0.5, 0.35)])
def test_lines_are_where_a_chain_of_states_has_them(needs: tuple[float, float]) -> None:
    """Two exponential servers in a row; how long they are busy is taken from the chain, where tuples are is found."""
    per_s = 10_000.0
    rates = per_s / needs[0], per_s / needs[1]
    stages = [
        stage(per_s, need / per_s, busy)
        for need, busy in zip(needs, oracles.busy_shared_core(per_s, rates), strict=True)
    ]
    law = row(stages)
    assert law.holds(0.0)
    found = [per_s * law.wait_s(each) + each.load.work_per_s / each.speed for each in stages]
    expected = oracles.lines_shared_core(per_s, rates)
    assert sum(found) == pytest.approx(sum(expected), rel=0.035)
    longest = int(np.argmax(expected))
    assert found[longest] == pytest.approx(expected[longest], rel=0.05)


def test_what_segments_show_is_not_hidden() -> None:
    """The longer they are the less, by the walk of the work that comes while some of them pass."""
    stages = [stage(1000.0, 0.0005, 0.7), stage(1000.0, 0.00045, 0.6)]
    law = row(stages)
    assert law.holds(0.0)
    shares = [law.hidden_share(span_s) for span_s in (0.01, 0.05, 0.2, 2.0)]
    assert shares == sorted(shares) and 0.0 <= shares[0] < shares[-1] <= 1.0
    sigma_s = np.sqrt(1000.0 * (0.00095**2 + 0.0005**2 + 0.00045**2) * SEGMENTS * 0.05)
    shown_s = sigma_s * walk_wait(0.05 * SEGMENTS * 0.05 / sigma_s)
    unfinished_s = 1000.0 * (0.00095**2 + 0.0005**2 + 0.00045**2) / 2 / 0.05
    assert shares[1] == pytest.approx(1 - shown_s / unfinished_s, abs=0.05)


def test_it_says_nothing_of_streams_that_are_not_random() -> None:
    steady = [stage(1000.0, 0.0004, 0.5, gap_scv=0.2), stage(1000.0, 0.0004, 0.5, gap_scv=0.2)]
    assert not row(steady).holds(0.0)
    behind = [stage(1000.0, 0.0004, 0.5), stage(1000.0, 0.0004, 0.5)]
    behind[1].speed = 0.0
    assert not row(behind).holds(0.0)


@pytest.mark.parametrize(("first", "second"), [(0.4, 0.4), (0.3, 0.6), (0.6, 0.3)])
def test_fast_runs_take_the_time_that_tuples_need(first: float, second: float) -> None:
    """Through two operators on a core, whichever needs more of it."""
    expected_s = oracles.sojourn_shared_core(1000.0, (1000.0 / first, 1000.0 / second))
    took_s = []
    for seed in (1, 2, 3):
        settings = RunSettings(horizon_s=120, warmup_s=24, period_s=12, seed=seed, fidelity="fast")
        latency = simulate(Scenario.of(unequal({"q0": first, "q1": second}), settings)).metrics.processing_latency_s
        assert latency is not None
        took_s.append(latency.mean)
    error_s = float(np.std(took_s, ddof=1)) / 3**0.5
    assert float(np.mean(took_s)) == pytest.approx(expected_s, abs=0.07 * expected_s + 2 * error_s)
