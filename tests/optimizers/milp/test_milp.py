"""Ordinary jobs, asked of the MILP as their owners would; and the cheapest hosts that bear a job with head room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.interface import Problem, Solution, Status
from optimizers.milp.optimizer import Milp
from optimizers.objectives import Requirements, at_rate, price_of, prices_h
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.space import Space, as_plans
from scenarios.files import scenario_file
from scenarios.files.scenario_file import load
from tests.commands import answer, done, refused
from tests.optimizers.claimed_jobs import claimed_job, every_plan
from tests.optimizers.judged_jobs import asked, hosts_of, spread
from tests.scenarios.questions.jobs import queue
from tests.twin import worlds
from tests.twin.worlds import dealt, sink, source
from twin.errors import BadInput
from twin.metrics import Estimates
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate

TWO = [{"name": name, "cpu_percent": 200, "ram_mb": 16_000, "bandwidth_mbps": 10_000, "latency_ms": 1} for name in "ab"]


def deployment(*parts):
    """Scenario of the parts with the usual run."""
    return Scenario(name="job", **dict(worlds.deployment(*parts)))


def three(rate_per_s=3000.0, work=None, hosts=None, **more):
    """Job source -> work (a millisecond a record) -> sink, on two hosts of two cores."""
    return deployment(
        [source("src", **more), {"kind": "map", "name": "work", "service_time_s": 1e-3}, sink("out")],
        [("src", "work"), ("work", "out")],
        {"src": rate_per_s},
        hosts or TWO,
        {"src": "a", "work": work or {"a": 2, "b": 2}, "out": "b"},
    )


def parallelism(solution):
    return {name: len(places) for name, places in solution.plan.placement.items()}


def test_pinned_subtasks_stay_each_where_it_is():
    gateways = {"a": 3, "b": 1}
    job = deployment(
        [source("sensors"), {"kind": "filter", "name": "clean", "selectivity": 0.5}, sink("board")],
        [("sensors", "clean"), ("clean", "board")],
        {"sensors": 100.0},
        [*TWO, TWO[0] | {"name": "cloud", "cpu_percent": 800}],
        {"sensors": gateways, "clean": {"cloud": 2}, "board": "cloud"},
    )
    for goal in ("objective", "rate", "hosts"):
        space = Space(pinned=frozenset({"sensors"}), free_subtasks=goal == "hosts")
        found = Milp(goal=goal).solve(asked(job, space=space))
        assert found.plan.placement["sensors"] == job.plan.placement["sensors"]
    assert hosts_of(found.plan) == {"a", "b"}
    assert "no fewer will do" in found.message


def test_of_overloaded_plans_the_one_that_lets_the_most_through():
    job = three(rate_per_s=20_000.0)
    found = Milp().solve(asked(job))
    assert found.status is Status.INFEASIBLE
    assert "overloaded" in found.message
    through, given = RateModel().predict(job, [found.plan, job.plan])["throughput_per_s"]
    assert through >= given


@pytest.mark.parametrize(("rate_per_s", "fewest"), [(1000.0, 1), (1500.0, 1), (1750.0, 2), (3000.0, 2), (3500.0, 3)])
def test_the_fewest_hosts_with_head_room(rate_per_s, fewest):
    """The fewest hosts with head room are found: one of two cores bears 1,666 records a second with a fifth to
    spare."""
    job = three(rate_per_s, work={"a": 1})
    found = Milp(goal="hosts").solve(asked(job))
    if fewest > len(TWO):
        assert found.status is Status.INFEASIBLE and "no plan was found that bears 1.2 times" in found.message
        return
    assert len(hosts_of(found.plan)) == fewest
    assert "no fewer will do" in found.message
    assert not simulate(at_rate(job, 1.2).with_plan(found.plan)).metrics.backpressured


def test_cheap_hosts_are_taken_before_few():
    large = TWO[0] | {"name": "large", "cpu_percent": 800}
    job = three(3000.0, work={"a": 1}, hosts=[*TWO, large])
    few = Milp(goal="hosts").solve(asked(job))
    assert hosts_of(few.plan) == {"large"}
    prices = {"a": 1.0, "b": 1.0, "large": 5.0}
    cheap = Milp(goal="hosts").solve(asked(job, requirements=Requirements(prices=prices)))
    assert hosts_of(cheap.plan) == {"a", "b"}
    assert "for 2; nothing is cheaper" in cheap.message


def test_the_highest_rate_is_confirmed():
    """The plan bears 4/3 of the offered rates (four subtasks of a millisecond on four cores), less what sending between
    hosts takes."""
    found = Milp(goal="rate").solve(asked(three()))
    factor = float(re.fullmatch("the plan bears (.*) times the offered rates", found.message)[1])
    assert 1.29 < factor < 4 / 3


@pytest.mark.parametrize(("seed", "horizon_s"), [(18, 60.0), (114, 26.0)])
def test_the_given_plan_is_kept_where_another_bears_the_same_rate_but_for_the_error_of_predictions(seed, horizon_s):
    """A given plan is kept against ones predicted to bear 0.1 and 2.6 % more, which bear 6 and 12 % less in runs."""
    job = claimed_job(seed).with_run(horizon_s=horizon_s)
    assert Milp(goal="rate").solve(asked(job, "throughput_per_s")).plan == job.plan


def test_numa_cluster_at_30_percent_of_its_cores_needs_one_machine():
    scenario = load("numa-cluster")
    found = PlacementCoefficients.of(scenario.deployment)
    capacity = float(found.places.capacity_l.sum() / found.operators.work.sum())
    space = Space(free_subtasks=True)
    job = at_rate(scenario, 0.3 * capacity)
    exactly = Milp(goal="hosts").solve(asked(job, space=space, requirements=Requirements(head_room=0.0)))
    assert len(hosts_of(exactly.plan)) == 1
    spare = Milp(goal="hosts").solve(asked(job, space=space))  # 0.3 * 1.2 is more than one of three
    assert len(hosts_of(spare.plan)) == 2
    assert "no fewer will do" in spare.message


def test_forward_streams_and_aggregates_without_keys_keep_their_numbers():
    window = {"policy": "time", "size_s": 1.0}
    job = deployment(
        [
            source("s", service_time_s=1e-3),
            {"kind": "map", "name": "m", "service_time_s": 1e-4},
            {"kind": "aggregate", "name": "all", "window": window, "function": "avg"},
            sink("k"),
        ],
        [("s", "m"), ("m", "all"), ("all", "k")],
        {"s": 3000.0},
        [TWO[0] | {"name": "h", "cpu_percent": 1600}],
        dict.fromkeys(("s", "m", "all", "k"), "h"),
    )
    found = Milp(goal="hosts").solve(asked(dealt(job, m="forward")))
    assert found.feasible
    assert parallelism(found)["s"] == parallelism(found)["m"] >= 4
    assert parallelism(found)["all"] == 1
    assert simulate(job.with_plan(found.plan)).metrics.success


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Space(most_moves=-1), "must be >= 0"),
        (lambda: Space(allowed={"work": ()}), "allowed on no host"),
        (lambda: Space(spread=True, costream_rules=True), "one host each"),
        (lambda: Milp().solve(asked(three(), space=Space(allowed={"work": ("c",)}))), "unknown host 'c'"),
    ],
)
def test_what_cannot_be_asked(make, says):
    with pytest.raises(BadInput, match=says):
        make()


def test_slow_cores_take_more_subtasks() -> None:
    """Work of one core gets three subtasks on hosts of half a core each."""
    small = [TWO[0] | {"name": name, "cpu_percent": 50} for name in "abcdef"]
    found = Milp(goal="hosts").solve(asked(three(1000.0, hosts=small, work="b")))
    assert found.feasible and parallelism(found)["work"] == 3


def with_prices(job: Scenario, prices: Sequence[float]) -> Scenario:
    hosts = [
        host.model_copy(update={"price_per_hour": price})
        for host, price in zip(job.cluster.hosts, prices, strict=False)
    ]
    return job.model_copy(update={"cluster": job.cluster.model_copy(update={"hosts": tuple(hosts)})})


def bought(job: Scenario, **more: object) -> Solution:
    space = Space(free_subtasks=False)
    return Planner(OPTIMIZERS["milp-hosts"]).solve(
        Problem(**{"scenario": job, "cost_model": RateModel(), "space": space} | more)  # type: ignore[arg-type]
    )


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), head_room=st.sampled_from([0.0, 0.2, 0.5]))
def test_nothing_is_cheaper_where_that_is_said(seed: int, head_room: float) -> None:
    job = at_rate(claimed_job(seed, on_sockets=False), 0.3)
    job = with_prices(job, random_stream(seed, "prices").uniform(0.5, 5.0, 3).round(2).tolist())
    plans = as_plans(job, every_plan(job)[:1500])
    ahead = RateModel().lasting().predict(at_rate(job, 1.0 + head_room), plans)
    bears = (ahead["backpressured"] < 0.5) & (ahead["success"] >= 0.5)
    prices = np.array([price_of(job, plan, {}) for plan in plans])
    found = bought(job, requirements=Requirements(head_room=head_room))
    if not bears.any():
        assert "no plan was found" in found.message or price_of(job, found.plan, {}) > 0
        return
    price = price_of(job, found.plan, {})
    assert f"for {price:g}" in found.message
    assert price <= prices[bears].min() * (1 + 1e-6) or "nothing is cheaper" not in found.message
    here = RateModel().lasting().predict(at_rate(job, 1.0 + head_room), [found.plan])
    assert here["backpressured"][0] < 0.5


def test_prices_of_the_file_count_and_those_of_options_come_first() -> None:
    job = with_prices(spread(), (4.0, 1.0))
    assert prices_h(job, {}).tolist() == [4.0, 1.0] and prices_h(job, {"a": 2.0}).tolist() == [2.0, 1.0]
    assert prices_h(spread(), {}).tolist() == [1.0, 1.0]
    with pytest.raises(BadInput, match="unknown host 'c' has a price"):
        prices_h(job, {"c": 1.0})
    light = at_rate(job, 0.3)  # either host bears it alone
    assert hosts_of(bought(light).plan) == {"b"}
    cheap = bought(light, requirements=Requirements(prices={"a": 0.1})).plan
    assert hosts_of(cheap) == {"a"}


def test_hosts_that_cost_as_much_are_no_reason_to_move() -> None:
    light = at_rate(with_prices(spread(), (1.0, 1.0)), 0.3)  # either host bears it alone
    for host in ("a", "b"):
        plan = {name: (host,) * light.plan.parallelism(name) for name in light.plan.placement}
        given = light.with_plan(light.plan.with_placement(plan))
        found = bought(given)
        assert found.plan == given.plan and "bears 1.2 times" in found.message
    dearer = with_prices(light, (4.0, 1.0)).with_plan(light.plan)
    assert bought(dearer).plan != light.plan


class OnlyOn:
    """Simulator by which plans on just these hosts are the most likely to keep up."""

    name, replications = "only", 1

    def __init__(self, *hosts: str, backpressured: tuple[float, float] = (0.0, 1.0)) -> None:
        """Simulator for these hosts. backpressured: the share of runs on these hosts, and of others."""
        self.hosts, self.backpressured = set(hosts), backpressured

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        found = RateModel().predict(scenario, plans)
        shares = np.array([self.backpressured[hosts_of(plan) != self.hosts] for plan in plans])
        columns = {name: found[name] for name in ("throughput_per_s", "processing_latency_s", "e2e_latency_s")}
        return Estimates(columns | {"backpressured": shares, "success": np.ones(len(plans))}, found.spread)

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        del scenario
        return ()


def test_the_command_buys_the_cheapest_and_tells_both_prices(tmp_path: Path) -> None:
    path = tmp_path / "light.yaml"
    path.write_text(scenario_file.dump(at_rate(with_prices(spread(), (4.0, 1.0)), 0.3)), encoding="utf-8")
    assert "price_per_hour: 4" in path.read_text()
    asked = ("optimize", path, "--objective", "price")
    document = answer(*asked)
    assert (document["price"], document["given_price"]) == (1.0, 5.0)
    assert (document["objective"], document["predicted"], document["at_most"]) == ("price", 1.0, {})
    limited = answer(*asked, "--at-most", "e2e_latency_s=900ms", "--head-room", "0.1")
    assert (limited["at_most"], limited["head_room"]) == ({"e2e_latency_s": 0.9}, 0.1)
    assert "goal of milp-hosts" in refused(*asked, "--optimizer", "rlas")


def test_the_command_says_what_hosts_save_and_bear_and_what_keeps_them() -> None:
    """Two of twelve partitions are 240 clicks a second, of 2.5 ms each, whatever six to eleven subtasks run on; and on
    a single host the CPU is nearly full as well."""
    said = " ".join(done("optimize", "clicks", "--objective", "price").split())  # without breaks of lines
    assert "hosts: worker-1 for 0.4, instead of worker-1, worker-2, worker-3 for 1.2; 0.8 (67%) is saved" in said
    bears = float(said.partition("it bears ")[2].partition(" times")[0])
    assert 0.9 / (240 * 2.5e-3) < bears < 1 / (240 * 2.5e-3)
    assert "what binds then: CPU of worker-1 (98%) and operator topic + parse on worker-1 (100% busy)" in said
    hosts = answer("optimize", "edge-filter", "--objective", "price")["hosts"]
    assert hosts["chosen"] == hosts["given"] == ["edge-1", "cloud-1"]
    assert hosts["pinned"] == ["sensors", "dashboard"]


def test_a_job_that_costs_nothing_bears_all(tmp_path: Path) -> None:
    path = tmp_path / "free.yaml"
    path.write_text(scenario_file.dump(queue(service_s=0.0)))
    hosts = answer("optimize", path, "--head-room", "0.2", "--budget", 5)["hosts"]
    assert (hosts["bears"], hosts["binds"]) == (None, "")
    assert answer("optimize", "edge-filter")["hosts"] is None


def of_two_maps() -> Scenario:
    """Job of two maps on hosts of which the dearest alone keeps latencies short without further subtasks."""
    maps = [{"kind": "map", "name": name, "service_time_s": each} for name, each in (("m", 1.5e-3), ("n", 0.9e-3))]
    operators = [source("s", service_time_s=1e-5), *maps, sink("k", service_time_s=1e-5)]
    sizes = (("a", 100, 1.0), ("b", 100, 1.0), ("c", 200, 2.2), ("d", 400, 3.9))
    host = {"ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 2}
    hosts = [host | {"name": name, "cpu_percent": cpu, "price_per_hour": price} for name, cpu, price in sizes]
    streams = [("s", "m"), ("m", "n"), ("n", "k")]
    job = worlds.deployment(operators, streams, {"s": 500.0}, hosts, dict.fromkeys(("s", "m", "n", "k"), "d"))
    return Scenario.of(job, RunSettings(horizon_s=60, warmup_s=10, period_s=10, seed=3))


@pytest.mark.parametrize("free", [False, True])
def test_hosts_within_a_limit_are_the_cheapest_of_all_plans_that_keep_it(free: bool) -> None:
    """Hosts are the cheapest of all plans within the limit; if there are none, the given plan is not nearer to it."""
    job = of_two_maps()
    names = [host.name for host in job.cluster.hosts]
    places = [(name,) for name in names]
    places_of_map = [*places, *(combinations_with_replacement(names, 2) if free else ())]
    plans = [
        ExecutionPlan(placement=dict(zip("smnk", each, strict=True)))
        for each in product(places, places_of_map, places_of_map, places)
    ]
    ahead = RateModel().lasting().predict(at_rate(job, 1.2), plans)
    bears = (ahead["backpressured"] < 0.5) & (ahead["success"] >= 0.5)
    latency_s = RateModel().predict(job, plans)["e2e_latency_s"]
    prices = np.array([price_of(job, plan, {}) for plan in plans])
    given_s = RateModel().predict(job, [job.plan])["e2e_latency_s"][0]
    for limit_s in (0.004, 0.006, 0.010, 0.015, 1e-4):
        kept = bears & (latency_s <= limit_s)
        required = Requirements(at_most={"e2e_latency_s": limit_s})
        found = bought(job, space=Space(free_subtasks=free), requirements=required)
        reached_s = RateModel().predict(job, [found.plan])["e2e_latency_s"][0]
        if kept.any():
            assert found.feasible and reached_s <= limit_s
            assert price_of(job, found.plan, {}) <= prices[kept].min() * (1 + 1e-6)
        else:
            assert free or not found.feasible
            assert found.feasible or ("no plan was found" in found.message and reached_s <= given_s)


def test_a_program_for_any_objective_finds_the_price_of_the_one_for_hosts() -> None:
    job, required = of_two_maps(), Requirements(head_room=0.1)
    problem = Problem(
        scenario=job, cost_model=RateModel(), objective="price", space=Space(free_subtasks=False), requirements=required
    )
    prices = [price_of(job, Planner(OPTIMIZERS[name]).solve(problem).plan, {}) for name in ("milp", "milp-hosts")]
    assert prices[0] == prices[1] < price_of(job, job.plan, {})


@pytest.mark.parametrize("name", ["milp", "milp-rate", "milp-costream"])
def test_programs_that_keep_numbers_of_subtasks_say_so_where_they_are_free(name: str) -> None:
    problem = Problem(scenario=of_two_maps(), cost_model=RateModel(), space=Space(free_subtasks=True))
    with pytest.raises(BadInput, match=f"{name} keeps numbers of subtasks; use rlas or milp-hosts"):
        Planner(OPTIMIZERS[name]).solve(problem)


def test_calls_to_outside_are_counted_among_what_needs_subtasks() -> None:
    """Calls need subtasks, too: ten places of 20 ms are 500 calls a second, so 1.2 times 1,900 a second need five."""
    call = {"kind": "async", "name": "m", "service_time_s": 1e-5, "latency_s": 0.02, "capacity": 10}
    operators = [source("s", service_time_s=1e-5), call, sink("k", service_time_s=1e-5)]
    host = {"name": "h", "cpu_percent": 800, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}
    job = worlds.deployment(operators, [("s", "m"), ("m", "k")], {"s": 1900.0}, [host], dict.fromkeys("smk", "h"))
    scenario = Scenario.of(job, RunSettings(horizon_s=60, warmup_s=10, period_s=10, seed=3))
    found = bought(scenario, space=Space())
    assert found.feasible and "1 host (h) bears" in found.message and found.plan.parallelism("m") >= 5
