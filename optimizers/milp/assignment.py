"""Columns of every placement program: which operator is on which socket, and which streams stay on their host.

place[o, l] is the share of operator o that is on socket l: 0 or 1 or, for an operator that may be spread, the share of
its replicas. z[s, l] is the share of a stream that stays on its host, at the socket of its producer (`stays_out`) and
of its consumer (`stays_in`); z is at most the share of either end, and staying is never dearer than leaving, so z needs
no integrality. That is O(streams x sockets) columns where McCormick's products or flows have one for each pair of
sockets. For operators on one host z is exact; of spread ones less stays in truth, the product of both shares.

Costream's rules (`optimizers.rules`) are exact and linear. Never weaker: floor[o, k] is 1 if the data of o have been
on a host whose weakest bin is at least k (k = 1, 2); it never falls along a stream, and forbids hosts whose strongest
bin is below k. No return: seen[o, h] is 1 if the data of o have been on h; a stream may go to a host that its data have
seen only if it is there already. Neither needs integrality: `place` pushes them up, and nothing else holds them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.counted import enough_memory
from optimizers.program import Program, Terms
from optimizers.rules import bin_ranges
from optimizers.space import Space, counts_of
from twin.rates.coefficients import PlacementCoefficients


@dataclass(frozen=True, slots=True)
class PlacementColumns:
    """Columns of a placement: place [O, L], stays_out and stays_in [S, L]. allowed_ol: where an operator may be."""

    place: np.ndarray
    stays_out: np.ndarray
    stays_in: np.ndarray
    allowed_ol: np.ndarray

    def shares_ol(self, values: np.ndarray) -> np.ndarray:
        """[O, L] share of every operator on every socket, in a solution."""
        return np.asarray(values[self.place])

    def leaves(self, s: int, producer: int, each_l: np.ndarray) -> list[Terms]:
        """Terms of a stream's share that leaves its host, by the sockets of its producer."""
        return [(self.place[producer], each_l), (self.stays_out[s], -each_l)]

    def arrives(self, s: int, consumer: int, each_l: np.ndarray) -> list[Terms]:
        """Terms of a stream's share that comes from another host, by the sockets of its consumer."""
        return [(self.place[consumer], each_l), (self.stays_in[s], -each_l)]


def assign(program: Program, job: PlacementCoefficients, space: Space, most: float) -> PlacementColumns:
    """Adds columns and rows that put every operator where the space allows it. most: utilisation of a core by one
    replica."""
    allowed_ol = space.allows_ol(job.deployment) & enough_memory(job)
    spread = space.spreads(job.deployment)
    if spread:
        allowed_ol &= _enough_core(job, most)
    pinned_o = space.pinned_o(job.deployment)
    whole_ol = np.broadcast_to(~pinned_o[:, None] & (not spread), allowed_ol.shape)
    place = program.variables(allowed_ol.shape, upper=allowed_ol, integer=whole_ol)
    program.rows((place, 1.0), low=1.0, high=1.0)
    if spread:
        _whole_replicas(program, job, place)
    stay(program, job, place, space)
    if space.most_moves is not None:
        _at_most_moves(program, job, place, space.most_moves)
    return _with_streams(program, job, place, allowed_ol)


def _with_streams(
    program: Program, job: PlacementCoefficients, place: np.ndarray, allowed_ol: np.ndarray
) -> PlacementColumns:
    host_l, streams, sockets = job.places.host_l, len(job.producer_s), place.shape[1]
    start, end = place[list(job.producer_s)], place[list(job.consumer_s)]
    out = program.variables((streams, sockets), upper=1.0)
    program.rows((out.reshape(-1, 1), 1.0), (start.reshape(-1, 1), -1.0), high=0.0)
    if len(set(host_l.tolist())) == sockets:
        program.rows((out.reshape(-1, 1), 1.0), (end.reshape(-1, 1), -1.0), high=0.0)
        return PlacementColumns(place, out, out, allowed_ol)
    into = program.variables((streams, sockets), upper=1.0)
    program.rows((into.reshape(-1, 1), 1.0), (end.reshape(-1, 1), -1.0), high=0.0)
    for h in range(int(host_l.max()) + 1):
        here = host_l == h
        program.rows((out[:, here], 1.0), (end[:, here], -1.0), high=0.0)
        program.rows((into[:, here], 1.0), (start[:, here], -1.0), high=0.0)
        program.rows((out[:, here], 1.0), (into[:, here], -1.0), low=0.0, high=0.0)
    return PlacementColumns(place, out, into, allowed_ol)


