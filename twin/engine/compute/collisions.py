"""By how much tuples that collide on several cores lower the level at which jobs run, below that of fluids."""

from __future__ import annotations

import math
from functools import cache

MANY = 500
"""From so many tasks that share a processor on, how many of them are busy is as good as certain."""
STEPS = 32
"""Values of the demand that are told apart, as shares of the most it can be."""
ACCURACY = 1e-13
"""Of a busy probability, relative."""
NEGLIGIBLE = 1e-16
"""A term of the binomial law, against its largest, from which on the rest is left out."""


def collisions(capacity: float, jobs: int, flats: int, demand: float) -> float:
    """Factor <= 1 by which colliding tasks lower the fluid level on more than one core.

    Two flat demands of 0.7 and one job could use two cores fully as fluids; tuples collide. The flat tasks are taken
    as equal and independent; for at most one core the fluid level is exact.
    """
    if capacity <= 1.0 or not flats or demand <= 0.0 or jobs + flats <= capacity:
        return 1.0
    most = flats if flats < capacity else capacity  # min() would take longer than all the rest
    return _factor(capacity, jobs, flats, round(STEPS * demand / most))


@cache
def _factor(capacity: float, jobs: int, flats: int, step: int) -> float:
    if not step:
        return 1.0
    demand = min(flats, capacity) * step / STEPS
    busy = _busy(capacity, jobs, flats, demand / flats)
    fluid = min(1.0, max((capacity - demand) / jobs, capacity / (jobs + flats)))
    return min(1.0, mean_rate(capacity, jobs, flats, busy) / fluid)


def _busy(capacity: float, jobs: int, flats: int, each: float) -> float:
    """Probability b with which a flat task is busy: b * rate(b) = each; 1 if even that is not enough.

    By the secant method within bounds, from where b would be if always as many others were busy as on average.
    """
    others, served = flats - 1, jobs + 1
    low, high = each, math.inf
    b = min(1.0, max(each, each * served / max(capacity - each * others, 1e-9)))
    slope = min(1.0, capacity * served / (served + others * b) ** 2)
    excess = b * mean_rate(capacity, served, others, b) - each
    for _ in range(60):
        if abs(excess) <= ACCURACY * each or (excess < 0.0 and b >= 1.0):
            break
        low, high = (b, high) if excess < 0.0 else (low, b)
        last_b, last_excess = b, excess
        b -= excess / slope
        if not low < b < high:
            b = (low + min(1.0, high)) / 2.0
        b = min(1.0, b)
        if b == last_b:
            break
        excess = b * mean_rate(capacity, served, others, b) - each
        slope = max((excess - last_excess) / (b - last_b), 1e-9)
    return b


def mean_rate(capacity: float, served: int, others: int, busy: float) -> float:
    """E[min(1, C / (served + K))] with K binomial(others, busy); of many, K is close to its mean.

    The law is built from its middle outwards, each term from the one before, as far as terms count.
    """
    if others > MANY or not 0.0 < busy < 1.0:
        return min(1.0, capacity / (served + others * busy))
    odds, middle = busy / (1.0 - busy), min(others, int((others + 1) * busy))
    weights, mean = 1.0, min(1.0, capacity / (served + middle))
    term, k = 1.0, middle
    while k < others and term > NEGLIGIBLE:
        term *= (others - k) / (k + 1) * odds
        k += 1
        weights += term
        mean += term if served + k <= capacity else term * capacity / (served + k)
    term, k = 1.0, middle
    while k and term > NEGLIGIBLE:
        term *= k / ((others - k + 1) * odds)
        k -= 1
        weights += term
        mean += term if served + k <= capacity else term * capacity / (served + k)
    return mean / weights
