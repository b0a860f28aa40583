"""Enorm, Fig. 13: latency while a hot spot goes from worker to worker, by strategy and frequency of migration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from papers.drawing import lines
from papers.enorm.simple_job import COMPUTE, GROUPS, WORKERS, large, notes, simple_job
from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape, within
from papers.workspace import Workspace
from twin.histograms import histogram_of, quantile_s
from twin.run import Run
from twin.simulation import simulate

RATE_PER_S = 28_000.0
PANE_KEYS = 120_000
STATE_BYTES = 10_000.0
"""State of a key [bytes]: a key group of 2,000 keys pauses for seconds, as the paper's of 50,000 smaller ones may."""
FINER = 50
"""Number of records that a simulated one stands for: latency shows the time of a single one."""
ROUND_S, RISES_S, SETTLE_S = 300.0, 180.0, 300.0
"""Times of the hot spot: a new hot worker every five minutes, after the first five; its load rises for three."""
HOT = 1.667
"""Factor on a hot worker's part of the records: with the others at 90 %, half as much load again."""
PERIOD_S = 5.0
WAYS: Mapping[str, tuple[str | None, int]] = {
    "no migration": (None, 1),
    "disruptive, every 5 minutes": ("disruptive", 60),
    "disruptive, every minute": ("disruptive", 12),
    "instant, every 5 s": ("instant", 1),
}


def rounds_of(workspace: Workspace) -> int:
    """Number of rounds: as many as there are workers; two at a scale of minutes."""
    return WORKERS if large(workspace) else 2


def latency(workspace: Workspace, way: str) -> Row:
    """Row of one way. All ways have the same input."""
    found = workspace.measured("enorm-fig13", course, way=way, rounds=rounds_of(workspace))
    return {**found["summary"], "_minutes": [max(1e-3, value) for value in found["minutes"]]}


def course(way: str, rounds: int, seed: int, fewer: int = FINER) -> dict[str, Any]:
    """Row of the table, and mean latency by minute, of one run."""
    strategy, periods = WAYS[way]
    policy = None
    if strategy is not None:
        policy = {"name": "flux", "strategy": strategy, "every_periods": periods, "max_migrations": 10, "band": 2.0}
    events = []
    for number in range(rounds):
        at_s = SETTLE_S + number * ROUND_S
        events.append(_skew(number % WORKERS, at_s, HOT))
        if number:
            events.append(_skew((number - 1) % WORKERS, at_s, 1.0))
    job = simple_job(
        pane_keys=PANE_KEYS,
        rate_per_s=RATE_PER_S,
        horizon_s=SETTLE_S + rounds * ROUND_S,
        fewer=fewer,
        events=events,
        key_bytes=STATE_BYTES,
        period_s=PERIOD_S,
        seed=seed,
        policy=policy,
    )
    return _read(simulate(job))


def _skew(worker: int, at_s: float, factor: float) -> dict[str, Any]:
    mine = [group for group in range(GROUPS) if group * WORKERS // GROUPS == worker]
    return {
        "kind": "skew",
        "operator": COMPUTE,
        "key_groups": mine,
        "factor": factor,
        "at_s": at_s,
        "over_s": RISES_S,
    }


def _read(found: Run) -> dict[str, Any]:
    rows = [row for row in found.operator_rows if row["operator"] == COMPUTE and row["start_s"] >= SETTLE_S]
    sums = np.array([row["processingLatencySum_s"] for row in rows])
    counts = np.array([row["latencyCount"] for row in rows], dtype=float)
    a_minute = round(60.0 / PERIOD_S)
    minutes = [
        1e3 * float(sums[k : k + a_minute].sum() / max(1.0, counts[k : k + a_minute].sum()))
        for k in range(0, len(rows), a_minute)
    ]
    sketch = histogram_of(rows, "processing")
    moves = [row for row in found.event_rows if row["kind"] == "migration"]
    summary = {
        "mean": 1e3 * float(sums.sum() / counts.sum()),
        "p99": 1e3 * quantile_s(sketch, 0.99),
        "worst": max(minutes),
        "moves": sum(len(row["detail"].get("key_groups", ())) for row in moves),
        "paused": float(sum(row["paused_s"] or 0.0 for row in moves)),
    }
    return {"summary": summary, "minutes": minutes}


def shapes(rows: Rows) -> Rows:
    """Compares mean latencies."""
    rarely, often, instant = (row["mean"] for row in rows if row["way"] != "no migration")
    return [
        shape("disruptive, every 5 minutes", "extensive; every minute is better", f"{rarely:.3g} ms for {often:.3g}",
              rarely > often),
        shape("instant against disruptive every minute", "a factor of ten", f"a factor of {often / instant:.2g}",
              within([often / instant], 10.0 / 2.0, 10.0 * 2.0), "within a factor of two counts; serving and queueing, "
              f"which is all that instant has, are {FINER} times as long as the job's, and pauses as long as its own"),
    ]  # fmt: skip


FIG13 = Experiment(
    name="enorm.fig13",
    source="Enorm, Fig. 13, Section 7.5",
    summary="latency under a moving hot spot, by strategy and frequency of migration, simulated",
    tables={
        "latency": CaseTable(
            title=lambda workspace: f"{rounds_of(workspace)} hot workers one after the other, after {SETTLE_S:g} s",
            columns="""
                way: migration | mean: latency of records, mean (ms) | p99: 99th percentile (ms) |
                worst: mean of the worst minute (ms) | moves: key groups moved | paused: pauses together (s) |
                paper
            """,
            cases=grid(way=WAYS),
            measure=latency,
            shapes=shapes,
            published={
                "no migration": "-",
                "disruptive, every 5 minutes": "extensive",
                "disruptive, every minute": "ten times that of instant",
                "instant, every 5 s": "a tenth of disruptive each minute",
            },
            by=("way",),
        )
    },
    figures={
        "latency": lines(
            "minute",
            "latency of records (ms)",
            y="_minutes",
            series="way",
            only={"way": [way for way, (strategy, _) in WAYS.items() if strategy is not None]},
            logarithmic=True,
        )
    },
    notes=f"""{notes(FINER)}
- Latency: from when a record is taken from the broker until it is in the state of its pane, pauses included.
""",
)
