"""Laws of whole runs: conservation, determinism, windows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pytest

from tests.twin.worlds import HOST, chain, dealt, deployment, simulated, sink, source
from twin.deployment import nominal_rates
from twin.randomness import child_seed, random_stream

SCRIPT = """
import json, sys
from scenarios.spaces.generator import random_scenario
from scenarios.spaces.registry import SPACES
from twin.scenario import RunSettings
from twin.simulation import simulate
out = []
for seed in (1, 2, 3, 12):
    scenario = random_scenario(SPACES["costream"], seed, RunSettings(horizon_s=20))
    run = simulate(scenario)
    out.append([run.operator_rows, run.host_rows, run.manifest])
print(json.dumps(out))
"""


def test_same_seed_same_run_in_another_process_with_another_hash_seed() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("0", "4242")
    }
    assert len(outputs) == 1
    assert json.loads(outputs.pop())[0][0]


def test_another_seed_another_run() -> None:
    job = chain([], 100)
    runs = [simulated(job, horizon_s=10, seed=seed).metrics for seed in (0, 1)]
    assert runs[0] != runs[1]


@pytest.mark.parametrize("policy", ["count", "time"])
def test_outputs_follow_the_nominal_rates(policy: str) -> None:
    """Groups and join matches follow Costream's Definitions 7 and 8, over 20 runs each."""
    window = (
        {"policy": "count", "size_records": 60, "slide_records": 30}
        if policy == "count"
        else {"policy": "time", "size_s": 0.5, "slide_s": 0.25}
    )
    job = deployment(
        [
            source("l"),
            source("r"),
            {"kind": "join", "name": "j", "window": window, "selectivity": 0.02, "service_time_s": 1e-5},
            {"kind": "filter", "name": "f", "selectivity": 0.5, "service_time_s": 1e-5},
            {
                "kind": "aggregate",
                "name": "a",
                "window": {"policy": "time", "size_s": 2},
                "group_by": "int",
                "groups": 40,
                "service_time_s": 1e-5,
            },
            sink(),
        ],
        [("l", "j"), ("r", "j"), ("j", "f"), ("f", "a"), ("a", "sink")],
        {"l": 60, "r": 120},
    )
    nominal = nominal_rates(job.query, job.workload.arrivals)
    totals: dict[str, list[float]] = defaultdict(list)
    for seed in range(20):
        for each in simulated(job, horizon_s=30, warmup_s=10, seed=seed).operators:
            totals[each.operator].append(each.rate_out_per_s)
    for name in ("j", "f", "a"):
        error = np.std(totals[name], ddof=1) / np.sqrt(20)
        assert abs(np.mean(totals[name]) - nominal[name].out_per_s) < 4 * error + 0.02 * nominal[name].out_per_s, name


@pytest.mark.parametrize("how", ["rebalance", "hash", "broadcast", "global", "forward", "local"])
def test_partitioning_deals_every_record_as_it_says(how: str) -> None:
    job = chain(
        [{"kind": "map", "name": "m", "service_time_s": 1e-4}],
        1000,
        placement={"source": {"h": 3}, "m": {"h": 3}},
    )
    run = simulated(dealt(job, m=how), horizon_s=20)
    records = {each.operator: each.records_in for each in run.operators}
    copies = 3 if how == "broadcast" else 1
    assert records["m"] == pytest.approx(copies * records["source"], rel=0.02)


def test_full_memory_crashes_the_job_and_fails_it() -> None:
    small = {**HOST, "name": "small", "ram_mb": 400}
    window = {"policy": "time", "size_s": 60, "slide_s": 1}
    job = chain(
        [{"kind": "aggregate", "name": "a", "window": window, "service_time_s": 1e-6}],
        5000,
        hosts=[HOST, small],
        placement={"a": "small"},
    )
    run = simulated(job, horizon_s=120)
    assert run.crashed and not run.metrics.success
    assert "small was out of memory" in run.warnings[0] and "ram_mb" in run.warnings[0]
    assert not any("more CPU" in line for line in run.warnings), "which would not have helped"
    slowdowns = [row["gcSlowdown"] for row in run.host_rows if row["host"] == "small"]
    assert slowdowns[0] < slowdowns[-1]


def test_streams_are_named_and_independent_of_order() -> None:
    first = random_stream(1, "a").random(4)
    random_stream(1, "b").random(4)
    assert np.array_equal(first, random_stream(1, "a").random(4))
    assert not np.array_equal(first, random_stream(1, "b").random(4))
    assert not np.array_equal(first, random_stream(2, "a").random(4))
    assert len({child_seed(0, index) for index in range(10_000)}) == 10_000
