"""Throughput by relative location: closed forms, and the simulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.optimizers.numa_jobs import deployment, small_jobs
from tests.twin.worlds import simulated
from twin.cluster import Cluster, server_b
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.profiles import BRISK
from twin.rates.numa_rates import NumaJob, binding, free_running, sustained, times
from twin.spec import parse

Job = tuple[Deployment, np.ndarray]
CHAIN = [(0, 1), (1, 2)]


def test_the_distances_and_those_that_the_two_fixed_variants_believe() -> None:
    """RLAS_fix(U) assumes no fetch times, RLAS_fix(L) the longest ones, even at home."""
    job = deployment([1, 1, 1], CHAIN, [2, 2, 2], [[0, 100, 300], [100, 0, 300], [300, 300, 0]])
    lines = job.engine.lines_of(64.0)
    ways_ns = {"relative": (0.0, 100.0, 300.0), "never": (0.0,) * 3, "always": (300.0,) * 3}
    for fetch, way_ns in ways_ns.items():
        for socket in range(3):
            share_ol = np.zeros((3, 3))
            share_ol[0, 0] = share_ol[1, socket] = share_ol[2, socket] = 1.0
            found = times(NumaJob(job, fetch), share_ol[None])[0, 1, socket]  # type: ignore[arg-type]
            assert found * 1e9 == pytest.approx(1000 + way_ns[socket] * lines)


@settings(max_examples=40, deadline=None)
@given(small=small_jobs(), factor=st.floats(0.1, 10.0))
def test_the_sustained_load_is_a_share_of_what_is_offered(small: Job, factor: float) -> None:
    """The sustained load is a share of the offer: at ten times the rate, a tenth of it."""
    job, subtasks_o = NumaJob(small[0]), small[1]
    document = small[0].model_dump(mode="json")
    document["workload"]["arrivals"]["op0"]["rate_per_s"] *= factor
    other = NumaJob(parse(Deployment, document))
    counts_ol = np.zeros((len(subtasks_o), len(job.locations)))
    counts_ol[:, 0] = subtasks_o
    one, two = (float(sustained(each, counts_ol[None]).load_n[0]) for each in (job, other))
    assert one == pytest.approx(two * factor)


@settings(max_examples=40, deadline=None)
@given(small=small_jobs())
def test_what_is_estimated_together_makes_no_difference(small: Job) -> None:
    job, subtasks_o = NumaJob(small[0]), small[1]
    plans = np.zeros((len(job.locations), len(subtasks_o), len(job.locations)))
    for socket in range(len(job.locations)):
        plans[socket, :, socket] = subtasks_o
    together = sustained(job, plans).load_n
    assert together.tolist() == [float(sustained(job, plan[None]).load_n[0]) for plan in plans]


@settings(max_examples=60, deadline=None)
@given(small=small_jobs())
def test_running_free_takes_at_least_what_is_sustained(small: Job) -> None:
    """Free-running producers send at least as much as waiting ones, and the same where nothing is over-supplied."""
    job, subtasks_o = NumaJob(small[0]), small[1]
    counts_ol = np.zeros((len(subtasks_o), len(job.locations)))
    for o, count in enumerate(subtasks_o):
        counts_ol[o, o % len(job.locations)] = count
    free = free_running(job, counts_ol[None])
    parallelism = float(sustained(job, counts_ol[None]).subtask_no[0].min())
    assert free.throughput_n[0] >= min(1.0, parallelism) * job.results_per_s * (1 - 1e-9)
    if parallelism >= 1.0:
        assert free.throughput_n[0] == pytest.approx(job.results_per_s)
        assert (free.supplied_no <= free.taken_no * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, "a subtask of op1"),
        ({"socket": {"bandwidth_gbps": 0.0032}}, "the memory bandwidth of h/1"),
        ({"numa": {"bandwidth_gbps": [[0, 0.0032], [0.0032, 0]]}}, "the channel h -> h/1"),
    ],
)
def test_what_binds_is_named_and_stops_the_simulator_there(limits: dict[str, Any], words: str) -> None:
    """The binding limit is named and holds in runs: 100,000 records a second by a subtask, 50,000 by memory."""
    job = deployment([1, 10, 1], CHAIN, [2, 4], [[0, 20], [20, 0]], rate_per_s=150_000, limits=limits)
    document = job.model_dump(mode="json")
    document["plan"]["placement"] = {"op0": "h", "op1": "h/1", "op2": "h/1"}
    if "socket" in limits:
        document["query"]["operators"][0]["memory_bytes"] = document["query"]["operators"][2]["memory_bytes"] = 0
    placed = parse(Deployment, document)
    model = NumaJob(placed)
    counts_ol = model.counts_of(placed.plan)
    assert model.plan_of(counts_ol).model_dump() == placed.plan.model_dump()
    assert binding(model, counts_ol) == words
    expected = float(sustained(model, counts_ol[None]).load_n[0]) * model.results_per_s
    run = simulated(placed, horizon_s=4, period_s=1, warmup_s=2)
    assert run.metrics.throughput_per_s == pytest.approx(expected, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("cores", "exact"), [(11, True), (8, False)])
def test_a_plan_that_just_fulfils_every_operator_bears_what_is_estimated_where_each_subtask_has_a_core(
    cores: int, exact: bool
) -> None:
    """Word count on eight sockets, bound by two splitters far from their producer, bears the estimate.

    They serve S lines meanwhile, with a squared coefficient of variation of 0.1: a standard error of sqrt(0.1 / S).
    With eight cores a socket for up to eleven subtasks each socket has cores enough for its work, but its subtasks
    share them at times, and full buffers come to many of them together: then the estimate is a bound from above.
    """
    document = deployment(
        [0.45, 0.4, 1.6128, 0.6123, 0.2],
        [(0, 1), (1, 2), (2, 3), (3, 4)],
        [1],
        [[0]],
        rate_per_s=2e7,
        gains=[1, 1, 10, 1, 1],
    ).model_dump(mode="json")
    for operator, size in zip(document["query"]["operators"], (205, 205, 32, 32, 32), strict=True):
        operator["record_bytes"] = size
    document["engine"] = BRISK.model_dump(mode="json") | {"name": "deep", "channel_records": 4096}
    document["cluster"] = with_cores(server_b(), cores).model_dump(mode="json")
    document["plan"] = {"placement": dict.fromkeys((f"op{number}" for number in range(5)), "server")}
    placed = parse(Deployment, document)
    job = NumaJob(placed)
    counts_ol = np.zeros((5, 8), int)
    counts_ol[0, 0], counts_ol[1, 0], counts_ol[2, :4] = 2, 2, (7, 1, 1, 1)
    counts_ol[3], counts_ol[4] = (0, 7, 7, 7, 5, 5, 5, 3), (0, 1, 2, 1, 4, 4, 4, 0)
    assert counts_ol.sum(axis=0).max() == 11
    assert binding(job, counts_ol) == "a subtask of op2"
    load = float(sustained(job, counts_ol[None]).load_n[0])
    warmup_s, measured_s = 0.05, 0.05  # the channels of the slow splitters are full after 0.04 s
    ran = simulated(
        placed.with_plan(job.plan_of(counts_ol)), horizon_s=warmup_s + measured_s, period_s=0.05, warmup_s=warmup_s
    ).metrics.throughput_per_s
    services = 2 * measured_s * load * 2e7 / counts_ol[2].sum()
    error_per_s = load * job.results_per_s * np.sqrt(BRISK.service_scv / services)
    assert ran < load * job.results_per_s + 4 * error_per_s
    if exact:
        assert ran > load * job.results_per_s - 4 * error_per_s


def with_cores(cluster: Cluster, cores: int) -> Cluster:
    """Cluster with the same clock and memory, and so many cores a socket."""
    host = cluster.hosts[0]
    sockets = tuple(each.model_copy(update={"cores": cores}) for each in host.sockets)
    percent = host.cpu_percent * cores / host.sockets[0].cores
    return cluster.model_copy(update={"hosts": (host.model_copy(update={"sockets": sockets, "cpu_percent": percent}),)})


def test_two_hosts_cost_serialisation_and_share_a_card() -> None:
    """Two hosts cost serialisation, 1.256 us a record of 1 us and 64 bytes, and share a card of 8 Mbit/s."""
    document = deployment([1, 1, 1], CHAIN, [4], [[0]], rate_per_s=1e6).model_dump(mode="json")
    host = document["cluster"]["hosts"][0] | {"bandwidth_mbps": 8.0}
    document["cluster"]["hosts"] = [host, host | {"name": "g", "bandwidth_mbps": 8000.0}]
    document["plan"]["placement"] = {"op0": "h", "op1": "g", "op2": "g"}
    placed = parse(Deployment, document)
    job = NumaJob(placed)
    found = sustained(job, job.counts_of(placed.plan)[None])
    assert found.time_nol[0, 0, 0] == pytest.approx(1.256e-6) and found.time_nol[0, 1, 1] == pytest.approx(1.256e-6)
    assert binding(job, job.counts_of(placed.plan)) == "the network card of h"
    assert found.load_n[0] * job.results_per_s == pytest.approx(1e6 / 64)


def test_streams_that_are_not_dealt_evenly_and_free_operators_are_refused() -> None:
    document = deployment([1, 1, 1], CHAIN, [2], [[0]]).model_dump(mode="json")
    document["query"]["streams"][0]["partitioning"] = "broadcast"
    with pytest.raises(BadInput, match=r"op0 -> op1 \(broadcast\) is not; use rebalance"):
        NumaJob(parse(Deployment, document))
    with pytest.raises(BadInput, match="operator 'op1' costs nothing"):
        NumaJob(deployment([1, 0, 1], CHAIN, [2], [[0]]))
