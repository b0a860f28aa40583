"""Enorm's simple job in the simulator, and the throughput that consolidation costs it (Fig. 9, Section 7.7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from papers.interface import CaseTable, Experiment, Row, Rows, grid, lines, shape, within
from papers.workspace import PAPER, Workspace
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

# the job -------------------------------------------------------------------------------------------------------------
# Simple job of Enorm's Section 7: partial results of a minute, merged into longer windows.
#
# Six workers of one core take 40,000 records a second, as in Section 7.1. The costs of a record and a key are fitted
# to the one pair of numbers that the paper has, 456 s against 512 s (Section 7.7); all else follows from it.
#
# Each simulated record stands for many of the job's, and each key for as many keys: it has their bytes, their state
# and their work. So work, bytes and state a second are the job's, and so are throughputs and pauses, in seconds. The
# times to serve a single record, and to wait for a few of them, are as many times as long.


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


# consolidation: Fig. 9 -----------------------------------------------------------------------------------------------
# Throughput by keys, windows and form.


KEYS = (20_000, 100_000, 500_000, 1_000_000, 2_000_000)
OFFERED_PER_S = 44_000.0
"""Offered rate, a bit more than the job can take."""
RECORDS = 18e6
FITTED_KEYS = 2_000_000
FITTED_TO = 0.02
"""Relative deviation that fitted times may have: costs are whole microseconds, and a run's first partial result is
short."""
SHORT_S, STEADY_S = 480.0, 3600.0
"""Lengths of a run: as long as the paper's 18 million records last; and an hour, in which all windows are complete."""


def horizon_s(workspace: Workspace) -> float:
    """Length of a run [s]."""
    return STEADY_S if large(workspace) else SHORT_S


def pairs(workspace: Workspace) -> Rows:
    """Cases of the table: two windows and, where a run is long enough for all to be complete, six."""
    return grid(minutes=(TWO, SIX) if large(workspace) else (TWO,), keys=KEYS)


def both_forms(workspace: Workspace, minutes: tuple[int, ...], keys: int) -> Row:
    """Row of the throughputs of one component and of two."""
    combined, split = (throughput(workspace, keys, form, minutes, horizon_s(workspace)) for form in (True, False))
    return {"windows": len(minutes), "combined": combined, "split": split, "ratio": combined / split}


def throughput(workspace: Workspace, keys: int, combined: bool, minutes: tuple[int, ...], seconds: float) -> float:
    """Rate of records after the first minute [1/s]."""
    case = {"keys": keys, "combined": combined, "minutes": list(minutes), "seconds": seconds}
    return float(workspace.measured("enorm-fig9", measured, **case))


def measured(keys: int, combined: bool, minutes: tuple[int, ...], seconds: float, seed: int) -> float:
    """Rate of records of one run. Channels hold as many simulated records as the job's hold of its own: the fewer
    records there are, the more the workers' shares differ, and none may starve because the channel of another is
    full."""
    job = simple_job(
        pane_keys=keys,
        rate_per_s=OFFERED_PER_S,
        horizon_s=seconds,
        channel_records=CHANNEL_RECORDS,
        combined=combined,
        minutes=minutes,
        seed=seed,
        warmup_s=60.0,
        period_s=60.0,
    )
    return taken_per_s(simulate(job))


def shapes(rows: Rows) -> Rows:
    """Compares with the paper's words on its figure; for six windows only if there are such rows."""
    by = {(row["windows"], row["keys"]): row for row in rows}
    most, least = KEYS[-1], KEYS[0]
    falls = {form: 1.0 - by[2, most][form] / by[2, least][form] for form in ("combined", "split")}
    doubled = 1.0 - by[2, most]["combined"] / by[2, KEYS[-2]]["combined"]
    found = [
        shape("split is slower", "everywhere", f"{sum(row['ratio'] > 1.0 for row in rows)} of {len(rows)}",
               all(row["ratio"] > 1.0 for row in rows)),
        shape("twice the keys, combined", "very little", f"{doubled:.1%} less", doubled < 0.05),
        shape("more keys: split falls more", "yes", f"{falls['split']:.1%} against {falls['combined']:.1%}",
               falls["split"] > falls["combined"]),
    ]  # fmt: skip
    if (len(SIX), most) in by:
        windows = max(abs(by[6, keys]["combined"] / by[2, keys]["combined"] - 1.0) for keys in KEYS)
        found.append(shape("six windows for two, combined", "little impact", f"at most {windows:.1%}", windows < 0.05))
    return found


def fitted(workspace: Workspace) -> Rows:
    """Rows of the time of 18 million records as one component and as two (Section 7.7)."""
    combined, split = (RECORDS / throughput(workspace, FITTED_KEYS, form, (5,), SHORT_S) for form in (True, False))
    times = {"one component (combined)": combined, "two components (split)": split, "ratio": split / combined}
    return [{"form": form, "time_s": time_s} for form, time_s in times.items()]


def fit_shapes(rows: Rows) -> Rows:
    """Compares with the seconds that costs are fitted to."""
    return [
        shape(row["form"], f"{row['paper_s']:.3g}", f"{row['time_s']:.3g}",
              within([row["time_s"] / row["paper_s"]], 1.0 - FITTED_TO, 1.0 + FITTED_TO),
              f"{FITTED_TO:.0%} counts: costs are fitted to it, so that it checks the simulator, not the costs")
        for row in rows
    ]  # fmt: skip


FIG9 = Experiment(
    name="enorm.fig9",
    source="Enorm, Fig. 9, Section 7.1",
    summary="throughput of the simple job by keys, windows and form, simulated",
    tables={
        "throughput": CaseTable(
            title=lambda workspace: f"Throughput of the overloaded simple job, {horizon_s(workspace):g} s",
            columns="""
                windows | keys: keys a partial result | combined: combined, records/s | split: split, records/s |
                ratio: split takes so many times as long
            """,
            cases=pairs,
            measure=both_forms,
            shapes=shapes,
        )
    },
    figures={
        "throughput": lines(
            "keys a partial result (millions)",
            "thousand records a second",
            x=lambda row: row["keys"] / 1e6,
            y={"combined": "combined", "split": "split"},
            series="{quantity}, {windows} windows",
            factor=1e-3,
        )
    },
    notes=notes(),
)
COMPONENTS = Experiment(
    name="enorm.components",
    source="Enorm, Section 7.7",
    summary="the simple job as one component and as two: seconds for 18 million records, simulated",
    tables={
        "times": CaseTable(
            title=f"{FITTED_KEYS:,} keys a partial result, a window of 5 minutes",
            columns="form | time_s: seconds for 18 million records | paper_s: paper (s)",
            measure=fitted,
            shapes=fit_shapes,
            published={
                "one component (combined)": {"paper_s": 456},
                "two components (split)": {"paper_s": 512},
                "ratio": {"paper_s": 512 / 456},
            },
            by=("form",),
        )
    },
    notes=notes(),
)
