"""BriskStream, Figs. 6 and 7 and Table 5: throughput and latency under other engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from papers.briskstream.applications import APPLICATIONS, Case, part
from papers.briskstream.published import BRISK, RATIOS, STORM_BY_RATIOS, TABLE_5_P99_MS
from papers.briskstream.scaling import plan_as_engine
from papers.drawing import bars, samples
from papers.interface import CaseTable, Experiment, Row, Rows, apart, grid, shape, span, within
from papers.workspace import Workspace
from twin.deployment import Deployment
from twin.histograms import histogram_of, quantile_s
from twin.kinds.registry import SINKS
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

SYSTEMS = {BRISK: BRISK, STORM_BY_RATIOS: "storm", "storm": "storm", "flink": "flink"}
"""Names of the paper's systems by engine."""
RUN_SHARE = 0.45
"""Share of the library's run that is simulated: channels fill for longer than throughput takes to settle."""
DISTRIBUTED = "WC"
"""Application whose latencies are drawn."""


def by_engine(workspace: Workspace, application: str, sockets: int = 8) -> Iterator[Row]:
    """Rows of an application on Server A, one for each engine; one run each."""
    found = {engine: _run(workspace, Case(application, sockets=sockets, engine=engine)) for engine in SYSTEMS}
    for engine in SYSTEMS:
        per_s, quantiles_ms = found[engine]["per_s"], [1e3 * value for value in found[engine]["quantiles_s"]]
        yield {
            "engine": engine,
            "kps": per_s / 1e3,
            "speed_up": found[BRISK]["per_s"] / per_s if per_s else None,
            "p50_ms": quantiles_ms[49] if quantiles_ms else None,
            "p99_ms": quantiles_ms[98] if quantiles_ms else None,
            "quantiles_ms": quantiles_ms,
        }


def distribution(job: Deployment, settings: RunSettings) -> dict[str, Any]:
    """Results a second `per_s`, and 1 to 99 % `quantiles_s` of the processing latency; empty if nothing arrived."""
    found = simulate(Scenario.of(job, settings))
    rows = [row for row in found.operator_rows if row["kind"] in SINKS and row["start_s"] >= settings.warmup_s]
    histogram = histogram_of(rows, "processing")
    return {
        "per_s": found.metrics.throughput_per_s,
        "quantiles_s": [quantile_s(histogram, percent / 100) for percent in range(1, 100)] if histogram else [],
    }


def _run(workspace: Workspace, case: Case) -> dict[str, Any]:
    plan = plan_as_engine(workspace, case)
    settings = part(case.scenario.run, RUN_SHARE).model_copy(update={"seed": workspace.seed})
    key = {**case.key, "settings": settings.model_dump(mode="json"), "plan": plan.model_dump(mode="json")}
    job = case.job.with_plan(plan)
    return dict(workspace.cached("briskstream-latencies", key, lambda: distribution(job, settings)))


def shapes(rows: Rows) -> Rows:
    """Compares latencies at saturation."""
    ours = [row for row in rows if row["engine"] == "brisk"]
    ratios = [row["p99_ms"] / row["paper_p99_ms"] for row in ours if row["p99_ms"]]
    return [
        shape("brisk's latency at saturation, 99 %, of the paper's", "1", span(ratios), within(ratios, 0.5, 2.0),
              "full channels, whose credits are assumed, decide it"),
        apart("storm and flink", "systems", "above", "profiles; their unlimited queues are not modelled"),
    ]  # fmt: skip


ENGINES = Experiment(
    name="briskstream.engines",
    source="BriskStream, Figs. 6 and 7, Table 5, Section 6.3",
    summary="throughput and latency of the applications by engine (modelled)",
    tables={
        "engines": CaseTable(
            title="Throughput and latency on Server A by engine (modelled), simulated",
            columns="""
                application | engine | kps: simulated (K/s) | speed_up: brisk is faster by |
                p50_ms: latency, median (ms) | p99_ms: latency, 99 % (ms) | paper_p99_ms: paper: latency, 99 % (ms)
            """,
            cases=grid(application=APPLICATIONS),
            measure=by_engine,
            published={
                (application, engine): {"paper_p99_ms": p99_ms[system]}
                for application, p99_ms in TABLE_5_P99_MS.items()
                for engine, system in SYSTEMS.items()
            },
            by=("application", "engine"),
            shapes=shapes,
        )
    },
    figures={
        "speed_up": bars(
            "brisk's throughput over it, modelled",
            group="application",
            series="engine",
            value="speed_up",
            only={"engine": [engine for engine in SYSTEMS if engine != BRISK]},
            factors=True,
        ),
        "latency": samples(
            "charts.distributions",
            "processing latency of WC, ms (simulated, modelled)",
            name="engine",
            of="quantiles_ms",
            only={"application": [DISTRIBUTED]},
            log=True,
        ),
    },
    notes=f"""
- Modelled: {STORM_BY_RATIOS} has BriskStream's times a record times {RATIOS[STORM_BY_RATIOS].factor:.3g} (the ratios
  of Section 6.3), each record sent alone, and brisk's channels; storm and flink are engine profiles, whose charge
  comes on top of BriskStream's time. The storm profile is for far slower machines than this.
- Latencies are from the moment at which a source takes an event in: the sources are offered more than the job can
  bear, so that what waits before them grows for ever.
- What is in the job decides them: full channels, of the profile's credits, over the throughput. The paper's Storm
  queues seconds of records without limit, which is not modelled, so its latencies here are far less.
- A run lasts {RUN_SHARE * Case(DISTRIBUTED).scenario.run.horizon_s:g} s under brisk, and as much longer under the
  others as they are slower; in a longer one the slowest records are slower, as more channels have filled.
- brisk is planned by RLAS; the others' subtasks are chosen blind to distances and spread as an OS does.
""",
)
