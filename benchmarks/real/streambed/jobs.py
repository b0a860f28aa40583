"""Runs of StreamBed as scenarios of the twin.

What was measured is the busy time of a record; so nothing of the profile's costs comes on top of it.

A thousand subtasks at millions of events a second are too many records to simulate one by one. So a record stands for
`thin` real ones: rates and keys are so many times less, costs so many times more, and buffers hold so many times fewer
bytes; where that is less than a record, there are fewer buffers. Windows, their bursts, key groups, channels and what
they hold in seconds stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scipy.optimize import brentq

from benchmarks.real.streambed.costs import Calibration
from benchmarks.real.streambed.queries import QUERIES, SINK, SOURCE, Step
from benchmarks.real.streambed.runs import Run
from twin.key_skew import default_key_groups
from twin.profiles.costs import NetworkMemory
from twin.scenario import Scenario

CORES, CARD_MBPS, LINK_MS = 16, 25_000, 0.1
"""Of a task manager: its limit of cores, and its network card; the latency between two is assumed."""
FLOATING_BUFFERS = 256
"""Of a gate, as StreamBed set them (`taskmanager.network.memory.floating-buffers-per-gate`); Flink's default is 8."""
EVENT_BYTES, ROW_BYTES = 126, 44
"""Of an event, 1 person of 200 bytes, 3 auctions of 500 and 46 bids of 100 (Nexmark's defaults), and of a row behind
it: its length, its header and four fields of 8 bytes (Flink's BinaryRowData)."""
BUFFER_BYTES = 32_768
"""Size of a network buffer, as by default in Flink."""
MEASURED_WITH_THE_RECORD = {"serialise_ns_per_byte": 0.0, "deserialise_ns_per_byte": 0.0}
"""Constants of the profile that the measured busy time of a record has in it already."""
ONE_KEY = 10.0
"""Exponent of Zipf's law by which one key group has 99.9 % of the records."""


@dataclass(frozen=True)
class Settings:
    """How long a rate is tried, in seconds of which `warmup_s` do not count, and what was assumed in choosing between
    versions on small runs. one_key: whether all results of one evaluation have one key behind it, as the SQL of q5
    says, so that one subtask at a time gets them; floating_buffers: of a gate."""

    warmup_s: float
    horizon_s: float
    one_key: bool = False
    floating_buffers: int = FLOATING_BUFFERS


PROBE = Settings(45.0, 75.0)
"""As in the search for the largest rate: 15 s to cool down, 60 s at the rate, of which the last 30 s count."""
LONG = Settings(120.0, 1800.0)
"""As of the large runs, which take half an hour and more."""
AFFORDED = (30.0, 60.0)
"""Warm-up and length of exact runs instead of longer ones: buffers still hide an overload of some per cent."""


@dataclass(frozen=True)
class Plan:
    """Where a query runs, and what was kept of it. memory_mb: of a task manager."""

    query: str
    parallelism: Mapping[str, int]
    task_managers: int
    memory_mb: int

    @classmethod
    def of(cls, run: Run) -> Plan:
        """Plan of a run."""
        return cls(run.query, run.parallelism, run.task_managers, run.memory_mb)

    @property
    def density(self) -> float:
        """Subtasks on a task manager."""
        return sum(self.parallelism.values()) / self.task_managers

    @property
    def key_groups(self) -> int:
        """Key groups of all operators, by Flink's default for the operator with most subtasks."""
        return max(default_key_groups(subtasks) for subtasks in self.parallelism.values())


