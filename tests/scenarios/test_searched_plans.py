"""Plans that runs have judged: any measure as objective or limit, budgets in words, and the command."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizers.interface import Problem
from optimizers.objectives import NOTHING_MORE, OBJECTIVES, Requirements
from optimizers.searching import Budget, Rank
from optimizers.space import Space, SpacePlans, as_plans
from scenarios import measures
from scenarios.executing import Processes
from scenarios.files import scenario_file
from scenarios.planning import planner
from scenarios.planning.cost_models import cost_model
from scenarios.planning.searching import Goal, PlansSearched, RunBench, SearchRun, budget_of, search
from tests.commands import answer, refused, twin
from tests.twin.worlds import deployment, sink, source
from twin.errors import BadInput
from twin.events import Failure
from twin.histograms import bucket
from twin.plan import ExecutionPlan
from twin.randomness import child_seed
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

BURSTS = {"law": "bursty", "states": [{"rate_per_s": 20, "mean_s": 4.0}, {"rate_per_s": 240, "mean_s": 1.0}]}


def machines(count: int = 3, seed: int = 5) -> Scenario:
    """Machines that work in bursts, each with a small box; a plant with more cores, and a cloud that is far away."""
    operators, streams, arrivals, places = [], [], {}, {}
    small = {"ram_mb": 2000, "bandwidth_mbps": 100, "latency_ms": 4}
    hosts: list[dict[str, Any]] = []
    for number in range(count):
        operators += [source(f"s{number}", service_time_s=3e-4, pinned=True)]
        operators += [{"kind": "map", "name": f"d{number}", "service_time_s": 4e-3}]
        operators += [sink(f"k{number}", pinned=True)]
        streams += [(f"s{number}", f"d{number}"), (f"d{number}", f"k{number}")]
        arrivals[f"s{number}"] = BURSTS
        hosts.append(small | {"name": f"box{number}", "cpu_percent": 60})
        places |= {f"s{number}": f"box{number}", f"d{number}": "cloud", f"k{number}": f"box{number}"}
    hosts += [small | {"name": "plant", "cpu_percent": 300}]
    hosts += [small | {"name": "cloud", "cpu_percent": 1600, "latency_ms": 45}]
    settings = RunSettings(horizon_s=20, warmup_s=4, period_s=4, seed=seed)
    return Scenario.of(deployment(operators, streams, arrivals, hosts, places), settings)


def found(job: Scenario, objective: str, runs: int = 30, required: Requirements | None = None) -> PlansSearched:
    asked = {} if required is None else {"requirements": required}
    problem = Problem(scenario=job, cost_model=cost_model("rates"), seed=job.run.seed, **asked)
    return search(problem, objective, Budget(runs=runs))


def reached(job: Scenario, plan: ExecutionPlan, name: str, runs: int = 3) -> float:
    """Mean over runs with other seeds than a search has."""
    made = [simulate(job.with_plan(plan).with_run(seed=child_seed(99, number))) for number in range(runs)]
    return float(np.mean([each.metrics.value(name) for each in made]))


def test_where_rates_see_no_bursts_runs_find_the_best_of_all_plans() -> None:
    """Two detections on box, plant or cloud are 16 plans, of which all are run with other seeds."""
    job = machines(2)
    every = list(as_plans(job, SpacePlans(job, Space(free_subtasks=False)).all()))
    best = min(reached(job, plan, "e2e_latency_s") for plan in every if {*plan.hosts("d0", "d1")} != {"box0"})
    made = found(job, "e2e_latency_s", 20)
    assert reached(job, made.solution.plan, "e2e_latency_s") <= 1.05 * best
    assert made.solution.objective < 0.7 * next(iter(made.solution.starts.values())).objective, "far better than given"
    low, high = made.interval or (0.0, 0.0)
    assert low < made.solution.objective < high


@pytest.mark.parametrize("objective", ["e2e_latency_s.p99", "e2e_latency_s.p50"])
def test_quantiles_are_objectives(objective: str) -> None:
    job = machines(2)
    made = found(job, objective, 12)
    assert reached(job, made.solution.plan, objective) < 0.8 * reached(job, job.plan, objective)
    assert len(made.found.tried[-1].runs) == (2 if objective.endswith("p99") else 1)


def test_the_quantile_of_several_runs_is_that_of_all_results_together() -> None:
    goal = Goal.of(machines(), "e2e_latency_s.p99", Requirements())
    calm, rush = ({bucket(0.1): 1000}, {bucket(0.1): 900, bucket(5.0): 100})
    runs = [SearchRun({goal.objective: value}, {"e2e_latency_s": each}, True, 0.0, 0.0, 0.1, 0) for value, each in
            ((0.1, calm), (5.0, rush))]  # fmt: skip
    assert goal.value(goal.objective, runs[1:]) == pytest.approx(5.0, rel=0.02)
    assert goal.value(goal.objective, runs) == pytest.approx(5.0, rel=0.02), "5 % of all wait that long"
    assert goal.value(goal.objective, [*runs, *[runs[0]] * 18]) == pytest.approx(0.1, rel=0.02), "and here 0.5 %"


def test_what_only_runs_tell_is_an_objective_or_a_limit_and_typos_are_named() -> None:
    job = machines(2)
    busy = found(job, "hosts.plant.cpu", 8, Requirements(at_most={"e2e_latency_s.p99": 10.0}))
    assert busy.solution.objective == 0.0, "nothing need run on the plant"
    for objective, words in (("e2e_latency.p99", "did you mean 'e2e_latency_s.p99'"), ("latency", "unknown metric")):
        with pytest.raises(BadInput, match=words):
            found(job, objective)
    with pytest.raises(BadInput, match="with a budget, runs judge any measure of theirs"):
        planner.optimize(job, objective="hosts.plant.cpu")
    with pytest.raises(BadInput, match=r"'rates' does not predict e2e_latency_s\.p99; let runs judge, with a budget"):
        planner.optimize(job, objective="e2e_latency_s.p99")


@pytest.mark.parametrize(("objective", "speed"), [("processing_latency_s", 5.0), ("price", 5.0), ("price", 0.01)])
def test_where_runs_are_counted_no_clock_decides(objective: str, speed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What proposes plans ends by counts, so that a machine a few times slower or faster finds the same."""
    job = scenario_file.load("edge-filter").with_run(horizon_s=2.0, warmup_s=0.5)
    usual, real = found(job, objective, 12), time.perf_counter
    monkeypatch.setattr("time.perf_counter", lambda: speed * real())
    again = found(job, objective, 12)
    assert again.starts == usual.starts and not again.cut
    assert [each.plan for each in again.found.tried] == [each.plan for each in usual.found.tried]