def _enough_core(job: PlacementCoefficients, most: float) -> np.ndarray:
    """[O, L] whether a socket has a core that is fast enough for a replica of an operator."""
    need_o = job.operators.work / job.operators.replicas * job.operators.skew
    return np.asarray(need_o[:, None] <= most * job.places.core_l)


def _whole_replicas(program: Program, job: PlacementCoefficients, place: np.ndarray) -> None:
    """Adds rows that make shares those of whole replicas; replicas that take from one queue are on one host."""
    replicas_o, host_l = job.operators.replicas, job.places.host_l
    count = program.variables(place.shape, upper=replicas_o[:, None], integer=True)
    program.rows(
        (place.reshape(-1, 1), np.repeat(replicas_o, place.shape[1])[:, None]),
        (count.reshape(-1, 1), -1.0),
        low=0.0,
        high=0.0,
    )
    for o in np.flatnonzero(job.operators.shared):
        here = program.variables((int(host_l.max()) + 1,), upper=1.0, integer=True)
        program.rows((here[None], 1.0), low=1.0, high=1.0)
        program.rows((place[o][:, None], 1.0), (here[host_l][:, None], -1.0), high=0.0)


def stay(program: Program, job: PlacementCoefficients, place: np.ndarray, space: Space) -> None:
    """Adds rows that keep pinned operators where the deployment's plan has them, on several sockets if need be."""
    pinned_o = space.pinned_o(job.deployment)
    if pinned_o.any():
        home_ol = counts_of(job.deployment, job.deployment.plan)[pinned_o]
        share = (home_ol / home_ol.sum(axis=1, keepdims=True)).ravel()
        program.rows((place[pinned_o].reshape(-1, 1), 1.0), low=share, high=share)


def _at_most_moves(program: Program, job: PlacementCoefficients, place: np.ndarray, most_moves: int) -> None:
    """Adds rows that let at most so many operators leave their place in the deployment's plan."""
    counts_ol = counts_of(job.deployment, job.deployment.plan)
    row, column = np.nonzero(counts_ol)
    moved = program.variables((len(counts_ol),), upper=1.0, integer=True)
    home = counts_ol[row, column] / counts_ol[row].sum(axis=1)
    program.rows((place[row, column][:, None], 1.0), (moved[row][:, None], 1.0), low=home)
    program.row((moved, 1.0), high=float(most_moves))


def exclude(program: Program, assignment: PlacementColumns, counts_ol: np.ndarray) -> None:
    """Adds a no-good cut against a placement that has each operator on one socket unless it is pinned."""
    one_o = (counts_ol > 0).sum(axis=1) == 1
    chosen = assignment.place[one_o][counts_ol[one_o] > 0]
    program.row((chosen, 1.0), high=len(chosen) - 1.0)


HIGHER = (1, 2)


def obey_costream(program: Program, job: PlacementCoefficients, assignment: PlacementColumns) -> None:
    """Adds both of Costream's rules; the sockets of a host count as one."""
    _never_weaker(program, job, assignment)
    _no_return(program, job, assignment)


def _never_weaker(program: Program, job: PlacementCoefficients, assignment: PlacementColumns) -> None:
    bins = list(bin_ranges(job.deployment.cluster).values())
    lowest_l, highest_l = np.array(bins)[job.places.host_l].T
    place = assignment.place
    for k in HIGHER:
        floor = program.variables((len(place),), upper=1.0)
        program.rows((place[:, lowest_l >= k], 1.0), (floor[:, None], -1.0), high=0.0)
        program.rows((place[:, highest_l < k], 1.0), (floor[:, None], 1.0), high=1.0)
        start, end = floor[list(job.producer_s)], floor[list(job.consumer_s)]
        program.rows((start[:, None], 1.0), (end[:, None], -1.0), high=0.0)


def _no_return(program: Program, job: PlacementCoefficients, assignment: PlacementColumns) -> None:
    host_l = job.places.host_l
    seen = program.variables((len(assignment.place), int(host_l.max()) + 1), upper=1.0)
    start, end = list(job.producer_s), list(job.consumer_s)
    for h in range(seen.shape[1]):
        here = assignment.place[:, host_l == h]
        program.rows((here, 1.0), (seen[:, h, None], -1.0), high=0.0)
        program.rows((seen[start, h, None], 1.0), (seen[end, h, None], -1.0), high=0.0)
        program.rows((here[end], 1.0), (seen[start, h, None], 1.0), (here[start], -1.0), high=1.0)
