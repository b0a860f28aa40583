"""Migrations: parts of an operator move between its subtasks, by one protocol and three strategies.

The disruptive strategy (redirect, drain, carry, go on) is for every operator with keys. Operators over event time have
two more: smooth, where old and new owner work side by side for a while, and instant, where the new owner begins at once
and a consolidate merges what the old one has left. Over event time a compute and its consolidate may be one component
(Enorm, Section 4.5), whose key groups then stay together. Enorm's `migrate`, which takes an operator from one component
to another, is a split or a combination here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from twin.change.fan import KeyFlow, flows_to
from twin.change.running_job import Process, RunningJob
from twin.change.strategies import Member, disruptive, disruptive_in_event_time, instant, reached, smooth
from twin.events import Strategy, combined_with, mobility, why_not
from twin.world.event_time import cut_after
from twin.world.ledger import EventRecord
from twin.world.python_logics import timed_logic


def is_together(job: RunningJob, name: str) -> bool:
    """Whether an operator is one component with another now."""
    both = [name, *_other(job, name)]
    logics = [timed_logic(task) for operator in both for task in job.world.tasks[operator]]
    return any(shipping.together for logic in logics if logic is not None for shipping in logic.shippings)


def component(job: RunningJob, name: str) -> str:
    """Name of the component of an operator: a consolidate goes by the name of its compute."""
    return next(iter(_other(job, name)), name) if job.world.query.operator(name).merges else name


def _other(job: RunningJob, name: str) -> list[str]:
    """Operator with which an operator is, or may be, one component; empty if there is none."""
    other = combined_with(job.world.query, name)
    return [] if other is None else [other]


def migrate(
    job: RunningJob, name: str, flows: Sequence[KeyFlow], strategy: Strategy | None, record: EventRecord
) -> Process:
    """Moves parts of an operator by a strategy; None: the cheapest possible one. Returns whether no failure undid
    it."""
    by_event = job.world.query.operator(name).needs_event_time
    if name not in job.world.event_times.heeding or (job.stopped and not by_event):
        return (yield from disruptive(job, name, flows, record))
    query, together = job.world.query, is_together(job, name)
    by_window = job.world.engine.lateness == "window" and not job.stopped
    obstacle = why_not(query, name, strategy, together, by_window)
    if obstacle:
        job.refuse(record, obstacle)
        return True
    if job.stopped:
        strategy = "disruptive"
    strategy = strategy or mobility(query, name, together).strategies[0]
    record.detail["strategy"] = strategy
    yield from job.availability.up()
    if not flows:
        return True
    if strategy == "instant":
        yield from instant(job, name, flows, record)
        return True
    names = [name, *_other(job, name)] if together else [name]
    return (yield from _by(strategy, job, [Member(job, operator) for operator in names], flows, record))


def _by(
    strategy: Strategy, job: RunningJob, members: Sequence[Member], flows: Sequence[KeyFlow], record: EventRecord
) -> Process:
    """Moves key groups of one component by a strategy. Returns whether no failure undid it."""
    if strategy == "disruptive":
        return (yield from disruptive_in_event_time(job, members, flows, record))
    yield from smooth(job, members, flows, record)
    return True


def split(job: RunningJob, name: str, owners: Sequence[int] | None, record: EventRecord) -> Process:
    """Makes a consolidate a component of its own; then its key groups may go to owners of its own, at once."""
    if not is_together(job, name):
        job.refuse(record, f"{name!r} is a component of its own already")
        return True
    _set_together(job, name, False)
    record.paused_s, record.bytes = 0.0, 0.0
    flows = [] if owners is None else flows_to_subtasks(job, name, dict(enumerate(owners)), record)
    if flows:
        yield from instant(job, name, flows, record)
    return True


def combine(job: RunningJob, name: str, strategy: Strategy, record: EventRecord) -> Process:
    """Brings a consolidate's key groups to the subtasks where its compute has them, and makes both one component.

    First it waits for the panes that are open, so that partial results are where their key group is.
    """
    if is_together(job, name):
        job.refuse(record, f"{name!r} is one component with its compute already")
        return True
    compute = _compute_of(job, name)
    if compute.seats != Member(job, name).seats:
        job.refuse(record, f"{name!r} and {compute.name!r} have other subtasks since they were scaled")
        return True
    at_us = cut_after(job.world)
    yield from reached(job, [(logic, at_us) for logic in compute.subtasks])
    flows = flows_to(Member(job, name).owners.keys, dict(enumerate(compute.owners.keys.owner)))
    record.paused_s, record.bytes = 0.0, 0.0
    record.detail["strategy"] = strategy
    done = not flows or (yield from _by(strategy, job, [Member(job, name)], flows, record))
    if done:
        _set_together(job, name, True)
    return done


def flows_to_subtasks(job: RunningJob, name: str, owners: Mapping[int, int], record: EventRecord) -> list[KeyFlow]:
    """Flows that bring key groups to subtasks, by number. Refuses if scaling has taken one of these subtasks away."""
    tasks, fan = job.world.tasks[name], job.fan(name)
    gone = [owner for owner in owners.values() if owner >= len(tasks)]
    if gone:
        job.refuse(record, f"it has no subtask {gone[0]}; it has {len(tasks)}, counted from 0")
        return []
    keys = job.world.key_groups[name]
    return flows_to(keys, {group: fan.index(tasks[owner]) for group, owner in owners.items()})


def _compute_of(job: RunningJob, name: str) -> Member:
    return Member(job, cast("str", combined_with(job.world.query, name)))


def _set_together(job: RunningJob, name: str, together: bool) -> None:
    for logic in _compute_of(job, name).subtasks:
        for shipping in logic.shippings:
            shipping.together = together
