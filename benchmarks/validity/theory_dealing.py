"""Laws of tasks whose tuples are dealt to replicas: in turn, by key, forward. No links, no windows.

The waiting, and by the utilisation law the share of time that operators are busy.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from benchmarks.validity import oracles
from benchmarks.validity.check import LARGE, RATE_PER_S, Check, mean_ms, only_busy, server, with_busy
from tests.twin.worlds import deployment, sink, source
from twin.deployment import Deployment
from twin.plan import ExecutionPlan

IN_TURN = ((2, 0.6, 1.0), (2, 0.9, 1.0), (4, 0.6, 0.25), (4, 0.9, 1.0), (16, 0.6, 1.0), (16, 0.9, 1.0))
"""Replicas, load, scv of the service time."""


def dealing_checks() -> Iterator[Check]:
    """All of them."""
    yield from _in_turn()
    yield from _by_key()
    yield from _forward()
    yield from _between_replicas()


def _in_turn() -> Iterator[Check]:
    for replicas, load, scv in IN_TURN:
        service_s = replicas * load / RATE_PER_S
        wait_s = (
            oracles.wait_erlang_m_1(replicas, load, service_s)
            if scv == 1.0
            else oracles.wait_erlang_g_1(replicas, load, service_s, scv)
        )
        yield from with_busy(
            Check(
                f"In turn to {replicas} replicas: Erlang-{replicas}/G/1",
                f"wait at load {load}, scv {scv:g}",
                "ms",
                1e3 * wait_s,
                _row([("queue", service_s, scv, replicas)]),
                mean_ms("processing", service_s),
                tuples=12_000 / (1 - load),
            ),
            queue=load,
        )


def _by_key() -> Iterator[Check]:
    for replicas, load, key_groups in ((4, 0.6, 16), (4, 0.9, None), (16, 0.6, None)):
        service_s = replicas * load / RATE_PER_S
        yield from with_busy(
            Check(
                f"By key to {replicas} replicas: M/M/1 each",
                f"wait at load {load}, {'no' if key_groups is None else key_groups} key groups",
                "ms",
                1e3 * oracles.wait_m_g_1(load, service_s, 1.0),
                _row([("queue", service_s, 1.0, replicas)], partitioning="hash", key_groups=key_groups),
                mean_ms("processing", service_s),
                tuples=12_000 / (1 - load),
            ),
            queue=load,
        )


def _forward() -> Iterator[Check]:
    for replicas, loads in ((4, (0.6, 0.6)), (4, (0.1, 0.9)), (16, (0.6, 0.3))):
        each_s = [replicas * load / RATE_PER_S for load in loads]
        stages = [(f"q{k}", service_s, 1.0, replicas) for k, service_s in enumerate(each_s)]
        yield from with_busy(
            Check(
                f"Forward, {replicas} replicas: tandems of M/M/1",
                f"sojourn at loads {loads[0]}, {loads[1]}",
                "ms",
                1e3 * sum(service_s / (1 - load) for service_s, load in zip(each_s, loads, strict=True)),
                _row(stages, sources=replicas, partitioning="forward"),
                mean_ms("processing"),
                tuples=12_000 / (1 - max(loads)),
            ),
            q0=loads[0],
            q1=loads[1],
        )


def _between_replicas() -> Iterator[Check]:
    """Several producers deal to each replica, each in turn: nearly Poisson, but no theory is exact."""
    for replicas, load in ((2, 0.6), (4, 0.6), (4, 0.85), (4, 0.9), (16, 0.6)):
        service_s = replicas * load / RATE_PER_S
        yield from only_busy(
            Check(
                f"{replicas} replicas in turn to {replicas}",
                f"sojourn of both stages at load {load}",
                "%",
                100 * load,
                _row([("q0", service_s, 1.0, replicas), ("q1", service_s, 1.0, replicas)]),
                mean_ms("processing"),
                tuples=12_000 / (1 - load),
            ),
            q0=load,
            q1=load,
        )


def _row(
    stages: list[tuple[str, float, float, int]],
    sources: int = 1,
    rate: float = RATE_PER_S,
    partitioning: str | None = None,
    key_groups: int | None = None,
) -> Deployment:
    """source -> stages of (name, service time, scv, replicas) -> one sink. partitioning: of all streams but the last.

    key_groups: of the stages.
    """
    servers = [server(name, service_s, scv, key_groups) for name, service_s, scv, _ in stages]
    names = ["source", *(name for name, *_ in stages), "sink"]
    job = deployment([source(), *servers, sink()], list(pairwise(names)), {"source": rate}, hosts=[LARGE])
    counts = {"source": sources, **{name: replicas for name, _, _, replicas in stages}, "sink": 1}
    streams = tuple(
        each if each.consumer == "sink" else each.model_copy(update={"partitioning": partitioning})
        for each in job.query.streams
    )
    query = job.query.model_copy(update={"streams": streams})
    plan = ExecutionPlan(placement={name: ("h",) * count for name, count in counts.items()})
    return Deployment(**{**dict(job), "query": query, "plan": plan})
