"""BriskStream's planning: other planners (Figs. 12, 13, 16), random plans (14), fetching (15), and hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from optimizers.numa.baselines import FirstFit, scattered, spread
from optimizers.numa.rlas import Rlas
from optimizers.registry import optimizer_by_name
from papers.briskstream.applications import (
    BRISK,
    EVERYWHERE,
    OTHERS,
    OVER_FIX_L,
    OVER_FIX_U,
    RATIOS,
    SERVERS,
    STORM_BY_RATIOS,
    WITHOUT_JUMBO,
    Case,
    measured,
    on_server,
    part,
    plan_by,
    plan_of,
    planned,
    reached_per_s,
    simulated,
    solved,
    subtasks_of,
    with_subtasks,
)
from papers.interface import CaseTable, Experiment, Row, Rows, apart, bars, grid, lines, samples, shape, span, within
from papers.running import kept
from papers.workspace import Workspace
from scenarios.files import scenario_file
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.rates.numa_rates import NumaJob, sustained
from twin.scenario import RunSettings, Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# planners: Figs. 12, 13 and 16 ---------------------------------------------------------------------------------------
# Gains by the planner's view of distances, by its placement, and by each idea.


RLAS = "rlas:sharing=false"  # a core for each subtask, as in the paper
BELIEFS = {"RLAS": RLAS, "RLAS_fix(L)": "rlas-fix-l", "RLAS_fix(U)": "rlas-fix-u"}
STRATEGIES = {"FF": "first-fit", "RR": "round-robin", "OS": "spread"}
"""Optimizers by the paper's name of the strategy (Table 6)."""
STEPS = {
    "Simple": (STORM_BY_RATIOS, "rlas-fix-l"),
    "-Instr.footprint": (WITHOUT_JUMBO, "rlas-fix-l"),
    "+JumboTuple": (BRISK, "rlas-fix-l"),
    "+RLAS": (BRISK, RLAS),
}
"""Engine and optimizer by the paper's name of the step."""
FITTED = "fitted: the times and sizes of FD, SD and LR aim at the middle of this range, those of WC do not"
CLEARLY = 1.1
"""Least ratio to the step before that counts as a clear gain."""


def believing(workspace: Workspace, server: str, application: str, sockets: int = 8) -> Iterator[Row]:
    """Throughputs by what the planner assumes of distances; RLAS, which knows them, comes first."""
    case, best = Case(application, server, sockets), 0.0
    for planner, name in BELIEFS.items():
        plan = plan_by(workspace, case, optimizer_by_name(name))
        kps = reached_per_s(workspace, case, plan) / 1e3
        best = best or kps
        gain = None if name == RLAS else best / kps - 1.0
        yield {
            "planner": planner,
            "replicas": subtasks_of(plan),
            "kps": kps,
            "of_rlas": kps / best,
            "gain": gain,
            "improvement": None if gain is None else f"{gain:.0%}",
        }


def placing(workspace: Workspace, server: str, application: str, sockets: int = 8) -> Iterator[Row]:
    """Throughputs by placement of the subtasks that RLAS chose; its own placement comes first."""
    case = Case(application, server, sockets)
    best = planned(workspace, case, optimizer_by_name(RLAS))
    best_per_s = reached_per_s(workspace, case, plan_of(best))
    job = with_subtasks(case.job, plan_of(best))
    others = {label: planned(workspace, case, optimizer_by_name(name), job) for label, name in STRATEGIES.items()}
    for strategy, found in {"RLAS": best, **others}.items():
        per_s = reached_per_s(workspace, case, plan_of(found))
        yield {
            "strategy": strategy,
            "kps": per_s / 1e3,
            "of_rlas": per_s / best_per_s,
            "estimated_of_rlas": found["predicted_per_s"] / best["predicted_per_s"],
        }


