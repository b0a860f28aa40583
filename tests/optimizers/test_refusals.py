"""What is refused has a reason with an operator and a limit, and the reason is true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from optimizers.plugins import why_not
from optimizers.space import Space, SpacePlans, as_plans, nothing_found
from scenarios.files.scenario_file import load
from tests.commands import answer, refused, twin
from twin.randomness import random_stream

SPACES = {
    "pinned": Space(pinned=frozenset({"parse"})),
    "allowed": Space(allowed={"parse": ("fog-1", "fog-2"), "compare": ("cloud-1",)}),
    "moves": Space(most_moves=2),
    "rules": Space(costream_rules=True),
    "rules and moves": Space(costream_rules=True, most_moves=4),
    "all": Space(),
}
WORDS = {"pinned": "pinned to", "allowed": "allowed on", "moves": "at most 2 may", "rules": "Costream's rules"}


@pytest.mark.parametrize("name", SPACES)
def test_a_plan_has_a_reason_exactly_if_it_is_not_in_the_space(name):
    job, space = load("smart-grid").deployment, SPACES[name]
    fixed = replace(space, free_subtasks=False)
    drawn = SpacePlans(job, Space(free_subtasks=False)).sample(random_stream(0, "plans"), 200)
    inside = SpacePlans(job, fixed).sample(random_stream(0, "plans"), 50)
    plans = as_plans(job, np.concatenate([drawn, inside]))
    reasons = [why_not(fixed, job, plan) for plan in plans]
    assert [not reason for reason in reasons] == [fixed.includes(job, plan) for plan in plans]
    assert not any(reasons[-len(inside) :])
    given = [reason for reason in reasons if reason]
    assert bool(given) == (name != "all")
    operators = {each.name for each in job.query.operators}
    assert all(any(word.strip(",") in operators for word in reason.split()) for reason in given)
    assert name not in WORDS or all(WORDS[name] in reason for reason in given)


def test_a_plan_without_a_route_names_the_stream_and_the_hosts():
    job = load("gateways").deployment
    links = job.cluster.links[:-1]
    cut = job.cluster.model_copy(update={"links": links})
    lonely = {name for link in job.cluster.links for name in link.between} - {n for ln in links for n in ln.between}
    assert lonely
    free = job.query.operators[1].name
    hosts = {name: tuple(job.plan.placement[name]) for name in job.plan.placement}
    together = {name: ("gate-1",) * len(places) for name, places in hosts.items()}
    base = type(job)(**{**dict(job), "cluster": cut, "plan": job.plan.with_placement(together)})
    away = base.plan.with_placement({**together, free: (sorted(lonely)[0],) * len(hosts[free])})
    reason = why_not(Space(free_subtasks=False, spread=True), base, away)
    assert "no route from host" in reason and free in reason


@pytest.mark.parametrize(
    "space",
    [
        Space(allowed={"parse": ("fog-1",)}, most_moves=0),
        Space(allowed={"parse": ("cloud-1",), "load-readings": ("edge-1",)}, costream_rules=True),
        Space(allowed={"parse": ("fog-1",)}, most_moves=0, costream_rules=True),
    ],
)
def test_each_limit_that_is_said_to_be_in_the_way_is(space):
    job = load("smart-grid").deployment
    fixed = replace(space, free_subtasks=False)
    words = str(nothing_found(job, fixed))
    for name, hosts in space.allowed.items():
        others = {each: on for each, on in space.allowed.items() if each != name}
        said = f"without limiting {name} to {', '.join(hosts)}" in words
        assert said == has_plans(job, replace(fixed, allowed=others))
    if space.most_moves is not None:
        assert ("operators moved" in words.partition(";")[2]) == has_plans(job, replace(fixed, most_moves=None))
    if space.costream_rules:
        assert ("Costream" in words.partition(";")[2]) == has_plans(job, replace(fixed, costream_rules=False))


def has_plans(job, space):
    plans = SpacePlans(job, space)
    return len(plans.draws(random_stream(1, "any"), 5000)) > 0


@pytest.mark.parametrize("optimizer", ["local-search", "exhaustive", "milp"])
def test_an_empty_space_is_one_line_with_the_limits(optimizer):
    line = refused("optimize", "smart-grid", "--optimizer", optimizer, "--allow", "parse=fog-1", "--most-moves", 0)
    assert "there are plans without limiting parse to fog-1, or without the limit of 0 operators moved" in line


def test_an_optimizer_that_leaves_the_space_is_told_where():
    line = refused("optimize", "smart-grid", "--optimizer", "governor", "--allow", "parse=edge-3")
    assert "cannot keep to the space: in its plan, parse is on " in line and "and allowed on edge-3 only" in line


def test_a_plan_without_memory_names_the_host_and_who_is_there():
    job = load("smart-grid")
    small = [f"--set=cluster.hosts.{host.name}.ram_mb=300" for host in job.cluster.hosts]
    found = twin("optimize", "smart-grid", "--quiet", "--estimates", 50, *small)
    told = " ".join(found.stdout.split())
    assert "does not keep up" in told and "what binds, by rates: " in told
    assert "memory of cloud-1 (" in told and "cloud-1 runs operator-room" in told
    document = answer("optimize", "smart-grid", "--estimates", 50, *small)
    assert " ".join(document["refusal"].split()) in told and not document["keeps_up"]
    assert answer("optimize", "smart-grid", "--estimates", 50)["refusal"] == ""
    few = ["--optimizers", "as-given,local-search", "--replications", 2, "--references", 2, "--estimates", 50]
    judged = twin("validate", "smart-grid", "--quiet", *few, *small)
    assert judged.returncode == 0 and "invalid value" not in judged.stderr
    run = answer("run", "smart-grid", "--horizon", 20, *small)
    assert any("out of memory" in each and "held the most" in each for each in run["warnings"])
