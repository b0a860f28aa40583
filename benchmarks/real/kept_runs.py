"""Simulated runs of hidden engines as what is measured of them, kept in a file to go on from."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenarios.calibration.point import Point
from twin.metrics import BINARY_METRICS, METRICS
from twin.run import Run
from twin.scenario import Scenario, config_hash
from twin.simulation import simulate


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. known: the scenario as it is known; point: rates, host CPU and mean latency, no busy times. labels: in
    the order of METRICS, nan where there is none.
    """

    known: Scenario
    point: Point
    labels: tuple[float, ...]


def measured(known: Sequence[Scenario], real: Sequence[Scenario], file: Path | None) -> list[Measured]:
    """Runs of engines as they really are, one a scenario; those in the file are not simulated again."""
    kept = _read(file) if file is not None and file.exists() else {}
    found = []
    for number, (each, hidden) in enumerate(zip(known, real, strict=True)):
        key = config_hash(hidden)
        if key not in kept:
            kept[key] = _record(simulate(hidden))
            if file is not None:
                with file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps({"key": key, **kept[key]}) + "\n")
        record = kept[key]
        labels = tuple(math.nan if value is None else value for value in record["labels"])
        found.append(Measured(each, Point(name=str(number), scenario=each, **record["point"]), labels))
    return found


def _read(file: Path) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {row["key"]: row for row in rows}


def _record(run: Run) -> dict[str, Any]:
    latency = run.metrics.processing_latency_s
    point = {
        "taken_per_s": {each.operator: each.rate_in_per_s for each in run.operators},
        "emitted_per_s": {each.operator: each.rate_out_per_s for each in run.operators},
        "cpu": {each.host: each.cpu for each in run.hosts},
        "latency_s": None if latency is None else latency.mean,
    }
    known = METRICS if run.metrics.success else BINARY_METRICS
    labels = [run.metrics.value(metric) if metric in known else None for metric in METRICS]
    return {"point": point, "labels": labels}