def adding(workspace: Workspace, server: str, application: str, sockets: int = 8) -> Iterator[Row]:
    """Throughputs with one more idea at each step."""
    reached: list[float] = []
    for step, (engine, optimizer) in STEPS.items():
        case = Case(application, server, sockets, engine)
        reached.append(reached_per_s(workspace, case, plan_by(workspace, case, optimizer_by_name(optimizer))) / 1e3)
        gain = reached[-1] / reached[-2] if len(reached) > 1 else None
        yield {"step": step, "kps": reached[-1], "gain": gain, "of_simple": reached[-1] / reached[0]}


def belief_shapes(rows: Rows) -> Rows:
    """Compares RLAS's gains on Server A with the paper's."""
    ranges = {"RLAS_fix(L)": OVER_FIX_L, "RLAS_fix(U)": OVER_FIX_U}
    shapes = [
        shape(
            f"{row['application']}: over {planner}",
            f"{low:.0%} to {high:.0%}",
            f"{row['gain']:.0%}",
            within([row["gain"]], low, high),
            FITTED if row["application"] != "WC" else "not fitted to",
        )
        for planner, (low, high) in ranges.items()
        for row in on_server(rows, "A")
        if row["planner"] == planner
    ]
    return [*shapes, apart("Server B", "-", "above", "the paper names no figure of it")]


def _best(rows: Rows) -> Rows:
    """Compares placements."""
    others = [row for row in rows if row["strategy"] != "RLAS"]
    servers = sorted({row["server"] for row in rows})
    best = {server: max(row["of_rlas"] for row in on_server(others, server)) for server in servers}
    gap = {
        server: sum(row["of_rlas"] for row in on_server(others, server)) / len(on_server(others, server))
        for server in best
    }
    texts = {server: f"the next reaches {share:.0%}" for server, share in best.items()}
    found = [
        shape(f"RLAS is the best, Server {server}", "generally", text, best[server] <= 1.0)
        for server, text in texts.items()
    ]
    if len(gap) == 2:
        text = f"others' mean {gap['A']:.0%} on A, {gap['B']:.0%} on B"
        found.append(shape("its lead is larger on Server B", "generally", text, gap["B"] < gap["A"]))
    return found


def _steps(rows: Rows) -> Rows:
    """Compares the gains of the steps."""
    gains = {
        step: [row["gain"] for row in on_server(rows, "A") if row["step"] == step] for step in ("+JumboTuple", "+RLAS")
    }
    return [
        shape("jumbo tuples", "important", f"times {span(gains['+JumboTuple'])}", min(gains["+JumboTuple"]) > CLEARLY,
              "rests on an assumed share of other overhead"),
        shape("RLAS on top", "critical", f"times {span(gains['+RLAS'])}", min(gains["+RLAS"]) > CLEARLY,
              "FD, SD and LR are fitted to it"),
        apart("Simple", "Storm", "above", "modelled by ratios that the paper gives of word count alone"),
    ]  # fmt: skip


