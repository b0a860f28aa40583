"""Reads a run from the folder that `twin run --out` wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import optimizers.policies  # noqa: F401  # so that what is read can name one
from scenarios.files.traces import RESULT
from twin.deployment import Deployment
from twin.engine.measure.meters import Row
from twin.engine.measure.standard_errors import StandardErrors
from twin.errors import BadInput
from twin.markers import from_sources
from twin.nesting import parse_json
from twin.run import Run, host_totals, link_totals, metrics_of, operator_totals
from twin.spec import parse
from twin.steadiness import full, queue_growth_per_s
from twin.trace import damage, read_table

MANIFEST = ("version", "config_hash", "seed", "horizon_s", "warmup_s", "period_s")
UNKNOWN = "the folder has no result.json: standard errors, warnings and doubled results of the run are not known"


class KeptRun(NamedTuple):
    """A run from a folder. name: of the scenario. job: without events and policy; a folder keeps only their effects."""

    name: str
    job: Deployment
    run: Run


def read_run(folder: Path) -> KeptRun:
    """Reads the run in a folder. Raises BadInput if the folder is damaged, or holds no run or several."""
    if not (folder / "runs.parquet").is_file():
        raise BadInput(f"{folder} holds no run; name a folder that 'twin run SCENARIO --out DIR' wrote")
    told = damage(folder)
    if told:
        raise BadInput(f"{folder}: {told}; make it again with 'twin run SCENARIO --out DIR'")
    about = _rows(folder, "runs")
    if len(about) != 1 or about[0]["status"] != "ok":
        raise BadInput(f"{folder} holds {len(about)} runs; name a folder of one run that 'twin run --out' wrote")
    return KeptRun(about[0]["name"] or folder.name, job := _job(about[0], folder), _run(about[0], folder, job))


def _job(about: Mapping[str, Any], folder: Path) -> Deployment:
    return parse(Deployment, parse_json(about["deployment"]), str(folder / "runs.parquet"))


def _run(about: Mapping[str, Any], folder: Path, job: Deployment) -> Run:
    tables = ("operators", "subtasks", "hosts", "links")
    operators, subtasks, hosts, links = (_rows(folder, name) for name in tables)
    warmup_s, result = about["warmup_s"], _result(folder)
    events = tuple({**row, "detail": parse_json(row["detail"])} for row in _rows(folder, "events"))
    return Run(
        metrics=metrics_of(
            operators, warmup_s, about["crashed"], queue_growth_per_s(job, operators, links, events, warmup_s)
        ),
        operators=operator_totals(operators, warmup_s, subtasks),
        hosts=host_totals(hosts, warmup_s),
        warnings=tuple(result["warnings"]),
        manifest={key: about[key] for key in MANIFEST} | {"simulated_s": max(row["end_s"] for row in operators)},
        deployment_json=about["deployment"],
        crashed=about["crashed"],
        cpu_s=about["cpu_s"],
        operator_rows=tuple(operators),
        host_rows=tuple(hosts),
        link_rows=tuple(links),
        event_rows=events,
        subtask_rows=tuple(subtasks),
        links=link_totals(links, warmup_s),
        standard_errors=StandardErrors(**result["standard_errors"]),
        full=full(job, operators, subtasks, hosts, events, warmup_s),
        duplicates=result["duplicates"],
        markers=from_sources(result["markers"]),
    )


def _rows(folder: Path, table: str) -> list[Row]:
    """Rows of a table of the folder, without the run's identifier, which runs in memory lack as well."""
    rows = read_table(folder, table).to_pylist()
    return [{key: value for key, value in row.items() if key != "run"} for row in rows]


def _result(folder: Path) -> Mapping[str, Any]:
    """Reads the values that are not in tables; defaults if the file is missing. Raises BadInput if it is damaged."""
    path = folder / RESULT
    if not path.is_file():
        return {"warnings": [UNKNOWN], "standard_errors": {}, "duplicates": 0, "markers": {}}
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
        return {key: found[key] for key in ("warnings", "standard_errors", "duplicates", "markers")}
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(f"{path} is not what 'twin run' wrote; make the run again") from None
