"""Lower bound of the age of results once some operators have their sockets, and the placement that reaches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from optimizers.milp.ages import alone_s, card_factor, joins_in_windows, mean_of_results, side_shares
from optimizers.space import Space
from twin.kinds.flow import oldest_s
from twin.rates.coefficients import PlacementCoefficients

# the lower bound -----------------------------------------------------------------------------------------------------
# Relaxation that prunes a placement tree.
#
# Every operator counts as alone on its socket, and each consumer chooses anew where its producers are, unless they are
# placed: ages are then added up along the streams by dynamic programming, for many partial placements at once. The sum
# is never more than the rate model's estimate of any completion, wherever nothing is throttled. The choices, read
# backwards, complete each partial placement.


HUGE_S = 1e9
"""Age [s] where an operator may not be."""


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Relaxation of one job's placement, in seconds. alone_ol: service and wait, HUGE_S where an operator may not be.
    way_slm: delay of a stream's records from socket to socket by sending and the network; receive_slm: by receiving.
    leave_sl: the former, and receive_sm: the latter, where neither depends on the other end; None in a network of
    links."""

    job: PlacementCoefficients
    alone_ol: np.ndarray
    way_slm: np.ndarray
    receive_slm: np.ndarray
    leave_sl: np.ndarray | None
    receive_sm: np.ndarray

    @classmethod
    def of(cls, job: PlacementCoefficients, space: Space, *, end_to_end: bool) -> Self:
        """Relaxation of a job within a space. Raises BadInput if the space names what the job does not have."""
        allowed_ol = space.allows_ol(job.deployment)
        alone_ol = alone_s(job, np.zeros(len(job.names)), end_to_end=end_to_end)
        host_l = job.places.host_l
        far_lm = host_l[:, None] != host_l
        latency_lm = host_latency_s(job)[np.ix_(host_l, host_l)]
        way_slm, receive_slm = np.zeros((2, len(job.producer_s), len(host_l), len(host_l)))
        leave_sl, receive_sm = np.zeros((2, len(job.producer_s), len(host_l)))
        for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
            own_l = job.streams.bytes_per_s[s] / job.places.bandwidth_h[host_l]
            card_l = job.streams.record_bytes[s] / job.places.bandwidth_h[host_l] * card_factor(own_l)
            send_l = _longer(job, alone_ol, start, float(job.streams.send[s]), end_to_end)
            leave_sl[s] = job.places.latency_h[host_l] + send_l + card_l
            receive_sm[s] = _longer(job, alone_ol, end, float(job.streams.receive[s]), end_to_end)
            way_slm[s] = latency_lm + far_lm * (send_l + card_l)[:, None]
            receive_slm[s] = far_lm * receive_sm[s]
        leave = None if job.deployment.cluster.links else leave_sl
        return cls(job, np.where(allowed_ol, alone_ol, HUGE_S), way_slm, receive_slm, leave, receive_sm)

    def solve(self, place_no: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds [N], seconds, and completions [N, O] of partial placements, -1 where an operator has no socket."""
        ages = self._ages(place_no)
        sinks = [o for o in range(len(self.job.names)) if o not in self.job.producer_s]
        bound_n = mean_of_results(self.job, np.stack([ages[o].min(axis=1) for o in sinks], axis=1))
        return bound_n, self._completed(ages)

    def _ages(self, place_no: np.ndarray) -> list[np.ndarray]:
        """[N, L] for each operator: the least age of its results on each socket, seconds."""
        found: list[np.ndarray] = []
        for o, streams in enumerate(self.job.inputs):
            age_nl = np.where(self._elsewhere(place_no[:, o]), HUGE_S, self.alone_ol[o])
            if streams:
                age_nl = age_nl + self._arrived(o, streams, found)
            found.append(np.minimum(age_nl, HUGE_S))
        return found

    def _elsewhere(self, place_n: np.ndarray) -> np.ndarray:
        sockets = np.arange(self.alone_ol.shape[1])
        return np.asarray((place_n[:, None] >= 0) & (place_n[:, None] != sockets))

    def _arrived(self, o: int, streams: list[int], ages: list[np.ndarray]) -> np.ndarray:
        """[N, M] age that an operator's inputs, its window and receiving add up to, by the operator's socket,
        seconds."""
        sides, received = [], 0.0
        for s in streams:
            before_nl = ages[self.job.producer_s[s]]
            open_nl = np.where(before_nl < HUGE_S, 0.0, HUGE_S)
            if self.leave_sl is None:
                sides.append((before_nl[:, :, None] + self.way_slm[s]).min(axis=1))
                received = received + (open_nl[:, :, None] + self.receive_slm[s]).min(axis=1)
                continue
            afar_n, any_n = (
                (each + more).min(axis=1) for each, more in ((before_nl, self.leave_sl[s]), (open_nl, 0.0))
            )
            sides.append(np.minimum(self._near(before_nl), afar_n[:, None]))
            received = received + np.minimum(self._near(open_nl), any_n[:, None] + self.receive_sm[s])
        window_s = float(self.job.operators.window_s[o])
        if joins_in_windows(self.job, o):
            flat = [side.ravel() for side in sides]
            return np.asarray(oldest_s(flat, np.full(len(flat[0]), window_s)).reshape(sides[0].shape) + received)
        return np.asarray(np.tensordot(side_shares(self.job, o), np.stack(sides), axes=1) + window_s + received)

    def _near(self, each_nl: np.ndarray) -> np.ndarray:
        """[N, L] least value over the sockets of the same host."""
        host_l = self.job.places.host_l
        if len(host_l) == len(self.job.places.bandwidth_h):
            return each_nl
        firsts = np.flatnonzero(np.diff(host_l, prepend=-1))
        return np.asarray(np.minimum.reduceat(each_nl, firsts, axis=1)[:, host_l])

    def _completed(self, ages: list[np.ndarray]) -> np.ndarray:
        """[N, O] best socket of each operator, given those of its consumers, from the sinks up."""
        place_no = np.zeros((len(ages[0]), len(ages)), np.int64)
        for o in reversed(range(len(ages))):
            cost_nl = ages[o].copy()
            for s, (start, end) in enumerate(zip(self.job.producer_s, self.job.consumer_s, strict=True)):
                if start == o:
                    cost_nl += (self.way_slm[s] + self.receive_slm[s])[:, place_no[:, end]].T
            place_no[:, o] = cost_nl.argmin(axis=1)
        return place_no


def _longer(job: PlacementCoefficients, alone_ol: np.ndarray, o: int, more: float, end_to_end: bool) -> np.ndarray:
    """[L] seconds that (de)serialising a stream adds to the service and wait of one of its ends, by socket."""
    more_o = np.where(np.arange(len(job.names)) == o, more, 0.0)
    return np.maximum(alone_s(job, more_o, end_to_end=end_to_end)[o] - alone_ol[o], 0.0)


def host_latency_s(job: PlacementCoefficients) -> np.ndarray:
    """[H, H] network latency from host to host, seconds; 0 on the diagonal and where there is no route."""
    cluster = job.deployment.cluster
    hosts = [host.name for host in cluster.hosts]
    if not cluster.links:
        return job.places.latency_h[:, None] * (1.0 - np.eye(len(hosts)))
    link_s = {frozenset(link.between): link.latency_ms * 1e-3 for link in cluster.links}
    return np.array(
        [
            [
                sum(link_s[frozenset(ends)] for ends in cluster.routes.between(start, end))
                if start != end and cluster.routes.connected(start, end)
                else 0.0
                for end in hosts
            ]
            for start in hosts
        ]
    )
