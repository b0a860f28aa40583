"""Plans that differ only in which of equal hosts they use count as one, and what is simulated is no copy of another."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from optimizers.equal_hosts import copies, distinct
from optimizers.interface import Problem
from optimizers.planner import Planner
from optimizers.policies.registry import POLICIES
from optimizers.registry import OPTIMIZERS
from tests.optimizers.test_proving import Counting
from twin.cluster import Cluster, Link
from twin.events import Failure
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate

EQUAL = ("h0", "h2", "h3")
"""Of four hosts; the other one is weaker."""


@pytest.fixture
def job(make_deployment) -> Scenario:
    made = make_deployment()
    strong, weak = made.cluster.hosts[3], made.cluster.hosts[0]
    names = ("h0", "h1", "h2", "h3")
    hosts = tuple((strong if name in EQUAL else weak).model_copy(update={"name": name}) for name in names)
    return made.model_copy(update={"cluster": Cluster(hosts=hosts)}).with_run(horizon_s=20.0)


def exchanged(plan: ExecutionPlan) -> list[ExecutionPlan]:
    """All that exchanging equal hosts makes of a plan."""
    images = [dict(zip(EQUAL, other, strict=True)) for other in permutations(EQUAL)]
    moved = [{name: tuple(to.get(p, p) for p in places) for name, places in plan.placement.items()} for to in images]
    return [plan.with_placement(placement) for placement in moved]


def test_classes_are_those_of_all_exchanges(job):
    ways = [[(h,) for h in ("h0", "h1", "h2", "h3")]] * 3 + [[("h0", "h2"), ("h2", "h0"), ("h2", "h3"), ("h0", "h1")]]
    names = ("a", "b", "f", "j")
    plans = [job.plan.with_placement({"s": ("h1",)} | dict(zip(names, each, strict=True))) for each in product(*ways)]
    found = distinct(job, plans)
    seen: set[str] = set()
    first = []
    for row, plan in enumerate(plans):
        if plan.model_dump_json() not in seen:
            first.append(row)
            seen |= {each.model_dump_json() for each in exchanged(plan)}
    assert found == first
    assert copies(job) == 6
    assert len(plans) <= copies(job) * len(found)


def test_exchanging_equal_hosts_changes_nothing_of_a_run(job):
    places = {"a": ("h0",), "b": ("h2",), "f": ("h0",), "j": ("h2", "h3"), "s": ("h1",)}
    runs = [simulate(job.with_plan(plan)) for plan in exchanged(job.plan.with_placement(places))]
    assert len({repr(run.metrics) for run in runs}) == 1


def test_hosts_that_links_events_or_a_policy_tell_apart_are_not_exchanged(job):
    pairs = [("h0", "h1"), ("h1", "h2"), ("h2", "h3")]
    links = tuple(Link(between=pair, bandwidth_mbps=100, latency_ms=1) for pair in pairs)
    linked = job.model_copy(update={"cluster": Cluster(hosts=job.cluster.hosts, links=links)})
    event = Failure(at_s=5.0, host="h2", recover_after_s=2.0)
    plans = exchanged(job.plan.with_placement({**job.plan.placement, "f": ("h2",)}))
    for other in (linked, job.with_events(event), job.with_policy(next(iter(POLICIES)))):
        assert copies(other) == 1
        assert distinct(other, plans) == list(range(len(plans)))


@pytest.mark.parametrize("name", ["milp", "exhaustive", "local-search", "branch-and-bound"])
def test_what_is_simulated_is_no_copy_and_no_more_than_asked_for(name, job, table_model):
    truth = Counting(table_model(0.0))
    problem = Problem(scenario=job, cost_model=RateModel(), budget=300)
    proved = Planner(OPTIMIZERS[name], keeps=False, truth=truth, count=5).solve(problem)
    assert distinct(job, truth.asked) == list(range(len(truth.asked)))
    assert proved.plan in truth.asked
    assert 1 <= len(truth.asked) <= 5
    if name != "branch-and-bound":  # that drops what is not near, and has few
        assert len(truth.asked) == 5
