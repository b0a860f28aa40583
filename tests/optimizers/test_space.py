"""Plans that may be chosen, kept to by every optimizer; plans that differ only in equal hosts count as one."""

from __future__ import annotations

import itertools
from functools import cache
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.interface import Status
from optimizers.objectives import Requirements, at_rate
from optimizers.planner import Planner
from optimizers.policies import POLICIES
from optimizers.registry import OPTIMIZERS
from optimizers.rules import copies, distinct
from optimizers.selection import estimate
from optimizers.space import ALL_PLANS, Space, SpacePlans, as_plans, counts_of
from tests.optimizers.judged_jobs import (
    asked,
    brute_force,
    first_host_too_small,
    hosts_of,
    ruled_out,
    small_job,
    spread,
)
from tests.optimizers.test_brute_force import SPACES
from twin.cluster import Cluster, Link
from twin.errors import BadInput
from twin.events import Failure, Migration, SlowDown
from twin.plan import ExecutionPlan
from twin.randomness import random_stream
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.workload import Poisson

SEARCHING = ("local-search", "exhaustive", "milp", "rlas")


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), space=st.sampled_from(SPACES))
def test_what_is_listed_is_all_that_the_space_holds(seed, space):
    job = small_job(seed)
    everything = brute_force(job)
    held = {each.tobytes() for each in everything[space.holds(job, everything)]}
    plans = SpacePlans(job, space)
    listed = {each.tobytes() for each in plans.all()}
    assert listed == held
    assert plans.exact and plans.count == len(listed)
    if held:
        drawn = plans.sample(random_stream(seed, "drawn"), 4)
        assert len(drawn) == min(4, len(held))
        assert {each.tobytes() for each in drawn} <= held


@pytest.mark.parametrize("name", SEARCHING)
def test_a_plan_that_keeps_up_is_never_given_up_for_one_that_does_not(name):
    job = spread()
    found = Planner(OPTIMIZERS[name]).solve(asked(job))
    assert found.feasible and found.status is not Status.INFEASIBLE
    assert found.given is not None and found.given.plan == job.plan
    run = simulate(job.with_plan(found.plan).with_run(horizon_s=60)).metrics
    assert not run.backpressured and run.value("processing_latency_s") < 0.3


def test_the_best_plan_is_the_best_of_those_that_keep_what_is_fused():
    job, names = spread(), ("src", "work", "out")
    plan = ExecutionPlan(placement=dict.fromkeys(names, ("b",)), fused=(("work", "out"),))
    slower = job.deployment.workload.model_copy(update={"arrivals": {"src": Poisson(rate_per_s=300.0)}})
    job = Scenario.of(job.deployment.model_copy(update={"workload": slower, "plan": plan}), job.run)
    found = Planner(OPTIMIZERS["exhaustive"]).solve(asked(job))
    plans = [
        plan.with_placement({name: (host,) for name, host in zip(names, hosts, strict=True)})
        for hosts in itertools.product("ab", repeat=3)
    ]
    assert found.status is Status.OPTIMAL
    assert found.objective == pytest.approx(estimate(asked(job), plans).objective.min())
    assert "what is fused stays so where it is together" in ALL_PLANS.words(job.deployment)
    assert "fused" not in ALL_PLANS.words(spread().deployment)


@pytest.mark.parametrize("named", [True, False])
def test_an_operator_keeps_its_subtasks_where_events_name_them(named):
    job = spread().with_set("workload.arrivals.src.rate_per_s", 500).with_set("engine.rescaling", "live")
    move = Migration(operator="work", subtask=3, to="a", at_s=10)
    job = job.with_events(move if named else SlowDown(host="a", factor=2, at_s=10))
    found = Planner(OPTIMIZERS["milp-hosts"]).solve(asked(job, "price"))
    job.with_plan(found.plan)  # it is a plan that runs
    assert (found.plan.parallelism("work") == 4) == named  # one has room for all
    space, fewer = (
        Space(free_subtasks=True, slots=False),
        job.plan.with_placement({**job.plan.placement, "work": ("a",)}),
    )
    assert space.includes(job, fewer) != named
    assert ("those of work as given, since events name them" in space.words(job)) == named


@pytest.mark.parametrize("name", ["local-search", "exhaustive", "milp"])
def test_the_rules_are_costreams_and_not_everybodys(name):
    job = ruled_out()
    assert Planner(OPTIMIZERS[name]).solve(asked(job)).feasible
    ruled = OPTIMIZERS[name].solve(asked(job, space=Space(costream_rules=True)))
    assert not ruled.feasible  # all plans that keep up break the rules
    assert not Space(costream_rules=True).includes(job, job.plan)


