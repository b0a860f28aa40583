"""Simple job of Enorm's Section 7 in the simulator: partial results of a minute, merged into longer windows.

Six workers of one core take 40,000 records a second, as in Section 7.1. The costs of a record and a key are fitted to
the one pair of numbers that the paper has, 456 s against 512 s (Section 7.7); all else follows from it.

Each simulated record stands for many of the job's, and each key for as many keys: it has their bytes, their state and
their work. So work, bytes and state a second are the job's, and so are throughputs and pauses, in seconds. The times to
serve a single record, and to wait for a few of them, are as many times as long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from papers.sizes import PAPER
from papers.workspace import Workspace
from twin.run import Run
from twin.scenario import Scenario
from twin.spec import parse

COMPUTE = "compute"
"""Name of the operator that makes partial results."""
WORKERS, GROUPS = 6, 60
PANE_S = 60.0
RECEIVE_S, EXECUTE_S = 129e-6, 15e-6
"""Times to receive a record and for the user's logic; with 6 us to deserialise it, 150 us."""
KEY_BYTES, SERIALISE_NS = 100.0, 60.0
HANDLE_S, MERGE_S = 8e-6, 2e-6
"""Times to receive a partial result of another component, and to merge it into a window. To ship one is 20 us."""
TWO, SIX = (5, 10), (5, 10, 15, 20, 25, 30)
"""Lengths of windows in minutes, in Section 7.1."""
CAPACITY_PER_S = 40_000.0
FEWER = 200
"""Number of the job's records that a simulated one stands for: hours of 40,000 a second are too many for each."""
CHANNEL_RECORDS = 16_384
"""Credits of a channel, in records of the job: a few seconds of what a worker takes."""


def large(workspace: Workspace) -> bool:
    """Whether the scale is the paper's, at which a simulated run lasts as long as the paper's."""
    return workspace.sizes.n >= PAPER.n


def notes(fewer: int = FEWER) -> str:
    """Notes of a page on the job's costs, and on the records that were simulated."""
    return f"""
- Costs are fitted to 456 s and 512 s of Section 7.7: 135 us to take a record and 15 us for the user's logic, 20 us to
  ship a key of a partial result, 2 us to merge one. The paper gives none, so no absolute value compares.
- Split, every consolidate is on another worker than the compute whose key groups it has.
- A simulated record stands for {fewer} of the job's and a key for {fewer} keys, with the bytes, the state and the work
  of them all, because every record is simulated. Throughputs and pauses stay; the time in which a single record is
  served, and others wait for it, is {fewer} times as long.
"""


def keys_for(pane_keys: float, pane_records: float) -> int:
    """Number of keys for `pane_keys` different ones in a pane on average: K (1 - exp(-n / K)) = k, by bisection."""
    low, high = pane_keys, 1e9
    while high - low > 0.5:
        middle = (low + high) / 2.0
        low, high = (middle, high) if -middle * math.expm1(-pane_records / middle) < pane_keys else (low, middle)
    return max(GROUPS, round(high))


def simple_job(
    *,
    pane_keys: float,
    rate_per_s: float,
    horizon_s: float,
    fewer: int = FEWER,
    channel_records: int | None = None,
    combined: bool = False,
    minutes: Sequence[float] = (5,),
    events: Sequence[Mapping[str, Any]] = (),
    seed: int = 1,
    key_bytes: float = KEY_BYTES,
    **more: Any,
) -> Scenario:
    """Scenario of the simple job. Keys, rates, bytes are the job's. pane_keys: different keys in a minute. key_bytes:
    state of one. fewer: records that a simulated one stands for. channel_records: simulated ones; None: those of the
    job.
    more: run settings, or a policy."""
    keys = keys_for(pane_keys / fewer, min(rate_per_s, CAPACITY_PER_S) * PANE_S / fewer)
    keyed = {"keys": keys, "key_groups": GROUPS, "state_bytes_per_key": key_bytes * fewer}
    record_bytes = KEY_BYTES * fewer
    workers = [f"worker-{number}" for number in range(WORKERS)]
    owners = [group * WORKERS // GROUPS for group in range(GROUPS)]
    away = owners if combined else [(owner + 1) % WORKERS for owner in owners]
    host = {"cpu_percent": 100, "ram_mb": 1_000_000, "bandwidth_mbps": 1000, "latency_ms": 0.5}
    policy = more.pop("policy", None)
    document = {
        "name": "simple job",
        "query": {
            "operators": [
                {"kind": "source", "name": "source", "service_time_s": 0, "record_bytes": record_bytes},
                {
                    "kind": "compute",
                    "name": COMPUTE,
                    "partial_s": PANE_S,
                    "sharing": "panes",
                    "service_time_s": RECEIVE_S * fewer,
                    "execute_time_s": EXECUTE_S * fewer,
                    "record_bytes": record_bytes,
                    **keyed,
                },
                {
                    "kind": "consolidate",
                    "name": "consolidate",
                    "windows": [{"length_s": 60.0 * each} for each in minutes],
                    "service_time_s": HANDLE_S * fewer,
                    "merge_time_s": MERGE_S * fewer,
                    "results_per_key": 0.001,
                    "combined": combined,
                    "pinned": True,
                    **keyed,
                },
                {"kind": "sink", "name": "sink", "service_time_s": 0},
            ],
            "streams": [
                {"producer": "source", "consumer": COMPUTE},
                {"producer": COMPUTE, "consumer": "consolidate"},
                {"producer": "consolidate", "consumer": "sink"},
            ],
        },
        "cluster": {
            "hosts": [
                *({"name": name, **host} for name in workers),
                {**host, "name": "producer", "cpu_percent": 3200, "bandwidth_mbps": 10_000},
            ]
        },
        "plan": {
            "placement": {"source": "producer", COMPUTE: workers, "consolidate": workers, "sink": "producer"},
            "key_groups": {COMPUTE: owners, "consolidate": away},
        },
        "workload": {"arrivals": {"source": {"law": "poisson", "rate_per_s": rate_per_s / fewer}}},
        "engine": {**engine(), "channel_records": channel_records or CHANNEL_RECORDS // fewer},
        "events": list(events),
        "run": {"horizon_s": horizon_s, "seed": seed, **more},
    }
    return parse(Scenario, document if policy is None else {**document, "policy": policy})


def engine() -> dict[str, Any]:
    """Profile of Storm with fixed costs."""
    from twin.profiles import STORM

    changes = {
        "name": "simple-job",
        "serialise_ns_per_byte": SERIALISE_NS,
        "deserialise_ns_per_byte": SERIALISE_NS,
        "service_scv": 0.0,
        "memory": {**STORM.memory.model_dump(), "object_overhead": 1.0},
    }
    return {**STORM.model_dump(mode="json"), **changes}


def taken_per_s(run: Run) -> float:
    """Rate of the job's records that computes took after the warm-up [1/s]."""
    return FEWER * next(each.rate_in_per_s for each in run.operators if each.operator == COMPUTE)


def worker_cpu_s(run: Run) -> float:
    """Core-seconds of all workers."""
    rows = [row for row in run.host_rows if row["host"].startswith("worker-")]
    return float(sum(row["cpuUtilisation"] * (row["end_s"] - row["start_s"]) for row in rows))
