"""Rows of placement programs for the age of results, and for waits that neighbours cause."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from optimizers.milp.rows import Loads, PlacementColumns, Ways
from optimizers.program import Program, Terms
from twin.kinds.flow import oldest_s
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.queueing import RHO_MAX

# the age of results --------------------------------------------------------------------------------------------------
# Age of results as the objective of a program: rows that add up the rate model's ages along the streams.
#
# Ages that no placement changes (those of windows) are taken out: columns are the *excess* over them, and a gap is
# relative to what placements can change. Service and wait of an operator alone on its socket are constants; sending
# and receiving add a chord, exact where one stream of an operator leaves and too low where several do. A join takes
# the oldest of its sides, whose mean is a convex function of their ages and is held from below by tangents: around the
# constant difference of the sides, as windows' ages differ by seconds where latencies differ by milliseconds. A
# program's cost is therefore never above the rate model's estimate of the same plan, if nothing is throttled.


TOLERATED = 1.011
"""Utilisation up to which the rate model calls a plan free of backpressure."""
SPREAD = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Points where the tangents of a join touch: distances from the constant difference of its sides, in shares of how far
placements can part the sides."""
SIZE_STEP = 1e-5
"""Step of differences, as a share of a window's length."""


@dataclass(frozen=True, slots=True)
class AgeColumns:
    """Columns of ages. excess [O]: of results that operators emit, in units; crowded [O] and carded [S]: part added by
    neighbours on a socket and a network card. unit_s: unit of all columns. fixed_s: part of the result's age that no
    placement changes."""

    excess: np.ndarray
    crowded: np.ndarray
    carded: np.ndarray
    unit_s: float
    fixed_s: float

    def seconds(self, cost: float) -> float:
        """Age of results [s] that a cost of the program stands for."""
        return self.fixed_s + cost * self.unit_s


def minimise_age(
    program: Program, job: PlacementCoefficients, assignment: PlacementColumns, ways: Ways, *, end_to_end: bool
) -> AgeColumns:
    """Adds the mean age of results as the program's cost. end_to_end: age since the records came to the broker."""
    alone_ol = alone_s(job, np.zeros(len(job.names)), end_to_end=end_to_end, evaluations=False)
    unit_s = max(float(alone_ol.min(axis=1).max()), 1e-7)
    excess, crowded = program.variables((2, len(job.names)))
    carded = program.variables((len(job.producer_s),))
    fixed_o, (sinks, weights) = fixed_ages_s(job), _sinks(job)
    ages = AgeColumns(excess, crowded, carded, unit_s, float(weights @ fixed_o[sinks]))
    reach_s = _reach_s(alone_ol, ways)
    more = _chords(job, assignment, alone_ol, end_to_end)
    for o, streams in enumerate(job.inputs):
        here: list[Terms] = [(assignment.place[o], alone_ol[o]), *more[o]]
        mine = [(ages.excess[o, None], 1.0), (ages.crowded[o, None], -1.0), *_scaled(here, -1.0 / unit_s)]
        if not streams:
            program.row(*mine, low=0.0)
            continue
        sides = [_arriving(job, ages, ways, assignment, s) for s in streams]
        before = fixed_o[[job.producer_s[s] for s in streams]]
        if joins_in_windows(job, o):
            _join(program, mine, sides, before, float(job.operators.window_s[o]), unit_s, reach_s)
            continue
        shares = side_shares(job, o)
        program.row(
            *mine,
            *(term for share, side in zip(shares, sides, strict=True) for term in _scaled(side, -share)),
            low=0.0,
        )
    program.costs(ages.excess[sinks], weights)
    return ages


def fixed_ages_s(job: PlacementCoefficients) -> np.ndarray:
    """[O] part of the age of an operator's results that no placement changes: the windows' part, seconds."""
    fixed_o = np.zeros(len(job.names))
    for o, streams in enumerate(job.inputs):
        if not streams:
            continue
        before = fixed_o[[job.producer_s[s] for s in streams]]
        window_s = float(job.operators.window_s[o])
        waits = joins_in_windows(job, o)
        fixed_o[o] = _oldest(before, window_s) if waits else float(side_shares(job, o) @ before) + window_s
    return fixed_o


