"""Lines that are fed by a task of their own processor which is always busy."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pytest

from tests.twin.worlds import HOST, deployment, sink, source
from twin.deployment import Deployment
from twin.engine.compute.company import Tally
from twin.engine.compute.pace import Pace
from twin.engine.compute.share import Share
from twin.profiles import STORM
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

EACH_S = 0.001
"""What a tuple takes at the source, which gets more of them than it can take."""


def theory_s(loads: tuple[float, ...], cores: float) -> float:
    """Mean age at the sink of what an always busy source made on the same host. loads: of the others, over its own.

    As all that are busy work at one level, the tasks are a tandem of M/M/1 on the clock that runs at that level, with
    numbers n of tuples; to a time in which i is busy belongs one of cores^-1 * (1 + busy tasks).
    """
    wait_s = EACH_S * (1.0 + sum(loads)) / cores
    for load in loads:
        wait_s += EACH_S * load / (1.0 - load) * (2.0 + sum(loads) - load) / cores
    return wait_s


def overloaded(loads: tuple[float, ...], cores: float) -> Deployment:
    """A chain of operators with exponential services on one host; the sink costs nothing, on another."""
    middle = [
        {"kind": "map", "name": f"q{k}", "service_time_s": EACH_S * load, "service_scv": 1}
        for k, load in enumerate(loads)
    ]
    operators = [source(service_time_s=EACH_S, service_scv=1), *middle, sink()]
    names = [each["name"] for each in operators]
    hosts = [
        {**HOST, "cpu_percent": 6400, "latency_ms": 0, "bandwidth_mbps": 1e9},
        {**HOST, "name": "small", "cpu_percent": 100 * cores, "latency_ms": 0, "bandwidth_mbps": 1e9},
    ]
    engine = STORM.model_copy(update={"serialise_ns_per_byte": 0, "deserialise_ns_per_byte": 0})
    placement = dict.fromkeys(names[:-1], "small")
    rate = 1.5 * cores / EACH_S
    return deployment(
        operators, list(pairwise(names)), {"source": rate}, hosts, placement, engine.model_dump(mode="json")
    )


@pytest.mark.parametrize(("loads", "cores"), [((0.5,), 1.0), ((0.8, 0.4), 1.0), ((0.3, 0.6, 0.3), 0.5)])
def test_behind_an_always_busy_source_lines_are_as_on_cores_of_their_own(
    loads: tuple[float, ...], cores: float
) -> None:
    """Within 10 %; by the share of the time that tasks are busy they were 1.3 to 1.6 times as long."""
    settings = [RunSettings(horizon_s=120, warmup_s=24, period_s=12, fidelity="fast", seed=k) for k in range(1, 5)]
    found = [simulate(Scenario.of(overloaded(loads, cores), each)).metrics.processing_latency_s for each in settings]
    assert np.mean([each.mean for each in found if each]) == pytest.approx(theory_s(loads, cores), rel=0.1)


@dataclass
class World:
    """A processor on which one task has a job until a time, and what another sees of it."""

    tally: Tally = field(default_factory=Tally)
    share: Share = field(default_factory=Share)

    def pace(self, part: float) -> Pace:
        pace = Pace(self.tally, [Share()], 0.0)
        pace.feeds = [(part, Pace(self.tally, [self.share], 0.0))]
        return pace

    def run(self, job_s: float, until_s: float) -> None:
        self.share.begin(0.0)
        self.tally.spend(job_s, 1, 1.0, 0.5)
        self.share.end(job_s)
        self.tally.spend(until_s - job_s, 0, 1.0, 0.5)


@pytest.mark.parametrize("part", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("job_s", [1.5, 2.0])
def test_a_line_is_led_as_far_as_its_feed_is_there_and_always_busy(part: float, job_s: float) -> None:
    world = World()
    pace = world.pace(part)
    world.run(job_s, 2.0)
    pace.renew(2.0)
    assert pace.led == (part if job_s == 2.0 else 0.0)
    assert pace.level == pytest.approx(0.5)
    assert pace.faster(0.4) == pytest.approx(1.0 + pace.led * 0.25)
    assert pace.faster(0.6) == 1.0


def test_whom_an_always_busy_task_feeds_feeds_at_its_pace() -> None:
    world = World()
    first = world.pace(1.0)
    second = Pace(world.tally, [Share()], 0.0)
    second.feeds = [(1.0, first)]
    world.run(3.0, 3.0)
    second.renew(3.0)
    assert second.engaged == 0.0
    assert second.led == pytest.approx(1.0)
    assert np.isclose(first.led, 1.0)