FIG12 = Experiment(
    name="briskstream.fig12",
    source="BriskStream, Fig. 12, Section 6.4",
    summary="what planning by distance gains over fixed capabilities: RLAS, RLAS_fix(L), RLAS_fix(U)",
    tables={
        "improvement": CaseTable(
            title=("Throughput of plans by what the planner believes of distances, simulated ({judged} runs each)"),
            columns="""
                application | server | planner | subtasks | kps: simulated (K/s) | improvement: RLAS is better by |
                paper: paper: by (Server A, all applications)
            """,
            cases=EVERYWHERE,
            measure=believing,
            published={
                planner: f"{low:.0%} to {high:.0%}"
                for planner, (low, high) in (("RLAS_fix(L)", OVER_FIX_L), ("RLAS_fix(U)", OVER_FIX_U))
            },
            by=("planner",),
            shapes=belief_shapes,
        )
    },
    figures={
        "improvement": bars(
            "simulated throughput, RLAS = 1", group="{application}\n{server}", series="planner", value="of_rlas"
        )
    },
    notes="""
- RLAS_fix(L) plans as if every record came from the farthest socket, RLAS_fix(U) as if none did; both search as RLAS
  does, local search included. All plans are judged in the same simulator, which knows the distances.
- Threads beyond the cores of a socket share these without loss in the simulator, whereas the paper blames
  interference between them for much of what RLAS_fix(U) loses.
""",
)
FIG13 = Experiment(
    name="briskstream.fig13",
    source="BriskStream, Fig. 13 and Table 6, Section 6.4",
    summary="placement strategies under the same replication: RLAS, FF, RR, OS",
    tables={
        "placements": CaseTable(
            title=("Throughput by placement, with RLAS's subtasks, simulated ({judged} runs each)"),
            columns="""
                application | server | strategy: placement | kps: simulated (K/s) | of_rlas: simulated, of RLAS |
                estimated_of_rlas: estimated, of RLAS
            """,
            cases=EVERYWHERE,
            measure=placing,
            shapes=_best,
        )
    },
    figures={
        f"server-{server.lower()}": bars(
            f"simulated, on Server {server}, RLAS = 1",
            group="application",
            series="strategy",
            value="of_rlas",
            only={"server": [server]},
        )
        for server in SERVERS
    },
    notes="""
- The paper draws these without naming figures: RLAS is the best on both servers, by more on Server B.
- FF takes the largest load at which it finds room for all subtasks, in steps of a tenth. The paper's relaxes its
  constraints in a way that is not described, and often oversubscribes a few sockets; this one does not.
""",
)
FIG16 = Experiment(
    name="briskstream.fig16",
    source="BriskStream, Fig. 16, Section 6.5",
    summary="factor analysis: instruction footprint, jumbo tuples, RLAS (modelled)",
    tables={
        "factors": CaseTable(
            title=("Throughput with ever more of BriskStream's ideas, simulated ({judged} runs each), modelled costs"),
            columns="""
                application | server | step: system | kps: simulated (K/s) | gain: times the step before |
                of_simple: times Simple
            """,
            cases=EVERYWHERE,
            measure=adding,
            shapes=_steps,
        )
    },
    figures={
        "factors": bars(
            "simulated throughput, Simple = 1", group="{application}\n{server}", series="step", value="of_simple"
        )
    },
    notes=f"""
- The paper draws this without naming figures: jumbo tuples are important, RLAS critical.
- Modelled: Simple has BriskStream's times a record multiplied by {RATIOS[STORM_BY_RATIOS].factor:.3g}, from the ratios
  that Section 6.3 gives for word count (function execution 5 to 24 % of Storm's, of which the middle; other overhead
  about 10 %), for all applications.
- -Instr.footprint executes as BriskStream does but pays Storm's other overhead: times
  {RATIOS[WITHOUT_JUMBO].factor:.3g}. That takes such overhead for {OTHERS:.0%} of BriskStream's time a record, which
  is assumed: the two middle steps are as good as this assumption.
- Both send each record alone, so that a fetch fills no whole cache lines. Storm's threads, acknowledgements and
  garbage are not modelled beyond these times.
""",
)


# random plans: Fig. 14 -----------------------------------------------------------------------------------------------
# Random replication and placement against RLAS's plan.


CHUNK = 25
"""Number of plans in a piece of work."""
COARSE = 0.5
"""Length of a random plan's run, as a share of that of RLAS's plan."""
DRAWN = "A"
ELSEWHERE = 100
"""Largest number of random plans on the server that the paper's figure does not have."""


def against_rlas(workspace: Workspace, server: str, application: str, sockets: int = 8) -> Row:
    """Throughputs of an application's random plans over that of RLAS's plan."""
    case = Case(application, server, sockets)
    best = reached_per_s(workspace, case, plan_by(workspace, case, Rlas()))
    count = workspace.sizes.random_plans
    per_s = np.array(_simulated(workspace, case, count if server == DRAWN else min(count, ELSEWHERE)))
    luckiest = random_plan(case.job, workspace.seed, int(per_s.argmax()))
    return {
        "plans": len(per_s),
        "better": int((per_s > best).sum()),
        "median": float(np.median(per_s)) / best,
        "p95": float(np.quantile(per_s, 0.95)) / best,
        "best": float(per_s.max()) / best,
        "best_again": reached_per_s(workspace, case, luckiest) / best,
        "rlas_kps": best / 1e3,
        "_shares": sorted((per_s / best).tolist()),
    }


