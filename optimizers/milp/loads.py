"""What may be full: cores, network cards, links, credits, memory; all at most a utilisation that is a column itself.

One row an operator says that a replica has one core, not one row for each operator and socket: the sum over sockets
gives a far tighter relaxation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.milp.assignment import Assignment
from optimizers.milp.network import Ways
from optimizers.program import Program, Terms
from twin.rates.coefficients import PlacementCoefficients

MEMORY = 1.0 - 1e-6
"""Of what crashes a host; just below."""


@dataclass(frozen=True, slots=True)
class Loads:
    """Columns: used, the highest utilisation; cores [L], in use on a socket; cards [H], utilisation."""

    used: np.ndarray
    cores: np.ndarray
    cards: np.ndarray


def limit(program: Program, job: PlacementCoefficients, assignment: Assignment, ways: Ways, most: float) -> Loads:
    """Nothing is used to more than the column `used`, and that to at most `most`."""
    place = job.places
    used = program.variables((1,), upper=most)
    cores = program.variables((len(place.host_l),))
    cards = program.variables((len(place.bandwidth_h),))
    _cores(program, job, assignment, cores)
    program.rows((cores[:, None], 1.0), (np.broadcast_to(used, (len(cores), 1)), -place.capacity_l[:, None]), high=0.0)
    _one_core(program, job, assignment, used)
    _cards(program, job, assignment, cards)
    program.rows((cards[:, None], 1.0), (np.broadcast_to(used, (len(cards), 1)), -1.0), high=0.0)
    for k, terms in enumerate(ways.loads):
        program.row(*((columns, of / ways.bandwidth_k[k]) for columns, of in terms), (used, -1.0), high=0.0)
    for s, terms in enumerate(ways.latency):
        per_second = job.streams.credits_per_s[s]
        program.row(*((columns, of * per_second) for columns, of in terms), (used, -1.0), high=0.0)
    _memory(program, job, assignment)
    return Loads(used, cores, cards)


def _cores(program: Program, job: PlacementCoefficients, assignment: Assignment, cores: np.ndarray) -> None:
    """cores[l] = what runs there, and what leaves and arrives there."""
    sockets = np.ones(len(cores))
    terms: list[Terms] = [(assignment.place, job.operators.work[:, None])]
    for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        for columns, of in assignment.leaves(s, start, sockets * job.streams.send[s]):
            terms.append((columns[None], of))
        for columns, of in assignment.arrives(s, end, sockets * job.streams.receive[s]):
            terms.append((columns[None], of))
    program.rows(
        *((columns.T, np.broadcast_to(of, columns.shape).T) for columns, of in terms),
        (cores[:, None], -1.0),
        low=0.0,
        high=0.0,
    )


def _one_core(program: Program, job: PlacementCoefficients, assignment: Assignment, used: np.ndarray) -> None:
    each_l, each = 1.0 / job.places.core_l, job.operators
    for o in range(len(job.names)):
        share = each.skew[o] / each.replicas[o]
        terms: list[Terms] = [(assignment.place[o], each.work[o] * share * each_l), (used, -1.0)]
        for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
            if start == o and job.streams.send[s]:
                terms += assignment.leaves(s, o, job.streams.send[s] * share * each_l)
            if end == o and job.streams.receive[s]:
                terms += assignment.arrives(s, o, job.streams.receive[s] * share * each_l)
        program.row(*terms, high=0.0)


def _cards(program: Program, job: PlacementCoefficients, assignment: Assignment, cards: np.ndarray) -> None:
    start, sent_s = list(job.producer_s), job.streams.bytes_per_s
    for h, card in enumerate(cards):
        here = job.places.host_l == h
        share = np.repeat(sent_s / job.places.bandwidth_h[h], int(here.sum()))
        program.row(
            (assignment.place[start][:, here].ravel(), share),
            (assignment.stays_out[:, here].ravel(), -share),
            (np.array([card]), -1.0),
            low=0.0,
            high=0.0,
        )


def _memory(program: Program, job: PlacementCoefficients, assignment: Assignment) -> None:
    law = job.deployment.engine.memory
    for h, ram_mb in enumerate(job.places.ram_mb_h):
        room_mb = law.crash * MEMORY * float(ram_mb) - law.base_mb
        if room_mb >= job.operators.held_mb.sum():
            continue
        here = job.places.host_l == h
        held = np.repeat(job.operators.held_mb, int(here.sum()))
        program.row((assignment.place[:, here].ravel(), held), high=max(0.0, room_mb))
