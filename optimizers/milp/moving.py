"""Placements without a program: the lower bound that prunes trees of them, and quick moves for large jobs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from optimizers.interface import Deadline
from optimizers.milp.ages import alone_s, card_factor, joins_in_windows, mean_of_results, side_shares
from optimizers.space import Space, enough_memory
from twin.kinds.flow import oldest_s
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.queueing import RHO_MAX

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


# the estimate --------------------------------------------------------------------------------------------------------
# A quick estimate of a plan's cost, thousands a second, to begin where programs are too large.
#
# The estimate adds up ages as the programs do, with the waits that neighbours on a socket cause: a record takes longer
# on what these leave of a core, or by meeting them (processor sharing, for whose wait Sakasegawa's approximation of
# M/M/c stands, 1977). It is no bound, and decides nothing: the cost model estimates the plans that it finds.


TOO_FULL_S = 1e3
"""Cost [s] of a core, or of the share of a host's memory, that a plan takes too much."""
FULL = 0.95
"""Utilisation of a socket from which that counts: a plan is to keep up surely."""
LEAST = 1e-6
USUALLY = 0.45
"""Squared variation of gaps beyond the least one, up to that of a Poisson process: operators are seldom always busy."""


@dataclass(frozen=True, slots=True)
class Quick:
    """Quick estimate of one job's plans, one socket an operator. weight_o: seconds that results age for each second at
    an operator; way_slm: seconds that results age by a stream, from socket to socket; irregular_o: mean squared
    variation of gaps and services."""

    job: PlacementCoefficients
    allowed_ol: np.ndarray
    weight_o: np.ndarray
    way_slm: np.ndarray
    irregular_o: np.ndarray
    waits_o: np.ndarray

    @classmethod
    def of(cls, job: PlacementCoefficients, space: Space, *, end_to_end: bool) -> Self:
        """Estimate of a job within a space."""
        relaxed, weight_o = Relaxation.of(job, space, end_to_end=end_to_end), _weights(job)
        ends = weight_o[list(job.consumer_s)] * _shares(job)
        waits_o = np.array([bool(streams) or end_to_end for streams in job.inputs])
        return cls(
            job=job,
            allowed_ol=(relaxed.alone_ol < HUGE_S) & enough_memory(job),
            weight_o=weight_o,
            way_slm=(relaxed.way_slm + relaxed.receive_slm) * ends[:, None, None],
            irregular_o=(np.minimum(job.operators.gap_scv + USUALLY, 1.0) + job.operators.scv) / 2.0,
            waits_o=waits_o,
        )

    def cost(self, place_o: np.ndarray) -> float:
        """Estimate of a plan: seconds, but for what no placement changes, and what it takes too much."""
        operators = np.arange(len(place_o))
        load_l, square_l = self._loads(place_o)
        stays_o = self._stays(operators, place_o, load_l[place_o], square_l[place_o])
        ways = self.way_slm[np.arange(len(self.way_slm)), place_o[self._starts], place_o[self._ends]]
        over_s = (self._over(load_l, np.arange(len(load_l)))).sum() + self._memory(place_o)
        return float(self.weight_o @ stays_o + ways.sum() + over_s)

    def moves(self, place_o: np.ndarray) -> np.ndarray:
        """[O, L] change of the estimate if one operator goes to a socket; infinite where it may not be."""
        operators, sockets = np.arange(len(place_o)), np.arange(self.allowed_ol.shape[1])
        work_o, works_o, (load_l, square_l) = self.job.operators.work, self._squares, self._loads(place_o)
        here_s = self._stays(operators, place_o, load_l[place_o], square_l[place_o])
        own = load_l[None] + work_o[:, None], square_l[None] + works_o[:, None]
        change_ol = self.weight_o[:, None] * (self._stays(operators[:, None], sockets[None], *own) - here_s[:, None])
        at_p, works_p = load_l[place_o][:, None], square_l[place_o][:, None]
        for sign in (1.0, -1.0):  # neighbours p where an operator o comes, and where it leaves
            loads = np.maximum(at_p + sign * work_o, work_o[:, None]), works_p + sign * works_o
            felt_po = self._stays(operators[:, None], place_o[:, None], *loads) - here_s[:, None]
            felt_po *= self.weight_o[:, None]
            if sign > 0:
                change_ol += np.stack([np.bincount(place_o, each, len(sockets)) for each in felt_po.T])
            else:
                together_po = (place_o[:, None] == place_o) & (operators[:, None] != operators)
                change_ol += (felt_po * together_po).sum(axis=0)[:, None]
        over_l = self._over(load_l, sockets)
        change_ol += self._over(own[0], sockets) - over_l
        change_ol += (self._over(load_l[place_o] - work_o, place_o) - over_l[place_o])[:, None]
        change_ol += self._way_changes(place_o)
        change_ol[~self.allowed_ol] = np.inf
        change_ol[operators, place_o] = np.inf
        return change_ol

    @property
    def _starts(self) -> list[int]:
        return list(self.job.producer_s)

    @property
    def _ends(self) -> list[int]:
        return list(self.job.consumer_s)

    @property
    def _squares(self) -> np.ndarray:
        return np.asarray(self.job.operators.work**2 / self.job.operators.parallelism)

    def _loads(self, place_o: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """[L] cores in use on each socket, and sum of the squares of what each subtask there needs."""
        work_o, sockets = self.job.operators.work, self.allowed_ol.shape[1]
        return np.bincount(place_o, work_o, sockets), np.bincount(place_o, self._squares, sockets)

    def _over(self, load_l: np.ndarray, sockets: np.ndarray) -> np.ndarray:
        return TOO_FULL_S * np.maximum(load_l - FULL * self.job.places.capacity_l[sockets], 0.0)

    def _memory(self, place_o: np.ndarray) -> float:
        law, places = self.job.deployment.engine.memory, self.job.places
        held_h = np.bincount(places.host_l[place_o], self.job.operators.held_mb, len(places.ram_mb_h))
        over_h = np.where(held_h > 0.0, held_h + law.base_mb - law.crash * places.ram_mb_h, 0.0)
        return float(TOO_FULL_S * (np.maximum(over_h, 0.0) / places.ram_mb_h).sum())

    def _stays(self, o: np.ndarray, at: np.ndarray, load: np.ndarray, square: np.ndarray) -> np.ndarray:
        """Seconds that a record stays at operators on sockets of those loads, themselves included."""
        each, places = self.job.operators, self.job.places
        work, core, capacity = (each.work / each.parallelism)[o], places.core_l[at], places.capacity_l[at]
        service, irregular = each.service_s[o], self.irregular_o[o] * self.waits_o[o]
        alone = service / core
        own = np.minimum(work / core, RHO_MAX)
        apart = alone * (1.0 + own / (1.0 - own) * irregular)
        left = np.clip(capacity - (load - work), LEAST, core)
        rho = np.minimum(work / left, RHO_MAX)
        first = service / left * (1.0 + rho / (1.0 - rho) * irregular) - apart
        cores = np.maximum(capacity / core, 1.0)
        inverse = np.clip(square / np.maximum(load, LEAST) ** 2, 0.0, 1.0)  # one over the number of equal tasks
        disturb = np.clip((1.0 - cores * inverse) / np.maximum(1.0 - inverse, LEAST), 0.0, 1.0)
        longer = alone * disturb * (_shared(cores, load / core) - _shared(cores, work / core))
        return np.asarray(apart + np.maximum(np.maximum(first, longer), 0.0))

    def _way_changes(self, place_o: np.ndarray) -> np.ndarray:
        found = np.zeros_like(self.allowed_ol, float)
        for s, (start, end) in enumerate(zip(self._starts, self._ends, strict=True)):
            way_lm = self.way_slm[s]
            now_s = way_lm[place_o[start], place_o[end]]
            found[start] += way_lm[:, place_o[end]] - now_s
            found[end] += way_lm[place_o[start]] - now_s
        return found


def _shared(cores: np.ndarray, busy: np.ndarray) -> np.ndarray:
    """Wait in M/M/c over the service, by Sakasegawa: rho^(sqrt(2 (c + 1)) - 1) / (c (1 - rho))."""
    rho = np.clip(busy / cores, LEAST, RHO_MAX)
    return np.asarray(rho ** (np.sqrt(2.0 * (cores + 1.0)) - 1.0) / (cores * (1.0 - rho)))


def _shares(job: PlacementCoefficients) -> np.ndarray:
    """[S] share that a stream has in the age of what its consumer takes; the sides of a join count alike."""
    share_s = np.zeros(len(job.producer_s))
    for o, streams in enumerate(job.inputs):
        joins = job.deployment.query.topological[o].joins
        rates = np.ones(len(streams)) if joins else np.maximum(job.streams.rate_per_s[streams], 1e-12)
        share_s[streams] = rates / rates.sum()
    return share_s


def _weights(job: PlacementCoefficients) -> np.ndarray:
    """[O] seconds that the mean result ages for each second that a record stays at an operator."""
    sinks = [o for o in range(len(job.names)) if o not in job.producer_s]
    weight_o, share_s = np.zeros(len(job.names)), _shares(job)
    weight_o[sinks] = mean_of_results(job, np.eye(len(sinks)))
    for o in reversed(range(len(job.names))):
        for s in job.inputs[o]:
            weight_o[job.producer_s[s]] += weight_o[o] * share_s[s]
    return weight_o


# the search ----------------------------------------------------------------------------------------------------------
# Descent by the best move, then again from plans of which a part of the graph was moved together, and at last all that
# is on a socket goes to another one, as long as that is better.


CLOSE = 1e-9
"""Relative difference of costs that is rounding."""
KICKS = 300
"""Number of changed plans from which the search descends again."""
HARDLY = 0.02
"""Relative difference of costs that the estimate may be wrong about."""
PART = 6
"""Most operators that are moved together."""


def descents(
    quick: Quick, starts: list[np.ndarray], rng: np.random.Generator, deadline: Deadline
) -> Iterator[np.ndarray]:
    """Yields placements [O] at which descents ended, each better by the estimate than those before or hardly worse."""
    best: np.ndarray | None = None
    best_s = np.inf
    free_o = np.flatnonzero(quick.allowed_ol.sum(axis=1) > 1)
    for kick in range(-len(starts), KICKS if len(free_o) else 0):
        if deadline.over:
            return
        start = starts[kick] if kick < 0 or best is None else _kicked(quick, best, free_o, rng)
        found = _descended(quick, start, deadline)
        cost_s = quick.cost(found)
        if cost_s < best_s * (1.0 + HARDLY):
            yield found
        if cost_s < best_s * (1.0 - CLOSE):
            best, best_s = found, cost_s
    while best is not None and (other := _exchanged(quick, best, best_s, deadline)) is not None:
        best = _descended(quick, other, deadline)
        best_s = quick.cost(best)
        yield best


def _descended(quick: Quick, place_o: np.ndarray, deadline: Deadline) -> np.ndarray:
    here, cost_s = place_o.copy(), quick.cost(place_o)
    while not deadline.over:
        change_ol = quick.moves(here)
        o, socket = np.unravel_index(int(change_ol.argmin()), change_ol.shape)
        if not change_ol[o, socket] < -CLOSE * abs(cost_s):
            break
        changed = here.copy()
        changed[o] = socket
        if (changed_s := quick.cost(changed)) >= cost_s:
            break
        here, cost_s = changed, changed_s
    return here


def _exchanged(quick: Quick, place_o: np.ndarray, cost_s: float, deadline: Deadline) -> np.ndarray | None:
    """Best placement with all of a socket on another one, if any is better."""
    best: np.ndarray | None = None
    best_s = cost_s * (1.0 - CLOSE)
    for here in np.unique(place_o).tolist():
        on_o = place_o == here
        for there in np.flatnonzero(quick.allowed_ol[on_o].all(axis=0)).tolist():
            if deadline.over:
                return None
            changed = np.where(on_o, there, place_o)
            if (changed_s := quick.cost(changed)) < best_s:
                best, best_s = changed, changed_s
    return best


def _kicked(quick: Quick, place_o: np.ndarray, free_o: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Placement with an operator and some of those next to it on one socket."""
    job, part = quick.job, [int(rng.choice(free_o))]
    size = int(rng.integers(1, PART + 1))
    while len(part) < size:
        ends = list(zip(job.producer_s, job.consumer_s, strict=True))
        near = [b if a in part else a for a, b in ends if (a in part) != (b in part)]
        if not near:
            break
        part.append(int(rng.choice(near)))
    found = place_o.copy()
    sockets = np.flatnonzero(quick.allowed_ol[part].all(axis=0))
    used = sockets[np.isin(sockets, place_o)]
    where = used if len(used) and rng.random() < 0.5 else sockets
    if len(where):
        moved = [o for o in part if o in free_o]
        found[moved] = int(rng.choice(where))
    return found
