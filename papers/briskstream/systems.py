"""BriskStream, Figs. 6 and 7 and Table 5: throughput and latency under other engines."""

from __future__ import annotations

from typing import Any

from papers.briskstream import against
from papers.briskstream.applications import APPLICATIONS, Case, part
from papers.briskstream.engines import BRISK, RATIOS, STORM_BY_RATIOS
from papers.briskstream.fig9 import plan_as_engine
from papers.briskstream.published import TABLE_5_P99_MS
from papers.interface import Experiment, Result, Table
from papers.shapes import against as compared
from papers.sizes import Sizes
from papers.workspace import Workspace
from twin.deployment import Deployment
from twin.engine.sketch import merge, quantile_s
from twin.kinds.registry import SINKS
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

SYSTEMS = {BRISK: BRISK, STORM_BY_RATIOS: "storm", "storm": "storm", "flink": "flink"}
"""Engine -> the paper's system."""
RUN_SHARE = 0.45
"""Of the library's run: channels fill for longer than throughput takes to settle."""
DISTRIBUTED = "WC"
"""The application whose latencies are drawn."""

COLUMNS = {
    "application": "application",
    "engine": "engine",
    "kps": "simulated (K/s)",
    "speed_up": "brisk is faster by",
    "p50_ms": "latency, median (ms)",
    "p99_ms": "latency, 99 % (ms)",
    "paper_p99_ms": "paper: latency, 99 % (ms)",
}

NOTES = (
    (
        f"Modelled: {STORM_BY_RATIOS} has BriskStream's times a tuple times {RATIOS[STORM_BY_RATIOS].factor:.3g} (the "
        "ratios of Section 6.3), each tuple sent alone, and brisk's channels; storm and flink are engine profiles, "
        "whose charge comes on top of BriskStream's time. The storm profile is for far slower machines than this."
    ),
    (
        "Latencies are from the moment at which a source takes an event in: the sources are offered more than the job "
        "can bear, so that what waits before them grows for ever."
    ),
    (
        "What is in the job decides them: full channels, of the profile's credits, over the throughput. The paper's "
        "Storm queues seconds of tuples without limit, which is not modelled, so its latencies here are far less."
    ),
    (
        f"A run lasts {RUN_SHARE * Case(DISTRIBUTED).scenario.run.horizon_s:g} s under brisk, and as much longer under "
        "the others as they are slower; in a longer one the slowest tuples are slower, as more channels have filled."
    ),
    "brisk is planned by RLAS; the others' replicas are chosen blind to distances and spread as an OS does.",
)


def run(workspace: Workspace, sizes: Sizes) -> Result:
    """All applications on Server A under each engine; one run each."""
    del sizes
    rows = [row for application in APPLICATIONS for row in _rows(workspace, application)]
    title = "Throughput and latency on Server A by engine (modelled), simulated"
    tables = {"engines": Table(title, COLUMNS, tuple(rows)), "against": compared(against.engines(rows))}
    return Result(tables, {"speed_up": lambda: _speed_ups(rows), "latency": lambda: _latencies(rows)}, NOTES)


def distribution(job: Deployment, settings: RunSettings) -> dict[str, Any]:
    """`per_s`, and the 1 to 99 % quantiles of the processing latency, `quantiles_s`; none if nothing arrived."""
    found = simulate(Scenario.of(job, settings))
    rows = [row for row in found.operator_rows if row["kind"] in SINKS and row["start_s"] >= settings.warmup_s]
    histogram = merge(
        dict(zip(row["processingLatencyBuckets"], row["processingLatencyCounts"], strict=True)) for row in rows
    )
    return {
        "per_s": found.metrics.throughput_per_s,
        "quantiles_s": [quantile_s(histogram, percent / 100) for percent in range(1, 100)] if histogram else [],
    }


def _rows(workspace: Workspace, application: str) -> list[dict[str, Any]]:
    found = {engine: _run(workspace, Case(application, engine=engine)) for engine in SYSTEMS}
    rows = list[dict[str, Any]]()
    for engine, system in SYSTEMS.items():
        per_s, quantiles_s = found[engine]["per_s"], found[engine]["quantiles_s"]
        rows.append(
            {
                "application": application,
                "engine": engine,
                "kps": per_s / 1e3,
                "speed_up": found[BRISK]["per_s"] / per_s if per_s else None,
                "p50_ms": quantiles_s[49] * 1e3 if quantiles_s else None,
                "p99_ms": quantiles_s[98] * 1e3 if quantiles_s else None,
                "paper_p99_ms": TABLE_5_P99_MS[application][system],
                "quantiles_ms": [each * 1e3 for each in quantiles_s],
            }
        )
    return rows


def _run(workspace: Workspace, case: Case) -> dict[str, Any]:
    plan = plan_as_engine(workspace, case)
    settings = part(case.scenario.run, RUN_SHARE).model_copy(update={"seed": workspace.seed})
    key = {**case.key, "settings": settings.model_dump(mode="json"), "plan": plan.model_dump(mode="json")}
    job = case.job.with_plan(plan)
    return dict(workspace.cached("briskstream-latencies", key, lambda: distribution(job, settings)))


def _speed_ups(rows: list[dict[str, Any]]) -> Any:
    from figures.bars import grouped_bars

    others = [row for row in rows if row["engine"] != BRISK]
    columns = {"group": "application", "series": "engine", "value": "speed_up"}
    table = {name: [row[key] for row in others] for name, key in columns.items()}
    return grouped_bars(table, "brisk's throughput over it, modelled")


def _latencies(rows: list[dict[str, Any]]) -> Any:
    from figures.distributions import distributions

    samples = {row["engine"]: row["quantiles_ms"] for row in rows if row["application"] == DISTRIBUTED}
    return distributions(samples, "processing latency of WC, ms (simulated, modelled)", log=True)


ENGINES = Experiment(
    name="briskstream.engines",
    source="BriskStream, Figs. 6 and 7, Table 5, Section 6.3",
    summary="throughput and latency of the applications by engine (modelled)",
    run=run,
)
