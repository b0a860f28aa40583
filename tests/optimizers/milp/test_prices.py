"""The cheapest hosts that bear a job with head room: against every plan, from a file, and in simulation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.counted import as_plans
from optimizers.interface import Problem, Solution
from optimizers.planner import Planner
from optimizers.registry import OPTIMIZERS
from optimizers.requirements import Requirements, at_rate, price_of, prices_h
from optimizers.space import Space
from scenarios.files import scenario_file
from tests.commands import answer, refused
from tests.optimizers.claimed_jobs import claimed_job, every_plan
from tests.optimizers.judged_jobs import hosts_of, spread
from tests.twin.worlds import deployment, sink, source
from twin.errors import BadInput
from twin.metrics import Estimates
from twin.plan import ExecutionPlan
from twin.randomness import stream
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario


def with_prices(job: Scenario, prices: Sequence[float]) -> Scenario:
    hosts = [
        host.model_copy(update={"price_per_hour": price})
        for host, price in zip(job.cluster.hosts, prices, strict=False)
    ]
    return job.model_copy(update={"cluster": job.cluster.model_copy(update={"hosts": tuple(hosts)})})


def bought(job: Scenario, **more: object) -> Solution:
    space = Space(free_replicas=False)
    return Planner(OPTIMIZERS["milp-hosts"]).solve(
        Problem(**{"scenario": job, "cost_model": RateModel(), "space": space} | more)  # type: ignore[arg-type]
    )


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), head_room=st.sampled_from([0.0, 0.2, 0.5]))
def test_nothing_is_cheaper_where_that_is_said(seed: int, head_room: float) -> None:
    job = at_rate(claimed_job(seed, on_sockets=False), 0.3)
    job = with_prices(job, stream(seed, "prices").uniform(0.5, 5.0, 3).round(2).tolist())
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
        plan = {name: (host,) * light.plan.replicas(name) for name in light.plan.placement}
        given = light.with_plan(light.plan.with_placement(plan))
        found = bought(given)
        assert found.plan == given.plan and "bears 1.2 times" in found.message
    dearer = with_prices(light, (4.0, 1.0)).with_plan(light.plan)
    assert bought(dearer).plan != light.plan


class OnlyOn:
    """A simulator by which nothing runs but what is on just these hosts."""

    name, replications = "only", 1

    def __init__(self, *hosts: str) -> None:
        self.hosts = set(hosts)

    def predict(self, scenario: Scenario, plans: Sequence[ExecutionPlan]) -> Estimates:
        found = RateModel().predict(scenario, plans)
        runs = np.array([hosts_of(plan) == self.hosts for plan in plans])
        columns = {name: found[name] for name in ("throughput_per_s", "processing_latency_s", "e2e_latency_s")}
        return Estimates(columns | {"backpressured": 1.0 - runs, "success": np.ones(len(runs))}, found.spread)

    def blind_to(self, scenario: Scenario) -> tuple[str, ...]:
        del scenario
        return ()


def test_what_is_simulated_keeps_the_order_of_prices_and_not_of_latencies() -> None:
    """Host b is the cheaper one; whatever its latency, it is taken if it bears the job in simulation."""
    light = at_rate(with_prices(spread(), (4.0, 1.0)), 0.3)
    asked = Problem(scenario=light, cost_model=RateModel(), space=Space(free_replicas=False))
    for hosts, says in ((("b",), "bears 1.2 times"), (("a", "b"), "did not bear it in simulation")):
        found = Planner(OPTIMIZERS["milp-hosts"], truth=OnlyOn(*hosts), count=40).solve(asked)
        assert hosts_of(found.plan) == set(hosts)
        assert says in found.message and found.sane
    nowhere = Planner(OPTIMIZERS["milp-hosts"], truth=OnlyOn("x"), count=3).solve(asked)
    assert not nowhere.sane and "none of" in nowhere.message


def test_the_command_buys_the_cheapest_and_tells_both_prices(tmp_path: Path) -> None:
    path = tmp_path / "light.yaml"
    path.write_text(scenario_file.dump(at_rate(with_prices(spread(), (4.0, 1.0)), 0.3)), encoding="utf-8")
    assert "price_per_hour: 4" in path.read_text()
    asked = ("optimize", path, "--objective", "price")
    document = answer(*asked)
    assert (document["price"], document["given_price"]) == (1.0, 5.0)
    assert (document["objective"], document["predicted"], document["at_most"]) == ("price", 1.0, {})
    limited = answer(*asked, "--at-most", "e2e_latency_s=900ms")
    assert limited["at_most"] == {"e2e_latency_s": 0.9}
    assert "goal of milp-hosts" in refused(*asked, "--optimizer", "rlas")


def of_two_maps() -> Scenario:
    """Two maps on three hosts, of which the dearest alone keeps latencies short without further subtasks."""
    maps = [{"kind": "map", "name": name, "service_time_s": each} for name, each in (("m", 1.5e-3), ("n", 0.9e-3))]
    operators = [source("s", service_time_s=1e-5), *maps, sink("k", service_time_s=1e-5)]
    sizes = (("a", 100, 1.0), ("b", 100, 1.0), ("c", 200, 2.2), ("d", 400, 3.9))
    host = {"ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 2}
    hosts = [host | {"name": name, "cpu_percent": cpu, "price_per_hour": price} for name, cpu, price in sizes]
    streams = [("s", "m"), ("m", "n"), ("n", "k")]
    job = deployment(operators, streams, {"s": 500.0}, hosts, dict.fromkeys(("s", "m", "n", "k"), "d"))
    return Scenario.of(job, RunSettings(horizon_s=60, warmup_s=10, period_s=10, seed=3))


@pytest.mark.parametrize("free", [False, True])
def test_hosts_within_a_limit_are_the_cheapest_of_all_plans_that_keep_it(free: bool) -> None:
    """Against all plans, of up to two subtasks of each map; where none keeps it, the given plan is not nearer to it."""
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
        found = bought(job, space=Space(free_replicas=free), requirements=required)
        reached_s = RateModel().predict(job, [found.plan])["e2e_latency_s"][0]
        if kept.any():
            assert found.sane and reached_s <= limit_s
            assert price_of(job, found.plan, {}) <= prices[kept].min() * (1 + 1e-6)
        else:
            assert free or not found.sane
            assert found.sane or ("no plan was found" in found.message and reached_s <= given_s)


def test_a_program_for_any_objective_finds_the_price_of_the_one_for_hosts() -> None:
    job, required = of_two_maps(), Requirements(head_room=0.1)
    asked = Problem(
        scenario=job, cost_model=RateModel(), objective="price", space=Space(free_replicas=False), requirements=required
    )
    prices = [price_of(job, Planner(OPTIMIZERS[name]).solve(asked).plan, {}) for name in ("milp", "milp-hosts")]
    assert prices[0] == prices[1] < price_of(job, job.plan, {})


@pytest.mark.parametrize("name", ["milp", "milp-rate", "milp-costream"])
def test_programs_that_keep_numbers_of_replicas_say_so_where_they_are_free(name: str) -> None:
    asked = Problem(scenario=of_two_maps(), cost_model=RateModel(), space=Space(free_replicas=True))
    with pytest.raises(BadInput, match=f"{name} keeps numbers of replicas; use rlas or milp-hosts"):
        Planner(OPTIMIZERS[name]).solve(asked)


def test_calls_to_outside_are_counted_among_what_needs_subtasks() -> None:
    """Ten places of 20 ms are 500 calls a second, so 1.2 times 1,900 a second needs five subtasks at least."""
    call = {"kind": "async", "name": "m", "service_time_s": 1e-5, "latency_s": 0.02, "capacity": 10}
    operators = [source("s", service_time_s=1e-5), call, sink("k", service_time_s=1e-5)]
    host = {"name": "h", "cpu_percent": 800, "ram_mb": 8000, "bandwidth_mbps": 1000, "latency_ms": 1}
    job = deployment(operators, [("s", "m"), ("m", "k")], {"s": 1900.0}, [host], dict.fromkeys("smk", "h"))
    scenario = Scenario.of(job, RunSettings(horizon_s=60, warmup_s=10, period_s=10, seed=3))
    found = bought(scenario, space=Space())
    assert found.sane and "1 host (h) bears" in found.message and found.plan.replicas("m") >= 5
