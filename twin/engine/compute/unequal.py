"""At which rates a few tasks of unequal demands work that share the same cores, by the chain of who is busy.

Of tasks that are busy each gets an equal part. With one piece of work each at a time they are a closed network of
processor sharing, of product form: that a set of k tasks is busy has the weight of their odds' product, times that of
i / min(i, cores) from 1 to k (Baskett, Chandy, Muntz and Palacios, 1975). Tuples queue, so a processor once busy stays
so for longer, and its tasks are busy at the same times more than the chain says: the states in which cores idle weigh
`waits` times as much, and all others are met that much less by chance alone.
"""

from __future__ import annotations

from collections.abc import Sequence

FULL = 0.99
"""Of the cores: tasks that need more together are taken to need so much."""
TOLERANCE, ODDS_TOLERANCE = 2e-3, 5e-3
"""Of what the others of a task need, relative; and of what each needs, for the proportions of their odds."""
FURTHEST = 1e6
"""By how much others' odds are raised or lowered; beyond, all of them are always busy, or idle."""
QUEUED, IN_STEP, STEEPNESS = 0.2, 0.5, 0.7
"""Of `waits` - 1, by the load. Fits to simulations of 2 to 7 queues on one core and on two: of independent streams, for
services of any variability; and what tuples from a task there add, as its next service begins as they come."""


def waits(capacity: float, demands: Sequence[float], in_step: float) -> float:
    """By how much the chain has idle cores too seldom. in_step: see `Crowd`.

    As tuples queue at several tasks at once: little where one task makes up nearly all of the load, whatever that is.
    """
    total, most = sum(demands), max(demands)
    if total <= 0.0:
        return 1.0
    uneven = max(0.0, 2.0 * most / total - 1.0)
    even = min(FULL, total / capacity * (1.0 - uneven * uneven))
    return 1.0 + (QUEUED + IN_STEP * in_step) * even * (1.0 - even) ** -STEEPNESS


def busy_odds(
    capacity: float, demands: Sequence[float], odds: list[float], idle: float, jobs: float = 0.0
) -> list[float]:
    """Odds of each task's being busy with which all get what they need. odds: those to begin with; idle: `waits`."""
    weights = _weights(capacity, len(demands), idle, jobs)
    parts = [min(1.0, capacity / (jobs + k + 1)) for k in range(len(demands))]
    for _ in range(60):
        sums, furthest = all_sums(odds), 0.0
        found = []
        for place, need in enumerate(demands):
            off, work, busy = 0.0, 0.0, 0.0
            for k, each in enumerate(without(sums, odds[place])):
                off += each * weights[k]
                on = odds[place] * each * weights[k + 1]
                busy += on
                work += on * parts[k]
            missing = need * (off + busy) / work if work > 0.0 else 1.0
            furthest = max(furthest, abs(missing - 1.0))
            steps = 4.0 if 4.0 * off < 0.7 * (off + busy) else 0.7 * (off + busy) / off
            found.append(min(FURTHEST, odds[place] * missing**steps))
        odds = found
        if furthest < ODDS_TOLERANCE:
            break
    return odds


def all_sums(odds: Sequence[float]) -> list[float]:
    """Elementary symmetric sums: over all sets of 0, 1, ... tasks, of the product of their odds."""
    sums = [1.0]
    for each in odds:
        sums.append(0.0)
        for k in range(len(sums) - 1, 0, -1):
            sums[k] += each * sums[k - 1]
    return sums


def without(sums: Sequence[float], odds: float) -> list[float]:
    """The same without one of the tasks. From below where its odds are small and from above else, as rounding asks."""
    last = len(sums) - 1
    rest = [0.0] * last
    if odds <= 1.0:
        below = 0.0
        for k in range(last):
            left = sums[k] - odds * below
            below = rest[k] = left if left > 0.0 else 0.0
    else:
        above = 0.0
        for k in range(last, 0, -1):
            left = (sums[k] - above) / odds
            above = rest[k - 1] = left if left > 0.0 else 0.0
    return rest


def rate_beside(
    capacity: float, jobs: float, own: float, demand: float, sums: Sequence[float], idle: float, scale: float
) -> tuple[float, float]:
    """(cores that a task gets while it is busy, by how much others' odds are larger or smaller to that end).

    Beside so many jobs, and others that need `demand` together: in the proportions that `sums` of their odds say. own:
    what it needs itself. scale: where to look for theirs first.
    """
    low, high = 0.0, 0.0
    if not 1.0 / FURTHEST < scale < FURTHEST:
        scale = 1.0
    got, rate = _shared(capacity, jobs, own, sums, idle, scale)
    for _ in range(30):
        if abs(got - demand) <= TOLERANCE * demand or not 1.0 / FURTHEST < scale < FURTHEST:
            break
        if got < demand:
            low = scale
        else:
            high = scale
        scale *= min(4.0, (demand / got) ** 1.5) if got > 0.0 else 4.0
        if high > 0.0 and not low < scale < high:
            scale = (low * high) ** 0.5 if low > 0.0 else high / 4.0
        got, rate = _shared(capacity, jobs, own, sums, idle, scale)
    return rate, scale


def _shared(
    capacity: float, jobs: float, own: float, sums: Sequence[float], idle: float, scale: float
) -> tuple[float, float]:
    """Cores that the others work with, and that the task gets while it is busy."""
    off = off_work = work = busy = on_work = 0.0
    factor = 1.0
    for k, each in enumerate(sums):
        present = jobs + k
        slow = (present + 1.0) / capacity if present + 1.0 > capacity else 1.0  # of each task, if one more is busy
        weight = each * factor
        alone = weight * idle if present < capacity else weight
        beside = weight * idle if present + 1.0 < capacity else weight
        off += alone
        off_work += alone * k * (capacity / present if present > capacity else 1.0)
        work += beside
        busy += beside * slow
        on_work += beside * k
        factor *= scale * slow
    rate = work / busy
    if own >= rate:  # it is always busy
        return on_work / busy, rate
    return off_work / off * (1.0 - own / rate) + on_work / busy * own / rate, rate


def job_rate(capacity: float, jobs: float, sums: Sequence[float]) -> float:
    """Cores that each of so many jobs gets beside tasks whose odds have these sums."""
    total = work = 0.0
    for k, weight in enumerate(_weights(capacity, len(sums) - 1, 1.0, jobs)):
        total += sums[k] * weight
        work += sums[k] * weight * min(1.0, capacity / (jobs + k))
    return work / total


def _weights(capacity: float, tasks: int, idle: float, jobs: float) -> list[float]:
    """Of k busy tasks beside jobs, over their odds."""
    weights, factor = [idle if jobs < capacity else 1.0], 1.0
    for k in range(1, tasks + 1):
        factor *= max(1.0, (jobs + k) / capacity)
        weights.append(factor * idle if jobs + k < capacity else factor)
    return weights