def random_plan(job: Deployment, seed: int, number: int) -> ExecutionPlan:
    """Random plan, which depends on the job, the seed and the number alone."""
    model = NumaJob(job)
    rng = random_stream(seed, f"briskstream.fig14/{number}")
    return model.plan_of(scattered(model, int(model.cores_l.sum()), rng))


def throughputs(job: Deployment, settings: RunSettings, first: int, last: int, seed: int) -> list[float]:
    """Results a second of the random plans from `first` to before `last`."""
    plans = (random_plan(job, seed, number) for number in range(first, last))
    return [simulated(job.with_plan(plan), settings, seed, 1) for plan in plans]


def _simulated(workspace: Workspace, case: Case, count: int) -> list[float]:
    settings = part(case.settings, COARSE)
    chunks = [{"first": first, "last": min(first + CHUNK, count)} for first in range(0, count, CHUNK)]
    decided = {**case.key, "settings": settings.model_dump(mode="json")}
    found = kept(
        workspace, "briskstream-random", throughputs, chunks, lambda: {"job": case.job, "settings": settings}, decided
    )
    return [per_s for chunk in found for per_s in chunk]


def random_shapes(rows: Rows) -> Rows:
    """Compares the best random plan with RLAS's."""
    better, best = sum(row["better"] for row in rows), max(row["best_again"] for row in rows)
    plans = sum(row["plans"] for row in rows)
    return [shape("random plans better than RLAS's", "none", f"{better} of {plans:,}; the best {best:.0%}", best < 1.0)]


FIG14 = Experiment(
    name="briskstream.fig14",
    source="BriskStream, Fig. 14, Section 6.4",
    summary="the distribution of random plans' throughput against RLAS",
    tables={
        "random": CaseTable(
            title="Throughput of random plans, simulated (one run each)",
            columns="""
                application | server | plans: random plans | better: better than RLAS | median: median, of RLAS |
                p95: 95 %, of RLAS | best: best, of RLAS | best_again: best, judged as RLAS is, of RLAS |
                rlas_kps: RLAS (K/s) | paper_better: paper: better than RLAS
            """,
            cases=EVERYWHERE,
            measure=against_rlas,
            published={DRAWN: {"paper_better": 0}},
            by=("server",),
            shapes=random_shapes,
        )
    },
    figures={
        f"server-{server.lower()}": samples(
            "charts.distributions",
            f"simulated throughput on Server {server}, RLAS = 1",
            name="application",
            of="_shares",
            only={"server": [server]},
            marked=1.0,
        )
        for server in SERVERS
    },
    notes=f"""
- Each random plan has as many subtasks as there are cores: one an operator, the others dealt at random; every subtask
  is on a random socket.
- The paper's figure is of one server, taken for Server A. Server B has at most {ELSEWHERE} random plans.
- A run of a random plan lasts half as long as RLAS's; the best plan is judged again as RLAS's is.
""",
)


# fetching: Fig. 15 ---------------------------------------------------------------------------------------------------
# Which sockets fetch from which under RLAS's plan of word count.


APPLICATION = "WC"


def by_producer(workspace: Workspace, server: str, sockets: int = 8) -> Iterator[Row]:
    """Rows, one for each socket of the producer. Nothing is simulated."""
    case = Case(APPLICATION, server, sockets)
    cores = fetching(case.job, plan_by(workspace, case, Rlas()))
    for socket, fetched in enumerate(cores):
        yield {
            "producer": f"S{socket}",
            "consumers": ", ".join(f"{each:.2f}" for each in fetched),
            "cores": fetched.tolist(),
            "sum": float(fetched.sum()),
            "share": float(fetched.sum() / max(cores.sum(), 1e-300)),
        }


