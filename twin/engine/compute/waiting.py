"""Waiting below saturation that grouping tuples into segments deletes, to be added back to the stamps.

A queue of segments keeps the fluctuations slower than a segment and loses the faster ones. What is lost is known: the
mean wait of the queue of tuples less that of the Gaussian walk sampled every n tuples. It goes into the stamps, never
into the server, where it would count as load.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from twin.rates.queues import ggc_wait_s

CRITICAL = 0.985
"""At and above this utilisation the segments' own queue holds (nearly) all of the waiting."""

IDLE = 1e-12
"""At and below it nobody ever waits; its square is still a number to divide by."""


def tuple_wait_s(load: float, gap_scv: float, service_scv: float, service_s: float, servers: int = 1) -> float:
    """Mean wait in a GI/G/1 queue (Kraemer and Langenbach-Belz); exact (Pollaczek-Khinchine) for Poisson arrivals.

    Of a queue with several servers, by Allen and Cunneen: exact for M/M/c.
    """
    variability = gap_scv + service_scv
    if load <= 0.0 or load >= 1.0 or variability <= 0.0:
        return 0.0
    if servers > 1:
        return ggc_wait_s(servers, load, gap_scv, service_scv, service_s)
    wait = service_s * load / (1.0 - load) * variability / 2.0
    if gap_scv < 1.0:
        return wait * math.exp(-2.0 * (1.0 - load) * (1.0 - gap_scv) ** 2 / (3.0 * load * variability))
    return wait * math.exp(-(1.0 - load) * (gap_scv - 1.0) / (gap_scv + 4.0 * service_scv))


def walk_wait(drift: float, skewness: float = 0.0) -> float:
    """Mean wait, in standard deviations, of a nearly Gaussian walk with that drift per step (Spitzer's identity).

    skewness: of a step. By the first term of Edgeworth's expansion, the mean excess of k steps over 0 is larger by
    skewness / 6 * drift * sqrt(k) * density(drift * sqrt(k)); a slow walk by a sixth of it in all, as Siegmund found.
    """
    if drift <= _LOW:
        return 1.0 / (2.0 * drift) - 0.5826 + skewness / 6.0 if drift > 1e-6 else 1e6
    if drift >= _HIGH:
        return 0.0
    position = (math.log(drift) - _LOG_LOW) / _STEP
    index = int(position)
    share = position - index
    waits, skewed = _walk_table()
    wait = waits[index] + share * (waits[index + 1] - waits[index])
    return max(0.0, wait + skewness * (skewed[index] + share * (skewed[index + 1] - skewed[index])))


_LOW, _HIGH, _POINTS = 0.05, 6.0, 96
_LOG_LOW = math.log(_LOW)
_STEP = (math.log(_HIGH) - _LOG_LOW) / (_POINTS - 1)


@cache
def _walk_table() -> tuple[list[float], list[float]]:
    """The mean waits, and what skewness adds to them."""
    k = np.arange(1, 20_001, dtype=float)
    root = np.sqrt(k)
    waits, skewed = [], []
    for drift in np.exp(_LOG_LOW + _STEP * np.arange(_POINTS + 1)):
        x = drift * root
        density = np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        waits.append(float(np.sum(density / root - drift * _upper_tail(x))))
        skewed.append(float(drift * np.sum(density / root) / 6.0))
    return waits, skewed


def _upper_tail(x: np.ndarray) -> np.ndarray:
    """P(standard normal > x) for x > 0, to 1e-7 (Abramowitz and Stegun 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * x)
    poly = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return np.asarray(np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * poly)


def merged_gap_scv(load: float, gap_scv: float, streams: float) -> float:
    """Variability of the gaps between the tuples of so many streams that counts at a server of that utilisation.

    gap_scv: that of each, which is what counts over long times. Between the tuples of many streams gaps are random, and
    at a low load the queue sees no further (Whitt, "The queueing network analyzer", 1983, equations 24, 29 and 30).
    """
    return 1.0 + (gap_scv - 1.0) / (1.0 + 4.0 * (1.0 - load) ** 2 * (streams - 1.0))


def residual_wait_s(
    n: float,
    load: float,
    gap_scv: float,
    service_scv: float,
    service_s: float,
    servers: int = 1,
    streams: float = 1.0,
    unseen_scv: float = 0.0,
) -> float:
    """Mean wait of a tuple that a segment of n tuples does not show, in seconds, >= 0; a server of its own.

    load: utilisation, 0 to 1. service_s: mean service of a tuple. servers: of a common queue, each with n tuples of a
    segment; their load varies together, so with a part of the variance of each. streams: of gaps of that variability,
    which meet here. unseen_scv: of the gaps' variability, what neither sizes nor ends of segments show.
    """
    if load >= CRITICAL or load <= IDLE:
        return 0.0
    wait = tuple_wait_s(load, merged_gap_scv(load, gap_scv, streams), service_scv, service_s, servers)
    shown_scv = gap_scv - unseen_scv if gap_scv > unseen_scv else 0.0
    variance = service_scv + shown_scv / (load * load)  # of a tuple's step, in services
    if variance <= 0.0:
        return wait
    steps = math.sqrt(n * servers * variance)  # of all servers
    skewness = 2.0 * (service_scv * service_scv - shown_scv * shown_scv / load**3) / (variance * steps)  # Gamma laws
    sigma = service_s * steps / servers
    shown_s = sigma * walk_wait(n * service_s * (1.0 / load - 1.0) / sigma, skewness)
    return wait - shown_s if wait > shown_s else 0.0


def hidden_share(drift: float) -> float:
    """Share of the tuple wait that segments do not show on a shared processor, where the walk is the whole host's.

    drift: spare capacity over one segment, in standard deviations of the work that arrives meanwhile. The form is a
    fit to tuple-level simulations of co-located operators at two loads.
    """
    return 1.0 - math.exp(-((max(drift, 0.0) / 0.65) ** 1.6))


def departure_gap_scv(load: float, gap_scv: float, service_scv: float) -> float:
    """Variability of the gaps between departures (Marshall's approximation)."""
    r2 = min(1.0, load) ** 2
    return r2 * service_scv + (1.0 - r2) * gap_scv
