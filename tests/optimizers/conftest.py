"""Small problems, and a cost model that is a table: any plan has a known, arbitrary cost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from twin.cluster import Cluster, Host
from twin.metrics import FURTHER, METRICS, Estimates
from twin.plan import ExecutionPlan
from twin.query import Filter, Join, Query, Sink, Source, Stream, TimeWindow
from twin.randomness import random_stream
from twin.scenario import Scenario
from twin.workload import Poisson, Workload

MACHINES = ((50, 1000), (100, 8000), (300, 4000), (400, 16000), (800, 32000), (500, 8000))
"""CPU in percent and RAM in MB of hosts: of every bin and overlap."""


@dataclass(frozen=True)
class TableModel:
    """Cost model that draws costs by the text of the plan: reproducible, without structure that optimizers could use.

    broken: share of the plans predicted to be backpressured; another such share fails.
    """

    broken: float = 0.2
    name: str = "table"
    further: tuple[str, ...] = FURTHER

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        rows = np.array([self._row(plan) for plan in plans]).reshape(len(plans), 5 + len(FURTHER))
        throughput, processing_s, e2e_s, a, b, *more = rows.T
        backpressured = np.where(a < self.broken, 0.5 + a, 0.5 * a)
        success = np.where(b < self.broken, 0.5 * b, 0.5 + 0.5 * b)
        columns = (throughput, processing_s, e2e_s, backpressured, success)
        return Estimates(dict(zip((*METRICS, *FURTHER), (*columns, *more), strict=True)), np.zeros(len(plans)))

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        return ()

    def _row(self, plan: ExecutionPlan) -> np.ndarray:
        text = str(sorted(plan.placement.items())).encode()
        return random_stream(int.from_bytes(hashlib.sha256(text).digest()[:6], "big"), "table").random(5 + len(FURTHER))


def tree() -> Query:
    """Query of two sources, one filtered, joined and filtered."""
    operators = (
        Source(name="a"),
        Source(name="b"),
        Filter(name="f", selectivity=0.5),
        Join(name="j", window=TimeWindow(size_s=2), selectivity=0.01),
        Sink(name="s"),
    )
    pairs = (("a", "f"), ("f", "j"), ("b", "j"), ("j", "s"))
    return Query(operators=operators, streams=tuple(Stream(producer=p, consumer=c) for p, c in pairs))


def diamond() -> Query:
    """Query of one source read twice, joined with itself, and two sinks: no tree."""
    operators = (
        Source(name="a"),
        Filter(name="f", selectivity=0.5),
        Filter(name="g", selectivity=0.5),
        Join(name="j", window=TimeWindow(size_s=2), selectivity=0.01),
        Sink(name="s"),
        Sink(name="t"),
    )
    pairs = (("a", "f"), ("a", "g"), ("f", "j"), ("g", "j"), ("j", "s"), ("j", "t"))
    return Query(operators=operators, streams=tuple(Stream(producer=p, consumer=c) for p, c in pairs))


def cluster(hosts: int) -> Cluster:
    machines = [MACHINES[index % len(MACHINES)] for index in range(hosts)]
    return Cluster(
        hosts=tuple(
            Host(name=f"h{index}", cpu_percent=cpu, ram_mb=ram, bandwidth_mbps=100, latency_ms=5)
            for index, (cpu, ram) in enumerate(machines)
        )
    )


@pytest.fixture(params=["tree", "diamond"])
def query(request: pytest.FixtureRequest) -> Query:
    return tree() if request.param == "tree" else diamond()


def on_first_host(query: Query | None = None, hosts: int = 4) -> Scenario:
    """Scenario with everything on the first host; without a query, the tree."""
    query = query or tree()
    return Scenario(
        query=query,
        cluster=cluster(hosts),
        plan=ExecutionPlan(placement={operator.name: "h0" for operator in query.operators}),
        workload=Workload(arrivals={source.name: Poisson(rate_per_s=100) for source in query.sources}),
    )


@pytest.fixture
def make_deployment() -> Callable[..., Scenario]:
    return on_first_host


@pytest.fixture
def make_cluster() -> Callable[[int], Cluster]:
    return cluster


@pytest.fixture
def table_model() -> type[TableModel]:
    return TableModel
