"""Why a plan is not in a space: the first operator that breaks a limit, and the limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from optimizers.rules import bin_ranges
from optimizers.space import Space
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.plan import ExecutionPlan

BINS = ("weak", "middle", "strong")
"""Names of the classes of hosts of Costream's rules (`optimizers.rules`)."""


def why_not(space: Space, deployment: Deployment, plan: ExecutionPlan) -> str:
    """Operator and limit for which a plan is not in the space, in words; empty if it is, or if the reason is none of
    those that have words."""
    if space.includes(deployment, plan):
        return ""
    return next(_reasons(space, deployment, plan), "")


def _reasons(space: Space, deployment: Deployment, plan: ExecutionPlan) -> Iterator[str]:
    for operator in deployment.query.topological:
        name, given = operator.name, deployment.plan
        places, before = ([str(place) for place in each.locations(name)] for each in (plan, given))
        if (operator.pinned or name in space.pinned) and sorted(places) != sorted(before):
            yield f"{name} is on {_listed(places)}, and pinned to {_listed(before)}"
            continue
        if outside := [host for host in plan.hosts(name) if host not in space.allowed.get(name, (host,))]:
            yield f"{name} is on {outside[0]}, and allowed on {', '.join(space.allowed[name])} only"
        if len(places) != len(before) and space.free_subtasks is False:
            yield f"{name} has {len(places)} subtasks, and their number stays {len(before)}"
        if len({*places}) > 1 and not space.spreads(deployment):
            yield f"{name} is on {_listed(places)}, and all of its subtasks are to be together"
    try:
        deployment.with_plan(plan)
    except BadInput as refusal:  # routes, shared queues, sockets: it names the operator or the stream
        yield str(refusal)
        return
    moved = [name for name in plan.placement if plan.locations(name) != deployment.plan.locations(name)]
    if space.most_moves is not None and len(moved) > space.most_moves:
        yield f"{', '.join(moved)} move, and at most {space.most_moves} may"
    if space.costream_rules:
        yield from _against_rules(deployment, plan)
    if space.free_subtasks and space.has_slots(deployment) and replace(space, slots=False).includes(deployment, plan):
        yield "its subtasks are not spread evenly over slots"


def _against_rules(deployment: Deployment, plan: ExecutionPlan) -> Iterator[str]:
    """Streams that break a rule of Costream: data reach a weaker class of hosts, or return to a host."""
    query, bins = deployment.query, bin_ranges(deployment.cluster)
    host = {each.name: plan.hosts(each.name)[0] for each in query.topological}
    floor: dict[str, str] = {}
    left: dict[str, set[str]] = {}
    for operator in query.topological:
        name, here = operator.name, host[operator.name]
        floor[name], left[name] = here, set()
        for stream in query.inputs(name):
            above = stream.producer
            strongest = floor[above]
            if bins[here].highest < bins[strongest].lowest:
                yield (
                    f"{name} is on {here} ({BINS[bins[here].highest]}), and its data come from {strongest} "
                    f"({BINS[bins[strongest].lowest]}): by Costream's rules they never flow to a weaker class of hosts"
                )
            if here != host[above] and here in left[above]:
                yield f"{name} is on {here}, which its data have left before: by Costream's rules they never return"
            left[name] |= left[above] | {host[above]}
            if bins[strongest].lowest > bins[floor[name]].lowest:
                floor[name] = strongest


def _listed(places: list[str]) -> str:
    return ", ".join(dict.fromkeys(places))