def joins_in_windows(job: PlacementCoefficients, o: int) -> bool:
    """Whether results of an operator are as old as the oldest of their records in a window."""
    return job.deployment.query.topological[o].joins and bool(job.operators.window_s[o] > 0.0)


def side_shares(job: PlacementCoefficients, o: int) -> np.ndarray:
    """Weights of the mean ages of an operator's inputs in the age of its results: of a join of rows, whose pairs come
    with either side, they are alike; else the rates, of inputs whose records become results. [S]"""
    operator, rates = job.deployment.query.topological[o], job.streams.rate_per_s[job.inputs[o]]
    sides = [stream.side for stream in job.deployment.query.inputs(operator.name)]
    passed = np.array([operator.passed_from(side) for side in sides])
    weights = np.ones(len(rates)) if operator.joins and passed.all() else rates * passed
    return np.asarray(weights / max(float(weights.sum()), 1e-12))


def fixed_s(job: PlacementCoefficients) -> float:
    """Part of the mean age of all results that no placement changes, seconds."""
    sinks, _ = _sinks(job)
    return float(mean_of_results(job, fixed_ages_s(job)[None, sinks])[0])


def mean_of_results(job: PlacementCoefficients, age_ns: np.ndarray) -> np.ndarray:
    """[N] mean over all results, from ages [N, K] at the sinks in data-flow order."""
    return np.asarray(age_ns @ _sinks(job)[1])


def _sinks(job: PlacementCoefficients) -> tuple[list[int], np.ndarray]:
    """Operators that nothing reads, and their shares of the results."""
    sinks = [o for o in range(len(job.names)) if o not in job.producer_s]
    weights = job.operators.in_per_s[sinks]
    return sinks, weights / weights.sum() if weights.sum() > 0 else np.full(len(sinks), 1.0 / len(sinks))


def alone_s(
    job: PlacementCoefficients, more_o: np.ndarray, *, end_to_end: bool, evaluations: bool = True
) -> np.ndarray:
    """[O, L] seconds of service, wait and evaluation of operators that are alone on a socket. more_o: reference cores
    that they need besides. Programs leave evaluations out: the rate model has no wait where a plan is held up a little,
    and its windows hold less, so that a bound with all of these would be too high for such plans."""
    siblings_o = job.operators.work * (1.0 - 1.0 / job.operators.parallelism)
    left_ol = np.clip(job.places.capacity_l - siblings_o[:, None], 1e-6, job.places.core_l)
    evaluated_ol = job.operators.evaluated_s[:, None] / left_ol
    return served_s(job, more_o, left_ol, end_to_end=end_to_end) + evaluations * evaluated_ol


def served_s(job: PlacementCoefficients, more_o: np.ndarray, left_ol: np.ndarray, *, end_to_end: bool) -> np.ndarray:
    """[O, L] seconds of service and wait of operators that have `left_ol` reference cores of a socket; a source waits
    end to end only."""
    served_ol, waited_ol = job.delays_s(more_o, left_ol)
    if not end_to_end:
        waited_ol[[o for o, streams in enumerate(job.inputs) if not streams]] = 0.0
    return served_ol + waited_ol


def _chords(
    job: PlacementCoefficients, assignment: PlacementColumns, alone_ol: np.ndarray, end_to_end: bool
) -> list[list[Terms]]:
    """Terms that an operator's streams add to its service and wait if they come from or go to other hosts, by
    operator."""
    found: list[list[Terms]] = [[] for _ in job.names]
    for s, (start, end) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        for o, need, terms in (
            (start, job.streams.send[s], assignment.leaves),
            (end, job.streams.receive[s], assignment.arrives),
        ):
            if need > 0.0:
                more_o = np.where(np.arange(len(job.names)) == o, need, 0.0)
                longer_l = alone_s(job, more_o, end_to_end=end_to_end, evaluations=False)[o] - alone_ol[o]
                found[o] += terms(s, o, np.maximum(longer_l, 0.0))
    return found


