"""`local` streams, as Storm's local-or-shuffle grouping deals: who gets what, and what crosses the network."""

from __future__ import annotations

import numpy as np
import pytest

from tests.twin.kernel.both import same_in_both
from tests.twin.worlds import HOST, chain
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Migration, Scale
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.wiring.build import build
from twin.wiring.wiring import Wiring

RATE_PER_S, LATENCY_S, SERVICE_S = 600.0, 10e-3, 1e-3
RUN = RunSettings(horizon_s=20.0, warmup_s=2.0, period_s=2.0)
JOBS = {
    "on every host": ({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}),
    "several each": ({"a": 2, "b": 2}, {"a": 2, "b": 2}),
    "crowded on one": ({"a": 3, "b": 1}, {"a": 1, "b": 3}),
    "some have none": ({"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 1}),
    "nobody near": ({"a": 2}, {"b": 1, "c": 1}),
}


def job(sends: dict[str, int], takes: dict[str, int]) -> Deployment:
    """source -> send (spread evenly) -> take, by local -> sink."""
    work = [{"kind": "map", "name": n, "service_time_s": SERVICE_S, "service_scv": 1} for n in ("send", "take")]
    hosts = [{**HOST, "name": name, "latency_ms": 1e3 * LATENCY_S} for name in "abc"]
    places = {"source": "a", "send": sends, "take": takes, "sink": "a"}
    how = {"take": "local"}
    return chain(work, RATE_PER_S, hosts=hosts, placement=places, partitioning=how)


def by_hand(sends: dict[str, int], takes: dict[str, int]) -> tuple[np.ndarray, float]:
    """Share of the stream by consumer subtask, and of what crosses the network."""
    froms = [host for host, count in sends.items() for _ in range(count)]
    tos = [host for host, count in takes.items() for _ in range(count)]
    shares, crossing = np.zeros(len(tos)), 0.0
    for start in froms:
        near = [k for k, host in enumerate(tos) if host == start]
        for k in near or range(len(tos)):
            shares[k] += 1.0 / len(froms) / len(near or tos)
        crossing += 0.0 if near else 1.0 / len(froms)
    return shares, crossing


@pytest.mark.parametrize("name", JOBS)
def test_records_stay_on_their_host_where_they_can(name: str) -> None:
    """As counted by hand: what each subtask takes, and the mean latency, which is that of the records that cross."""
    sends, takes = JOBS[name]
    made, (shares, crossing) = job(sends, takes), by_hand(sends, takes)
    world = build(Wiring(made, RUN))
    world.env.run(until=RUN.horizon_s)
    taken = np.array([task.tuples_in for task in world.tasks["take"]])
    assert taken / taken.sum() == pytest.approx(shares, abs=0.02)
    scenario = Scenario.of(made, RUN)
    away = [1.0 - sends.get("a", 0) / sum(sends.values()), crossing, 1.0 - shares[: takes.get("a", 0)].sum()]
    way_s = LATENCY_S * sum(away)
    service_s = SERVICE_S * sum(
        sum(part / (1.0 - RATE_PER_S * part * SERVICE_S) for part in parts)
        for parts in (shares, [1.0 / sum(sends.values())] * sum(sends.values()))
    )
    answer = RateModel().answer(scenario, [made.plan])
    said = answer.costs["processing_latency_s"][0]
    runs = [simulate(scenario.with_run(seed=seed)).metrics.value("processing_latency_s") for seed in range(3)]
    assert np.mean(runs) == pytest.approx(way_s + service_s, rel=0.05)
    assert said == pytest.approx(np.mean(runs), rel=0.08)
    busiest = RATE_PER_S * SERVICE_S * max(*shares, 1.0 / sum(sends.values()))
    assert answer.offered_pressure.max() == pytest.approx(busiest, rel=0.01)


def test_the_kernel_deals_alike() -> None:
    same_in_both(Scenario.of(job(*JOBS["some have none"]), RunSettings(horizon_s=5.0, warmup_s=1.0, period_s=1.0)), 0)


def test_who_is_near_does_not_change_while_the_job_runs() -> None:
    made = job(*JOBS["several each"])
    for operator, remedy in (("take", "which is wired for the hosts"), ("send", "cannot move; use rebalance")):
        move = Migration(kind="migration", at_s=1, operator=operator, replica=0, to="c")
        with pytest.raises(BadInput, match=remedy):
            Scenario.of(made, RUN, events=[move])
    for operator, remedy in (("take", "fixes its replicas"), ("send", "feeds a local stream")):
        scale = Scale(kind="scale", at_s=1, operator=operator, placement=("a", "b", "c"))
        with pytest.raises(BadInput, match=remedy):
            Scenario.of(made, RUN, events=[scale])
