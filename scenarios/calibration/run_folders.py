"""Reads folders of runs as operating points: traces of simulated or measured runs, each with a job of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scenarios.calibration.point import Point
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.run import host_totals, metrics_of, operator_totals
from twin.scenario import RunSettings, Scenario

PARTS = ("runs", "operators", "hosts")


def read_runs(folder: Path, scenario: Scenario) -> list[Point]:
    """Reads the runs of a trace (`twin run --out`, `twin corpus`, `twin import metrics`), under the scenario's profile.

    Runs that failed are left out. Raises BadInput if there is no run, or the trace is damaged.
    """
    from twin.trace import damage, read_table

    chunks = sorted(each.parent for each in folder.rglob("runs.parquet"))
    if not chunks:
        raise BadInput(
            f"{folder} holds no run (runs.parquet); write one with 'twin run --out' or 'twin import metrics'"
        )
    points = []
    for chunk in chunks:
        if told := damage(chunk):
            raise BadInput(f"{chunk}: {told}; make it again")
        runs, operators, hosts = (read_table(chunk, part).to_pylist() for part in PARTS)
        done = (run for run in runs if run["status"] == "ok")
        points += [_point(run, _of(run, operators), _of(run, hosts), scenario) for run in done]
    return points


def _of(run: dict[str, Any], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row["run"] == run["run"]]


def _point(
    run: dict[str, Any], operators: Sequence[dict[str, Any]], hosts: Sequence[dict[str, Any]], scenario: Scenario
) -> Point:
    deployment = Deployment.model_validate_json(run["deployment"])
    settings = RunSettings(horizon_s=run["horizon_s"], warmup_s=run["warmup_s"], period_s=run["period_s"])
    job = Scenario(**{**dict(deployment), "engine": scenario.engine, "name": run["run"], "run": settings})
    totals = operator_totals(operators, run["warmup_s"])
    metrics = metrics_of(operators, run["warmup_s"], bool(run["crashed"]))
    latency = metrics.processing_latency_s
    return Point(
        name=run["name"] or run["run"],
        scenario=job,
        taken_per_s={each.operator: each.rate_in_per_s for each in totals},
        emitted_per_s={each.operator: each.rate_out_per_s for each in totals},
        busy={each.operator: each.busy for each in totals},
        backpressured={each.operator: each.backpressured for each in totals},
        cpu={each.host: each.cpu for each in host_totals(hosts, run["warmup_s"])},
        latency_s=None if latency is None else latency.mean,
    )