def fetching(job: Deployment, plan: ExecutionPlan) -> np.ndarray:
    """[L, L] reference cores busy with fetching, by socket of the producer and of the consumer."""
    model = NumaJob(job)
    counts_ol = model.counts_of(plan)
    load = min(1.0, float(sustained(model, counts_ol[None]).load_n[0]))
    share_ol = counts_ol / counts_ol.sum(axis=1, keepdims=True)
    made_si, taken_sj = share_ol[model.producer_s], share_ol[model.consumer_s]
    return np.asarray(load * np.einsum("s,si,sj,sij->ij", model.rate_s, made_si, taken_sj, model.fetch_sij))


def fetching_shapes(rows: Rows) -> Rows:
    """Compares the sockets from which records are fetched."""
    found: list[Row] = []
    for server, paper in (("A", "from one socket, mostly"), ("B", "from all much more uniformly")):
        shares = [row["share"] for row in on_server(rows, server)]
        if shares:
            same = max(shares) > 0.5 if server == "A" else max(shares) < 2.0 / len(shares)
            text = f"at most {max(shares):.0%} from one of {len(shares)}"
            why = "they come from where RLAS puts the splitters, whose words are most of the records"
            found.append(shape(f"Server {server}: from where records are fetched", paper, text, same, why))
    return found


def _matrices(tables: Mapping[str, Rows]) -> Figure:
    from figures.charts import matrices

    rows = tables["fetching"]
    by_server = {server: np.array([row["cores"] for row in on_server(rows, server)]) for server in SERVERS}
    titles = {f"Server {server}": cores for server, cores in by_server.items() if cores.size}
    return matrices(titles, "socket of the producer", "socket of the consumer", "cores that fetch")


FIG15 = Experiment(
    name="briskstream.fig15",
    source="BriskStream, Fig. 15, Section 6.4",
    summary="communication between sockets under RLAS's plan of word count, on both servers",
    tables={
        "fetching": CaseTable(
            title=f"Fetching between sockets under RLAS's plan of {APPLICATION} (modelled, simulated machine)",
            columns="""
                server | producer: from socket | consumers: cores that fetch from it, by socket of the consumer |
                sum: together | share: of all fetching
            """,
            cases=grid(server=SERVERS),
            measure=by_producer,
            shapes=fetching_shapes,
        )
    },
    figures={"matrices": _matrices},
    notes="""
- Modelled: rates of the streams between two sockets times Tf (equation 2), at the load that the plan sustains, in
  reference cores of Server A. The plan's throughput is judged in the simulator elsewhere.
- The paper draws these without naming figures: on Server A most requests come from one socket, S0; on Server B they
  are spread evenly.
""",
)


# hosts and sockets ---------------------------------------------------------------------------------------------------
# Beyond BriskStream: one optimizer over hosts and their sockets together, on a cluster of NUMA machines.
#
# Between machines a record is serialised and crosses a network card; between sockets it is fetched by cache lines.
# Compared are planners that see only one of the two: hosts first and sockets as an operating system fills them, one
# machine alone, and placements that ignore distances.


SCENARIO = "numa-cluster"
GIGABITS = (1.0, 2.5, 5.0, 10.0, 25.0)
"""Bandwidths of each machine's network card [Gbit/s]."""

TOGETHER = "RLAS over hosts and sockets"
HOSTS_FIRST = "RLAS over hosts, sockets filled evenly"
ONE_HOST = "RLAS over the sockets of one host"
FIRST_FIT = "first fit, subtasks of RLAS"
ROUND_ROBIN = "round robin, subtasks of RLAS"


def by_planner(workspace: Workspace, gigabits: float, scenario: str = SCENARIO) -> Iterator[Row]:
    """Rows of all planners on one network; the one that sees everything comes first."""
    job = with_network(scenario_file.load(scenario), gigabits)
    best = 0.0
    for planner, plan in plans(workspace, job).items():
        reached = measured(workspace, job.deployment.with_plan(plan), job.run) / 1e3
        best = best or reached
        hosts = {place.host for name in plan.placement for place in plan.locations(name)}
        row = {"planner": planner, "throughput": reached, "share": reached / best}
        yield {**row, "hosts": len(hosts), "replicas": subtasks_of(plan)}


