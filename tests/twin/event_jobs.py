"""Small jobs with windows over event time, and their worlds when a run has ended."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from twin import simulation
from twin.guards import conservation
from twin.job import Job
from twin.run import Run
from twin.scenario import Scenario
from twin.spec import parse
from twin.world.python_logics import timed_logic
from twin.world.world import World

HOST = {"cpu_percent": 100, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 2}
HOSTS = [*({**HOST, "name": f"h{i}"} for i in range(3)), {**HOST, "name": "ends", "cpu_percent": 1600}]
KEYED = {"keys": 12, "key_groups": 4}
WINDOWS = [{"length_s": 2}, {"length_s": 3, "every_s": 1}]


def source(name: str = "source", **more: Any) -> dict[str, Any]:
    return {"kind": "source", "name": name, "service_time_s": 1e-5} | more


def compute(name: str = "compute", **more: Any) -> dict[str, Any]:
    form = {} if "windows" in more else {"partial_s": 0.5}
    return {"kind": "compute", "name": name, "service_time_s": 1e-4, "execute_time_s": 1e-5} | KEYED | form | more


def consolidate(name: str = "merge", **more: Any) -> dict[str, Any]:
    return {"kind": "consolidate", "name": name, "service_time_s": 1e-5, "windows": WINDOWS} | KEYED | more


def sink(name: str = "sink") -> dict[str, Any]:
    return {"kind": "sink", "name": name, "service_time_s": 0}


def job(
    operators: list[dict[str, Any]] | None = None,
    streams: list[tuple[str, str]] | None = None,
    *,
    rate_per_s: float = 60.0,
    placement: dict[str, Any] | None = None,
    key_groups: dict[str, Any] | None = None,
    events: list[dict[str, Any]] | None = None,
    policy: Any = None,
    engine: Any = "storm",
    **run: Any,
) -> Scenario:
    """Job source -> compute -> merge -> sink, or other operators in a row, or with streams of their own."""
    chain = operators or [source(), compute(), consolidate(), sink()]
    names = [each["name"] for each in chain]
    parallelism = {each["name"]: ["h0", "h1", "h2"] if "key_groups" in each else "ends" for each in chain}
    sources = [each["name"] for each in chain if each["kind"] == "source"]
    document: dict[str, Any] = {
        "query": {
            "operators": chain,
            "streams": [{"producer": a, "consumer": b} for a, b in streams or pairwise(names)],
        },
        "cluster": {"hosts": HOSTS},
        "plan": {"placement": parallelism | (placement or {}), "key_groups": key_groups or {}},
        "workload": {"arrivals": {name: {"law": "poisson", "rate_per_s": rate_per_s} for name in sources}},
        "engine": engine,
        "events": events or [],
        "policy": policy,
        "run": {"horizon_s": 9.0, "seed": 1} | run,
    }
    return parse(Scenario, document)


def ended(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> tuple[Run, World]:
    """Run, checked as always, and the world that it left."""
    worlds: list[World] = []

    def check(job: Job, world: World) -> None:
        worlds.append(world)
        conservation.check(job, world)

    with monkeypatch.context() as patch:
        patch.setattr(simulation, "conservation", type("Checked", (), {"check": staticmethod(check)}))
        return simulation.simulate(scenario), worlds[0]


def logic_of(task: Any) -> Any:
    """Logic over event time of a subtask."""
    found = timed_logic(task)
    assert found is not None
    return found
