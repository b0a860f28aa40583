"""BriskStream beside other engines (Figs. 6 and 7, Table 5), and its scaling with sockets (Figs. 9 and 10)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Any

from optimizers.numa.baselines import Spread
from optimizers.numa.rlas import Rlas
from papers.briskstream.applications import (
    APPLICATIONS,
    BRISK,
    EVERYWHERE,
    NEARLY_LINEAR_TO,
    RATIOS,
    SERVERS,
    STORM_BY_RATIOS,
    TABLE_5_P99_MS,
    WITHOUT_RMA_OF_IDEAL,
    Case,
    estimated,
    most_per_s,
    on_server,
    part,
    plan_by,
    reached_per_s,
    subtasks_of,
    with_subtasks,
)
from papers.interface import (
    CaseTable,
    Drawer,
    Experiment,
    Row,
    Rows,
    apart,
    bars,
    columns,
    grid,
    samples,
    shape,
    span,
    within,
)
from papers.workspace import Workspace
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.histograms import histogram_of, quantile_s
from twin.kinds.registry import SINKS
from twin.plan import ExecutionPlan
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

# scaling: Figs. 9 and 10 ---------------------------------------------------------------------------------------------
# Scaling with sockets by engine and by application, and the gap to ideal.


SOCKETS = (1, 2, 4, 8)
SCALED_ENGINES = (BRISK, "storm", "flink")
OF_ENGINES = "LR"
"""Application of the paper's comparison of engines."""
BLIND = Rlas(fetch="never")
"""Optimizer that chooses subtasks for engines that know nothing of sockets."""
LINEAR, POOR = 0.85, 0.9
"""Least share of linear scaling that counts as almost linear, and ratio to the efficiency on half the sockets below
which scaling is poor."""


def scaled(
    workspace: Workspace, application: str, server: str = "A", engine: str = BRISK, sockets: Collection[int] = SOCKETS
) -> Iterator[Row]:
    """Throughputs by number of sockets, against the smallest number."""
    fewest, one = min(sockets), 0.0
    for count in sorted(sockets):
        case = Case(application, server, count, engine)
        plan = plan_as_engine(workspace, case)
        found = reached_per_s(workspace, case, plan)
        one = one or found
        yield {
            "server": server,
            "engine": engine,
            "sockets": count,
            "replicas": subtasks_of(plan),
            "simulated_kps": found / 1e3,
            "speed_up": found / one,
            "efficiency": found / one * fewest / count,
            "of_cores": found / most_per_s(case.job),
        }


def plan_as_engine(workspace: Workspace, case: Case) -> ExecutionPlan:
    """Plan as an engine would choose it: RLAS's under BriskStream; under others subtasks are chosen blind to distances
    and spread as an OS does."""
    if case.engine == BRISK:
        return plan_by(workspace, case, Rlas())
    parallelism = with_subtasks(case.job, plan_by(workspace, case, BLIND))
    return plan_by(workspace, case, Spread(), parallelism)


def gap(workspace: Workspace, server: str, application: str, sockets: int = 8) -> Row:
    """Throughput of RLAS's plan over `sockets` times that for one socket, with and without the cost of distance."""
    case = Case(application, server, sockets)
    single = replace(case, sockets=1)
    plan, one = (plan_by(workspace, where, Rlas()) for where in (case, single))
    found, ideal = reached_per_s(workspace, case, plan), sockets * reached_per_s(workspace, single, one)
    without = reached_per_s(workspace, case, plan, without_rma(case.job))
    most = most_per_s(case.job)
    return {
        "simulated_kps": found / 1e3,
        "without_kps": without / 1e3,
        "modelled_kps": estimated(case.job, plan, fetch="never")["sustained_per_s"] / 1e3,
        "ideal_kps": ideal / 1e3,
        "of_ideal": found / ideal,
        "without_of_ideal": without / ideal,
        "of_cores": found / most,
        "without_of_cores": without / most,
    }


def without_rma(job: Deployment) -> Deployment:
    """Job on a machine where a remote cache line is as near as a local one."""
    (host,) = job.cluster.hosts
    assert host.numa is not None
    zeros = tuple((0.0,) * host.socket_count for _ in range(host.socket_count))
    near = host.model_copy(update={"numa": host.numa.model_copy(update={"latency_ns": zeros})})
    return Deployment(**{**dict(job), "cluster": Cluster(hosts=(near,))})


def _linear(rows: Rows) -> Rows:
    """Compares scaling. rows: of applications, on one to eight sockets."""
    by = {
        sockets: [row["efficiency"] for row in on_server(rows, "A") if row["sockets"] == sockets] for sockets in (4, 8)
    }
    falls = [eight / four for four, eight in zip(by[4], by[8], strict=False)]
    if not falls:
        return [apart("scaling to four and eight sockets", "almost linear, then poor", "-", "not that many here")]
    whole = "one socket's cores fit whole subtasks badly, so that more sockets may be better than linear"
    return [
        shape(f"of linear on {NEARLY_LINEAR_TO} sockets", "almost 1, all applications", span(by[4]),
              min(by[4]) >= LINEAR, whole),
        shape("efficiency on 8, of that on 4", "poor, all applications", span(falls), max(falls) < POOR,
              "where RLAS finds a plan that hardly crosses trays, nothing makes it poor"),
        apart("other engines", "drawn", "above", "profiles, not systems"),
    ]  # fmt: skip