def with_network(scenario: Scenario, gigabits: float) -> Scenario:
    """Scenario whose hosts have cards of that bandwidth."""
    hosts = tuple(host.model_copy(update={"bandwidth_mbps": 1000.0 * gigabits}) for host in scenario.cluster.hosts)
    return Scenario(**{**dict(scenario), "cluster": Cluster(hosts=hosts)})


def plans(workspace: Workspace, scenario: Scenario) -> dict[str, ExecutionPlan]:
    """Plans by planner; the first is the one that sees everything."""
    job, horizon_s = scenario.deployment, scenario.run.horizon_s
    together = plan_of(solved(workspace, job, Rlas(), horizon_s))
    replicated = with_subtasks(job, together)
    return {
        TOGETHER: together,
        HOSTS_FIRST: _filled(job, plan_of(solved(workspace, without_sockets(job), Rlas(), horizon_s)), workspace.seed),
        ONE_HOST: plan_of(solved(workspace, first_host(job), Rlas(), horizon_s)),
        FIRST_FIT: plan_of(solved(workspace, replicated, FirstFit(), horizon_s)),
        ROUND_ROBIN: plan_of(solved(workspace, replicated, FirstFit("round-robin", turn=True), horizon_s)),
    }


def without_sockets(job: Deployment) -> Deployment:
    """Job on machines of one processor each, as a planner of hosts sees them."""
    hosts = tuple(host.model_copy(update={"sockets": (), "numa": None}) for host in job.cluster.hosts)
    return Deployment(**{**dict(job), "cluster": Cluster(hosts=hosts)})


def first_host(job: Deployment) -> Deployment:
    """Job on its first machine alone."""
    return Deployment(**{**dict(job), "cluster": Cluster(hosts=job.cluster.hosts[:1])})


def _filled(job: Deployment, by_host: ExecutionPlan, seed: int) -> ExecutionPlan:
    """Plan over hosts whose subtasks go, on each host, to the socket with the fewest subtasks a core."""
    model = NumaJob(job)
    counts_ol = np.zeros((len(model.operators), len(model.locations)))
    for host in range(len(model.hosts)):
        here = [sum(place.host == model.hosts[host] for place in by_host.locations(name)) for name in model.operators]
        columns = np.flatnonzero(model.host_l == host)
        counts_ol[:, columns] = spread(model.cores_l[columns], np.array(here), random_stream(seed, f"fill-{host}"))
    return model.plan_of(counts_ol)


def host_shapes(rows: Rows) -> Rows:
    """Compares hosts and sockets planned together with the other planners, beyond the paper."""
    networks = list(dict.fromkeys(row["gigabits"] for row in rows))
    most = [max(row["share"] for row in rows if row["gigabits"] == network) for network in networks]
    best = sum(share <= 1.0 for share in most)
    ours = (
        f"hosts and sockets together: the best on {best} of {len(networks)} networks, else within {max(most) - 1:.0%}"
    )
    return [apart("hosts and sockets at once", "-", ours, "the paper plans the sockets of one host")]


HOSTS = Experiment(
    name="briskstream.hosts",
    source="BriskStream, beyond the paper",
    summary="hosts and sockets planned together, on a cluster of NUMA machines",
    tables={
        "hosts": CaseTable(
            title="Fraud detection on three machines of four sockets: simulated throughput by network",
            columns="""
                gigabits: network card, Gbit/s | planner: plan by | throughput: throughput, K results/s |
                share: of the first's | hosts: hosts used | subtasks
            """,
            cases=grid(gigabits=GIGABITS),
            measure=by_planner,
            shapes=host_shapes,
        )
    },
    figures={
        "hosts": lines(
            "network card of each machine (Gbit/s)",
            "simulated K results/s",
            x="gigabits",
            y="throughput",
            series="planner",
        )
    },
    notes="- We know of no published system that plans both at once.",
)