def _arriving(
    job: PlacementCoefficients, ages: AgeColumns, ways: Ways, assignment: PlacementColumns, s: int
) -> list[Terms]:
    """Excess age of a stream's records on arrival, in units."""
    start, size = job.producer_s[s], float(job.streams.record_bytes[s])
    host_l = job.places.host_l
    own_l = job.streams.bytes_per_s[s] / job.places.bandwidth_h[host_l]
    send_l = size / job.places.bandwidth_h[host_l] * card_factor(own_l)
    seconds = [*ways.latency[s], *assignment.leaves(s, start, send_l), *_scaled(ways.per_byte[s], size)]
    return [(ages.excess[start, None], 1.0), (ages.carded[s, None], 1.0), *_scaled(seconds, 1.0 / ages.unit_s)]


def card_factor(rho: np.ndarray) -> np.ndarray:
    """Time on a network card over that on an empty one: M/D/1, 1 + rho / (2 (1 - rho)) (Pollaczek and Khinchine)."""
    used = np.minimum(rho, RHO_MAX)
    return np.asarray(1.0 + used / (1.0 - used) / 2.0)


def _scaled(terms: list[Terms], factor: float) -> list[Terms]:
    return [(columns, np.asarray(of) * factor) for columns, of in terms]


def _join(
    program: Program,
    mine: list[Terms],
    sides: list[list[Terms]],
    before: np.ndarray,
    size_s: float,
    unit_s: float,
    reach_s: float,
) -> None:
    """Adds tangents of the age of a join's oldest side to the program."""
    fixed_s = _oldest(before, size_s)
    for at in _touching(before, size_s, reach_s):
        slope = np.array([_slope(at, side, size_s) for side in range(len(at))])
        height = _oldest(at, size_s) + float(slope @ (before - at)) - fixed_s
        arriving = [term for weight, side in zip(slope, sides, strict=True) for term in _scaled(side, -weight)]
        program.row(*mine, *arriving, low=height / unit_s)


def _touching(before: np.ndarray, size_s: float, reach_s: float) -> list[np.ndarray]:
    """Ages of a join's sides at which tangents touch: their constant ones, and some with one side older."""
    farthest_s = min(size_s, reach_s)
    return [before, *(before + share * farthest_s * side for share in SPREAD for side in np.eye(len(before)))]


def _reach_s(alone_ol: np.ndarray, ways: Ways) -> float:
    """Rough upper bound of the seconds by which placements can make results older."""
    latency_s = sum(float(np.max(np.abs(of))) for terms in ways.latency for _, of in terms[:1])
    return float(alone_ol.max(axis=1).sum()) + latency_s


def _oldest(ages: np.ndarray, size_s: float) -> float:
    return float(oldest_s([np.array([each]) for each in ages], np.array([size_s]))[0])


def _slope(at: np.ndarray, side: int, size_s: float) -> float:
    step = np.zeros(len(at))
    step[side] = SIZE_STEP * size_s
    return (_oldest(at + step, size_s) - _oldest(at - step, size_s)) / (2.0 * SIZE_STEP * size_s)


# waits that neighbours cause -----------------------------------------------------------------------------------------
# Wait for a core and for a network card that neighbours cause: tangents of convex functions of the load.
#
# A subtask beside others can get what they leave of its socket. Its wait is then a convex function of the socket's
# load, held from below by a few tangents for every operator and socket where less than a core may be left; where the
# operator is not there, a big M from the highest load allowed switches the tangent off.


LEFT = (0.9, 0.6, 0.35, 0.2, 0.1, 0.05)
"""Points of tangents: shares of the free cores, above the least ones, that are left at that load."""
FEW_LEFT = (0.6, 0.2, 0.05)
"""Points of tangents for programs of more than LARGE operators times sockets."""
LARGE = 600
CARD = (0.5, 0.85)
"""Utilisations of a card where tangents touch."""
CROWDING_STEP = 1e-5
NEGLIGIBLE = 1e-3
"""Share of the unit of ages below which network cards are left out."""