@pytest.mark.parametrize("name", ["rlas", "local-search", "exhaustive", "milp"])
def test_nothing_is_called_the_best_where_nothing_arrives(name):
    found = Planner(OPTIMIZERS[name]).solve(asked(first_host_too_small(), "throughput_per_s"))
    assert found.objective == pytest.approx(20_000.0, rel=0.03)
    assert hosts_of(found.plan) == {"g"}


def test_what_no_plan_fulfils_is_said():
    job = ruled_out()
    with pytest.raises(BadInput, match="unknown operator 'x'"):
        Planner(OPTIMIZERS["local-search"]).solve(asked(job, space=Space(pinned=frozenset({"x"}))))
    name, home = next((each.name, job.plan.placement[each.name][0]) for each in job.query.operators)
    other = next(host.name for host in job.cluster.hosts if host.name != home)
    with pytest.raises(BadInput, match=f"'{name}' is pinned to '{home}', and allowed on {other} only"):
        Space(pinned=frozenset({name}), allowed={name: (other,)}).check(job)
    with pytest.raises(BadInput, match="any number of subtasks"):
        OPTIMIZERS["exhaustive"].solve(asked(job, space=Space(free_subtasks=True)))


def test_a_given_plan_outside_of_the_space_is_no_candidate():
    job = ruled_out()
    found = Planner(OPTIMIZERS["milp"]).solve(asked(job, space=Space(allowed={"k": ("strong",)})))
    assert found.plan.placement["k"] == ("strong",)
    assert "not one of those that may be chosen" in found.message
    assert isinstance(found.plan, ExecutionPlan) and np.isfinite(found.objective)
    assert counts_of(job, found.plan).sum() == 2


def test_a_search_on_sockets_leaves_room():
    job = first_host_too_small().with_plan(ExecutionPlan(placement={"s": "g", "m": "g", "k": "g"}))
    tight = at_rate(job, 20.0)
    for head_room in (0.0, 0.5):
        required = Requirements(head_room=head_room)
        found = Planner(OPTIMIZERS["rlas"]).solve(asked(tight, "throughput_per_s", requirements=required))
        assert found.feasible
        ahead = RateModel().predict(at_rate(tight, 1.0 + head_room), [found.plan])
        assert ahead["backpressured"][0] < 0.5
    assert "no plan that keeps up was found that bears 101 times" in _unmet(job).message


def _unmet(job):
    return Planner(OPTIMIZERS["local-search"]).solve(asked(job, requirements=Requirements(head_room=100.0), budget=50))


@cache
def borne(seed):
    """A small job, and by which factor of its rates the best of all plans keeps up."""
    every = as_plans(job := small_job(seed), brute_force(job))
    bears = np.zeros(len(every))
    for factor in np.geomspace(1.0, 60.0, 80):
        bears[RateModel().lasting().predict(at_rate(job, factor), every)["backpressured"] < 0.5] = factor
    assert 1.0 < bears.max() < 50.0 and bears.min() < 0.8 * bears.max()
    return job, bears.max()


@pytest.mark.parametrize("name", ["local-search", "milp", "milp-rate", "milp-hosts", "branch-and-bound", "exhaustive"])
def test_where_no_plan_has_the_head_room_that_is_asked_the_one_with_the_most_is_given(name):
    """Where no plan has the head room asked for (twice what the best bears), the one with the most is given."""
    for seed in (5, 8, 12):
        job, most = borne(seed)
        required = Requirements(head_room=2.0 * most - 1.0)
        space = Space(free_subtasks=False)
        found = Planner(OPTIMIZERS[name]).solve(asked(job, requirements=required, space=space, budget=500))
        assert not found.feasible
        mine = RateModel().lasting().predict(at_rate(job, 0.9 * most), [found.plan])
        assert mine["backpressured"][0] < 0.5, seed


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"head_room": -0.1}, "head room must be >= 0"),
        ({"at_most": {"e2e": 1.0}}, "a limit of 'e2e', which no prediction knows"),
        ({"at_most": {"e2e_latency_s": 0.0}}, "above 0"),
        ({"prices": {"a": 0.0}}, "must be > 0"),
    ],
)
def test_what_cannot_be_required(wrong, says):
    with pytest.raises(BadInput, match=says):
        Requirements(**wrong)


EQUAL = ("h0", "h2", "h3")
"""Equal ones of four hosts; the other one is weaker."""


@pytest.fixture
def job(make_deployment) -> Scenario:
    made = make_deployment()
    strong, weak = made.cluster.hosts[3], made.cluster.hosts[0]
    names = ("h0", "h1", "h2", "h3")
    hosts = tuple((strong if name in EQUAL else weak).model_copy(update={"name": name}) for name in names)
    return made.model_copy(update={"cluster": Cluster(hosts=hosts)}).with_run(horizon_s=20.0)


def exchanged(plan: ExecutionPlan) -> list[ExecutionPlan]:
    """All plans that exchanging equal hosts makes of a plan."""
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
