"""Makes training rows of operating points: the labels and columns of simulated runs, marked as measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scenarios.calibration.point import Point
from twin.errors import BadInput
from twin.metrics import TABLE, Totals
from twin.scenario import config_hash

ROWS = "rows.parquet"


def training_row(point: Point, index: int, seconds: float) -> dict[str, Any]:
    """One row of `twin.trace.TRAINING_ROWS`. What was not measured has no label. seconds: length of the measurement."""
    query = point.scenario.query
    sinks = [each.name for each in query.sinks]
    seen = all(name in point.taken_per_s for name in sinks)
    results = sum(point.taken_per_s[name] for name in sinks) * seconds if seen else math.nan
    taken = [point.taken_per_s.get(each.name, point.offered_per_s(each.name)) for each in query.sources]
    totals = Totals(
        seconds=seconds,
        results=results,
        processing_s=math.nan if point.latency_s is None else point.latency_s * results,
        e2e_s=math.nan,
        arrived=sum(point.offered_per_s(each.name) for each in query.sources) * seconds,
        taken=sum(taken) * seconds,
        alive=True,
    )
    labels = {
        name: metric.of(totals) if results or metric.kind != "latency" else math.nan for name, metric in TABLE.items()
    }
    return {
        "run": point.name,
        "index": index,
        "seed": 0,
        "config_hash": config_hash(point.scenario),
        "horizon_s": seconds,
        "warmup_s": 0.0,
        "deployment": point.scenario.deployment.model_dump_json(exclude_none=True),
        **{name: _known(value) for name, value in labels.items()},
        "success": bool(results > 0) if seen else True,
        "backpressure_per_s": max(0.0, totals.arrived - totals.taken) / seconds,
        "tuples_out": 0 if not seen else round(results),
        "measured": True,
    }


def check_subtasks(point: Point, counted: Mapping[str, int]) -> list[str]:
    """Operators that have more subtasks than in the plan, in words. counted: subtasks by operator, where known.

    Raises BadInput if an operator has fewer, because its rates are sums over subtasks.
    """
    more = []
    for operator, count in counted.items():
        replicas = point.scenario.plan.replicas(operator)
        if count < replicas:
            raise BadInput(
                f"run {point.name}: {operator} has samples of {count} of its {replicas} subtasks, and rates are sums; "
                f"export them all, or give the plan of that run in a column plan.placement.{operator}"
            )
        if count > replicas:
            more.append(f"{operator} has samples of {count} subtasks, and {replicas} in the plan")
    return more


def _known(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_rows(rows: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Writes a new folder with one Parquet file of rows, whole or not at all."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from twin.atomic import new_folder
    from twin.checksums import seal
    from twin.trace import TRAINING_ROWS

    schema = TRAINING_ROWS.append(pa.field("measured", pa.bool_()))
    with new_folder(folder) as aside:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), aside / ROWS)
        seal(aside, [ROWS])