def crowd_cores(
    program: Program,
    job: PlacementCoefficients,
    assignment: PlacementColumns,
    loads: Loads,
    ages: AgeColumns,
    most: float,
    *,
    end_to_end: bool,
) -> None:
    """Adds the wait for a core that neighbours cause to the program. most: the highest utilisation allowed."""
    each, place = job.operators, job.places
    nothing_o = np.zeros(len(job.names))
    alone_ol = alone_s(job, nothing_o, end_to_end=end_to_end, evaluations=False)
    own_ol = np.broadcast_to((each.work / each.parallelism)[:, None], alone_ol.shape)
    full_ol = np.broadcast_to(place.capacity_l * most, alone_ol.shape)
    free_ol = np.clip(place.capacity_l - each.work[:, None] + own_ol, 1e-6, place.core_l)
    least_ol = np.maximum(place.capacity_l - full_ol + own_ol, 1e-6)
    crowded_ol = assignment.allowed_ol & (least_ol < free_ol * (1.0 - 1e-6))
    row, column = np.nonzero(crowded_ol)
    if not len(row):
        return
    for share in LEFT if alone_ol.size <= LARGE else FEW_LEFT:
        left_ol = least_ol + (free_ol - least_ol) * share
        load_ol = place.capacity_l + own_ol - left_ol
        step_ol = CROWDING_STEP * left_ol
        here_ol, less_ol, more_ol = (
            served_s(job, nothing_o, left, end_to_end=end_to_end)
            for left in (left_ol, left_ol - step_ol, left_ol + step_ol)
        )
        extra_ol, slope_ol = here_ol - alone_ol, (less_ol - more_ol) / (2.0 * step_ol)
        slope, height = slope_ol[row, column], (extra_ol - slope_ol * load_ol)[row, column]
        big = np.maximum(height + slope * full_ol[row, column], 0.0)
        program.rows(
            (ages.crowded[row, None], ages.unit_s),
            (loads.cores[column, None], -slope[:, None]),
            (assignment.place[row, column, None], -big[:, None]),
            low=height - big,
        )


def crowd_cards(
    program: Program,
    job: PlacementCoefficients,
    assignment: PlacementColumns,
    loads: Loads,
    ages: AgeColumns,
    most: float,
) -> None:
    """Adds the wait for a network card that neighbours cause to the program. most: the highest utilisation allowed."""
    host_l, bandwidth_h = job.places.host_l, job.places.bandwidth_h
    total, smallest = float(job.streams.bytes_per_s.sum()), float(job.streams.record_bytes.min(initial=np.inf))
    for s, start in enumerate(job.producer_s):
        for h in range(len(bandwidth_h)):
            own, here = job.streams.bytes_per_s[s] / bandwidth_h[h], np.flatnonzero(host_l == h)
            empty_s, least_s = job.streams.record_bytes[s] / bandwidth_h[h], smallest / bandwidth_h[h]
            worst = min(most, total / bandwidth_h[h])
            if worst <= own or empty_s * card_factor(np.array(worst)) < NEGLIGIBLE * ages.unit_s:
                continue
            # the wait is (own S + what others send S') / (2 (1 - rho)), where S' is no shorter than the shortest
            all_s = own * (empty_s - least_s) + least_s
            mine_s = empty_s * (float(card_factor(np.array(own))) - 1.0)
            for at in CARD:
                rho = own + (worst - own) * at
                left = 1.0 - min(rho, RHO_MAX)
                slope = all_s / left**2 / 2.0
                height = (all_s / left - least_s) / 2.0 - mine_s - slope * rho
                big = max(height + slope * most, 0.0)
                program.row(
                    (ages.carded[s, None], ages.unit_s),
                    (loads.cards[h, None], -slope),
                    (assignment.place[start, here], -big),
                    (assignment.stays_out[s, here], big),
                    low=height - big,
                )