def test_what_proposes_plans_until_its_time_is_up_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.perf_counter
    monkeypatch.setattr("time.perf_counter", lambda: 1e6 * real())
    made = found(machines(2), "processing_latency_s", 4)
    assert made.cut and all(name in made.solution.message for name in made.cut)
    assert "on another machine they may propose other plans" in made.solution.message


def test_throughput_is_better_if_it_is_more() -> None:
    job = machines(2).with_set("workload.arrivals.s0.states.0.rate_per_s", 800)  # one box cannot bear it
    on_box = job.plan.with_placement({**job.plan.placement, "d0": ("box0",)})
    made = found(job.with_plan(on_box), "throughput_per_s", 15)
    assert made.solution.objective > 1.5 * made.solution.starts["as given"].objective


@pytest.mark.parametrize(
    ("text", "runs", "cpu_s"), [("40runs", 40, None), ("1run", 1, None), ("20", None, 20.0), ("2min", None, 120.0)]
)
def test_budgets_in_words(text: str, runs: int | None, cpu_s: float | None) -> None:
    assert budget_of(text) == Budget(runs=runs, cpu_s=cpu_s)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5000", "5000 CPU seconds; write 5000s if that is meant, 5000runs for runs, or --estimates 5000"),
        ("many", "write CPU seconds, such as 20 or 2min, or runs, such as 40runs"),
        ("0runs", "above 0"),
        ("-3", "above 0"),
        ("2.5runs", "write CPU seconds"),
        ("", "write CPU seconds"),
        ("20%", "write CPU seconds"),
        ("20k", "write CPU seconds"),
        ("1_0runs", "write CPU seconds"),
    ],
)
def test_budgets_that_are_none(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        budget_of(text)


def test_limits_of_nothing_still_tell_a_crash_from_a_late_record() -> None:
    goal = Goal.of(machines(), "e2e_latency_s", Requirements(measured={"late_per_s": 0.0}))

    def runs(late: float, succeeded: bool = True, behind: float = 0.0) -> Rank:
        values = {goal.objective: 1.0, "late_per_s": late}
        problem = Problem(scenario=machines(), cost_model=cost_model("rates"))
        bench = RunBench(problem, goal, Budget(runs=1), Processes(1))
        return bench.judged([SearchRun(values, {}, succeeded, behind, 0.0, 0.1, 0)]).rank(goal.sign)

    assert runs(0.0) < runs(0.01) < runs(1e6) < runs(0.0, behind=1.2) < runs(0.0, succeeded=False)


def test_where_some_runs_have_no_results_under_any_plan_the_others_tell_which_is_better() -> None:
    goal = Goal.of(machines(), "e2e_latency_s", Requirements())
    bench = RunBench(Problem(scenario=machines(), cost_model=cost_model("rates")), goal, Budget(runs=1), Processes(1))

    def rank(*latencies_s: float) -> Rank:
        runs = [SearchRun({goal.objective: s}, {}, math.isfinite(s), 0.0, 0.0, 0.1, 0) for s in latencies_s]
        return bench.judged(runs).rank(goal.sign)

    none = math.inf
    assert rank(1.0, 1.0, none) < rank(2.0, 1.5, none) < rank(1.0, none, none)
    assert rank(3.0, 3.0, 3.0) < rank(1.0, 1.0, none), "a plan that fails less often is better"
    assert rank(none, none) == rank(none, none)


def test_a_part_that_stays_down_in_a_run_is_no_better_than_any_pause() -> None:
    """A run that never recovers has results, too, and is never passed over."""
    goal = Goal.of(machines(), "paused_s", Requirements(measured={"paused_s": 10.0}))
    bench = RunBench(Problem(scenario=machines(), cost_model=cost_model("rates")), goal, Budget(runs=1), Processes(1))

    def judged(*pauses_s: float) -> Rank:
        runs = [SearchRun({goal.objective: s}, {}, True, 0.0, 0.0, 0.1, 0) for s in pauses_s]
        return bench.judged(runs).rank(goal.sign)

    assert judged(6.0, 6.0, 6.0) < judged(9.9, 9.9, 9.9) < judged(5.0, 5.0, math.inf)
    assert judged(5.0, 5.0) < judged(5.0, 5.0, math.inf) and judged(5.0, 5.0, math.inf)[0], "the limit is broken"


@pytest.mark.parametrize("command", ["validate", "benchmark"])
def test_in_tables_runs_have_the_last_word_too(command: str, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(scenario_file.dump(machines(2)), encoding="utf-8")
    asked = {
        "validate": ("validate", path, "--budget", "12runs"),
        "benchmark": ("benchmark", "--families", "links", "--most", 1, "--workers", 1),
    }[command]
    compared = ("--optimizers", "searched,local-search", "--cost-model", "rates", "--references", 0)
    found = answer(*asked, *compared, "--replications", 2)
    rows = [row for row in found["rows"] if row["optimizer"] == "searched"]
    regret = {row["cost_model"]: row["regret"] for row in found["rows"] if row not in rows}
    assert len(rows) == 1 and rows[0]["status"] == "feasible" and rows[0]["regret"] == 0.0
    assert 0.0 <= regret["rates"] <= 0.5, "rates see bursts, too"


def test_free_numbers_of_subtasks_and_limits_of_time_and_allowed_hosts(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(scenario_file.dump(machines(2)), encoding="utf-8")
    free = answer("optimize", path, "--budget", "12runs", "--parallelism", "free")
    assert free["search"]["runs"] <= 12 and free["keeps_up"]
    timed = answer("optimize", path, "--budget", "9000runs", "--parallelism", "free", "--time-limit", 0.5)
    assert "time was up after 0.5 s" in timed["message"] and timed["search"]["runs"] < 9000
    allowed = answer("optimize", path, "--budget", "6runs", "--allow", "d0=plant")
    assert allowed["placement"]["d0"] == "plant" and "the given plan is not one of those" in allowed["message"]


def skewed() -> Scenario:
    """Keys of which one subtask of three gets half, on two slow machines and a fast one: it matters who is where."""
    work = {"kind": "map", "name": "count", "service_time_s": 5e-4, "key_groups": 12, "partition_by": ["page"]}
    speeds = {"slow1": 60, "slow2": 60, "fast": 160, "gate": 100}
    like = {"ram_mb": 4000, "bandwidth_mbps": 1000, "latency_ms": 1}
    hosts = [like | {"name": name, "cpu_percent": each, "core_percent": each} for name, each in speeds.items()]
    job = deployment(
        [source("s", pinned=True), work, sink("k", pinned=True)],
        [("s", "count"), ("count", "k")],
        {"s": 3500},
        hosts,
        {"s": "gate", "count": ["slow1", "slow2", "fast"], "k": "gate"},
        partitioning={"count": "hash"},
        keys={"count": {"shares": [50, 3, 3, 3, 3, 3, 7, 7, 6, 5, 5, 5]}},
    )
    return Scenario.of(job, RunSettings(horizon_s=10, warmup_s=2, period_s=2, seed=5))


def test_it_matters_which_subtask_is_where_and_runs_find_it() -> None:
    job = skewed()
    made = found(job, "e2e_latency_s", 25)
    orders = [("slow1", "slow2", "fast"), ("fast", "slow1", "slow2"), ("slow1", "fast", "slow2")]
    best = min(reached(job, job.plan.with_placement({**job.plan.placement, "count": each}), "e2e_latency_s")
               for each in orders)  # fmt: skip
    assert reached(job, made.solution.plan, "e2e_latency_s") <= 1.05 * best
    assert not made.found.whole, "orders are not all listed"


def test_the_command_searches_writes_draws_and_tells_the_path(tmp_path: Path) -> None:
    path, better, figure = tmp_path / "job.yaml", tmp_path / "better.yaml", tmp_path / "path.png"
    path.write_text(scenario_file.dump(machines(2)), encoding="utf-8")
    asked = ("optimize", path, "--budget", "12runs")
    alone = answer(*asked, "--workers", 1)
    together = answer(*asked, "--workers", 2, "--out", better, "--figure", figure)
    for each in (alone, together):
        for name in ("seconds", "search"):
            each[name] = {**each["search"], "cpu_seconds": 0.0} if name == "search" else 0.0
    assert alone == together
    assert (alone["optimizer"], alone["search"]["runs"]) == ("searched", 12)
    path_told = alone["search"]["path"]
    assert [each["runs"] for each in path_told] == sorted(each["runs"] for each in path_told)
    assert scenario_file.load(str(better)).plan.model_dump(mode="json")["placement"] == together["placement"]
    assert figure.read_bytes().startswith(b"\x89PNG")
    told = twin(*asked)
    assert "the search" in told.stdout and "12 runs in" in told.stdout and "by searched" in told.stdout
    assert "the cost model rates ignores" not in told.stderr, "runs have judged"


def test_an_objective_that_tells_no_plans_apart_is_said_to() -> None:
    same, apart = found(machines(2), "late_per_s", 8), found(machines(2), "e2e_latency_s", 8)
    assert "late_per_s is the same under all plans that were simulated" in same.solution.message
    assert "the same under all plans" not in apart.solution.message
    assert all(each.simulated >= 1 for each in apart.solution.starts.values()), "each tells how many runs it has"


def test_downtime_price_and_changes_are_objectives_and_limits_by_the_plans_that_are_all_run() -> None:
    """The cloud fails, where all is now: a plan without it loses no time. All plans are run."""
    job = machines(2).with_events(Failure(at_s=10.0, host="cloud", recover_after_s=3.0)).with_run(horizon_s=20.0)
    space = Space(free_subtasks=False)
    plans = list(as_plans(job, SpacePlans(job, space).all()))
    pauses = [measures.measures(simulate(job.with_plan(plan)))[measures.PAUSED] for plan in plans]
    assert max(pauses) >= 3.0 > min(pauses)
    base = Problem(scenario=job, cost_model=cost_model("rates"), space=space)
    found = search(base, measures.PAUSED, Budget(runs=20))
    run = measures.measures(simulate(job.with_plan(found.solution.plan)))
    assert run[measures.PAUSED] < 3.0
    for name, limit in (("price", 2.0), ("subtasks_changed", 0.0)):
        kept = replace(base, requirements=Requirements(measured={name: limit}))
        bound = search(kept, "e2e_latency_s", Budget(runs=12))
        assert bound.told.limits[name] <= limit or not bound.solution.fulfils
        assert float(OBJECTIVES[name].of(job, [bound.solution.plan], kept.requirements)[0]) == bound.told.limits[name]


PLACES = st.lists(st.sampled_from(["slow1", "slow2", "fast"]), min_size=1, max_size=4)


@given(PLACES, PLACES)
def test_subtasks_that_change_are_those_that_no_order_of_subtasks_keeps(now: list[str], then: list[str]) -> None:
    job = skewed()
    job = job.with_plan(job.plan.with_placement({**job.plan.placement, "count": tuple(now)}))
    plan = job.plan.with_placement({**job.plan.placement, "count": tuple(then)})
    few, many = sorted((now, then), key=len)
    stay = max(sum(a == b for a, b in zip(few, order, strict=False)) for order in permutations(many))
    assert OBJECTIVES["subtasks_changed"].of(job, [plan, job.plan], NOTHING_MORE).tolist() == [
        max(len(now), len(then)) - stay,
        0.0,
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--workers", "2"], "are for searches by runs; give --budget 20 or --budget 40runs"),
        (["--figure", "x.png"], "are for searches by runs"),
        (["--budget", "fast"], "write CPU seconds, such as 20 or 2min, or runs, such as 40runs"),
        (["--prove", "5"], "runs judge plans with --budget now"),
        (["--drive", "near"], "leave it out: under a learned model, milp chooses"),
        (["--at-most", "late_per_s=3"], "is not predicted; with a budget, runs judge any measure"),
        (["--cost-model", "staged"], "runs judge plans with a budget"),
        (["--at-most", "late=3", "--budget", "3runs"], "unknown metric 'late'"),
        (["--at-most", "throughput_per_s=3", "--budget", "3runs"], "more of it is better"),
        (["--at-most", "e2e_latency_s=3", "--at-most", "e2e_latency_s=4"], "names 'e2e_latency_s' twice; give it once"),
        (["--optimizer", "searched"], "leave it out and give a budget"),
        (["--budget", "1runs", "--objective", "e2e_latency_s.p99"], "give 2runs or more"),
    ],
)
def test_what_cannot_be_is_one_line(options: list[str], words: str) -> None:
    assert words in refused("optimize", "edge-filter", *options)