def gap_shapes(rows: Rows) -> Rows:
    """Compares the gaps with the paper's, and remote memory's part of them."""
    ours = on_server(rows, "A")
    shares, (low, high) = [row["without_of_ideal"] for row in ours], WITHOUT_RMA_OF_IDEAL
    remote = [
        (row["without_of_ideal"] - row["of_ideal"]) / (1 - row["of_ideal"]) for row in ours if row["of_ideal"] < 1
    ]
    parts = "the plan is that for the machine with distances, and its operators fit cores and channels less evenly"
    return [
        shape("W/o rma, of ideal", f"{low} to {high}", span(shares), within(shares, low, high), parts),
        shape("remote memory's part of the gap", "the main reason", span(remote) if remote else "-",
              within(remote, 0.5, math.inf), "whether it is half or more"),
    ]  # fmt: skip


def scalability(table: str, series: str, *servers: str) -> Drawer:
    """Drawer of a figure with a line for each series over the sockets."""
    only = {"server": servers}
    return columns("charts.scalability", table=table, only=only, series=series, sockets="sockets", speed_up="speed_up")


COLUMNS = """
    application | server | engine | sockets | subtasks | simulated_kps: simulated (K/s) |
    speed_up: against one socket | efficiency: of linear | of_cores: of all cores busy, nothing fetched
"""

FIG9 = Experiment(
    name="briskstream.fig9",
    source="BriskStream, Fig. 9, Section 6.3",
    summary="scalability from one to eight sockets, of all applications and of three engine profiles",
    tables={
        "engines": CaseTable(
            title=lambda workspace: (
                f"{OF_ENGINES} by engine profile (modelled) on Server A, {workspace.sizes.judged} simulated runs each"
            ),
            columns=COLUMNS,
            cases=grid(application=(OF_ENGINES,), engine=SCALED_ENGINES),
            measure=scaled,
        ),
        "applications": CaseTable(
            title="RLAS's plans, {judged} simulated runs each",
            columns=COLUMNS,
            cases=EVERYWHERE,
            measure=scaled,
            shapes=_linear,
        ),
    },
    figures={
        **{f"server-{server.lower()}": scalability("applications", "application", server) for server in SERVERS},
        "engines": scalability("engines", "engine", "A"),
    },
    notes=f"""
- The paper draws its Fig. 9; its text says almost linear up to {NEARLY_LINEAR_TO} sockets for all applications.
- Beyond, it says, scalability is poor, because remote memory is about twice as far across trays.
- BriskStream's plans are RLAS's for so many sockets: a subtask a core, but for those that need little of one.
- Subtasks are whole: many operators fit one socket's cores badly, and more sockets may be better than linear.
- The last column is free of that.
- For storm and flink a planner blind to distances chooses the subtasks, which then go to sockets as an OS does.
- These two are engine profiles, not systems: what they charge a record comes on top of the operator's own time.
- Locks, threads that wander, and garbage collection across sockets are not modelled.
- So a line of theirs that is straighter than the paper's is no evidence.
- The more an engine charges for a record, the less distance matters.
""",
)
FIG10 = Experiment(
    name="briskstream.fig10",
    source="BriskStream, Fig. 10, Section 6.3",
    summary="gap to eight times one socket, with and without the cost of remote memory",
    tables={
        "gaps": CaseTable(
            title="Gaps to ideal on eight sockets, {judged} simulated runs each",
            columns="""
                application | server | simulated_kps: simulated (K/s) | without_kps: W/o rma, simulated (K/s) |
                modelled_kps: W/o rma, rate model (K/s) | ideal_kps: ideal: 8 x one socket, simulated (K/s) |
                of_ideal: simulated of ideal | without_of_ideal: W/o rma of ideal |
                paper_without_of_ideal: paper: W/o rma of ideal |
                of_cores: simulated of all cores busy, nothing fetched | without_of_cores: W/o rma of the same
            """,
            cases=EVERYWHERE,
            measure=gap,
            published={"A": {"paper_without_of_ideal": " to ".join(map(str, WITHOUT_RMA_OF_IDEAL))}},
            by=("server",),
            shapes=gap_shapes,
        )
    },
    figures={
        "gaps": bars(
            "share of ideal",
            group="{application}\n{server}",
            value={"of_ideal": "simulated", "without_of_ideal": "W/o rma, simulated"},
        )
    },
    notes="""
- W/o rma: the same plan where fetching from another socket takes no time. Bandwidths between sockets stay.
- The paper has W/o rma from its model; here it is simulated as well.
- Ideal: eight times what RLAS's plan for one socket reaches.
- Subtasks are whole: they fit the cores of one socket less well than those of eight, so ideal may be exceeded.
- The last columns compare with what no plan can exceed: all cores at work, nothing fetched.
- The plan stays that for the machine with distances; without these it is no longer the best one.
""",
)


# engines: Figs. 6 and 7, Table 5 -------------------------------------------------------------------------------------
# Throughput and latency under other engines.


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


def engine_shapes(rows: Rows) -> Rows:
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
            shapes=engine_shapes,
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