def scenario(
    plan: Plan, told: Calibration, costs_us: Mapping[str, float], rate_per_s: float, thin: float, settings: Settings
) -> Scenario:
    """Scenario of a plan at a rate of events. thin: real records that each of its records stands for."""
    steps = QUERIES[plan.query]
    keyed = {"by record": True, "by window": settings.one_key, "no": False}
    service = {"service_time_s": told.source_us * 1e-6 * thin, "service_scv": 0.0, "record_bytes": EVENT_BYTES}
    operators: list[dict[str, Any]] = [{"name": SOURCE, "kind": "source", **service}]
    for step in steps:
        given = {"key_groups": plan.key_groups} if keyed[step.keyed] else {}
        operators.append(given | _operator(step, told, costs_us[step.name], rate_per_s / thin, thin))
    streams = [
        {"producer": producer, "consumer": step.name, "partitioning": "hash" if keyed[step.keyed] else "rebalance"}
        for step in steps
        for producer in step.inputs
    ]
    periods = [step.window_s[1] for step in steps if step.window_s]
    moving = {
        step.name: {"zipf": ONE_KEY, "drift_every_s": min(periods), "drift_share": 1.0}
        for step in steps
        if step.keyed == "by window" and settings.one_key
    }
    return Scenario.model_validate(
        {
            "name": f"{plan.query} on {sum(plan.parallelism.values())} subtasks",
            "query": {"operators": operators, "streams": streams},
            "cluster": {"hosts": [_host(number, plan) for number in range(plan.task_managers)]},
            "plan": {"placement": placement(plan)},
            "workload": {
                "arrivals": {SOURCE: {"law": "constant", "rate_per_s": rate_per_s / thin}},
                "keys": moving,
            },
            "engine": {
                "profile": "flink",
                **MEASURED_WITH_THE_RECORD,
                **_buffers(thin, settings.floating_buffers),
            },
            "run": {
                "warmup_s": settings.warmup_s,
                "horizon_s": settings.horizon_s,
                "period_s": min(periods, default=5.0),
            },
        }
    )


def placement(plan: Plan) -> dict[str, dict[str, int]]:
    """Subtasks by operator and task manager, dealt in turn, so that all have as many (within one)."""
    found: dict[str, dict[str, int]] = {}
    at = 0
    for name, subtasks in plan.parallelism.items():
        found[name] = {}
        for number in range(at, at + subtasks):
            host = _name(number % plan.task_managers)
            found[name][host] = found[name].get(host, 0) + 1
        at += subtasks
    return found


def keys_per_record(distinct_share: float) -> float:
    """Keys for each record of a window, if so many of its records are the only, or first, of their key.

    Of w records of K keys, alike, K (1 - exp(-w / K)) keys come.
    """
    share = min(max(distinct_share, 1e-6), 1.0 - 1e-6)
    records = brentq(lambda x: -math.expm1(-x) / x - share, 1e-9, 2.0 / share)
    return float(1.0 / records)


def _operator(step: Step, told: Calibration, cost_us: float, rate_per_s: float, thin: float) -> dict[str, Any]:
    given: dict[str, Any] = {"name": step.name, "service_time_s": cost_us * 1e-6 * thin, "record_bytes": ROW_BYTES}
    came, left = told.in_share[step.name], told.out_share[step.name]
    if step.name == SINK:
        return {**given, "kind": "sink"}
    if step.window_s is not None:
        size_s, slide_s = step.window_s
        records = came * rate_per_s * size_s
        keys = records * keys_per_record(left * slide_s / (came * size_s))
        window = {"policy": "time", "size_s": size_s, "slide_s": slide_s}
        grouped = {"function": "count", "group_by": "int", "groups": max(1, round(keys)), "window": window}
        return {**given, "kind": "aggregate", **grouped}
    if step.gap_s is not None:  # of a key with l records a second, a share exp(-l gap) end a session
        keys = came * rate_per_s * step.gap_s / -math.log(left / came)
        return {**given, "kind": "session", "gap_s": step.gap_s, "keys": max(1, round(keys))}
    return {**given, "kind": "map", "selectivity": max(left / came, 1e-6) if came else 1.0}


def _buffers(thin: float, floating: int) -> dict[str, Any]:
    """Size and number of buffers that hold so many times fewer records."""
    size = max(BUFFER_BYTES / thin, float(EVENT_BYTES))
    real = NetworkMemory(floating_buffers_per_gate=floating)
    return {"buffer_bytes": round(size), "network_memory": real.times(BUFFER_BYTES / thin / size)}


def _host(number: int, plan: Plan) -> dict[str, Any]:
    return {
        "name": _name(number),
        "cpu_percent": 100 * CORES,
        "ram_mb": plan.memory_mb,
        "bandwidth_mbps": CARD_MBPS,
        "latency_ms": LINK_MS,
    }


def _name(number: int) -> str:
    return f"tm-{number + 1}"
