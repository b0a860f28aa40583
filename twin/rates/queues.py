"""Closed-form laws of queues."""

from __future__ import annotations

import numpy as np

RHO_MAX = 0.98
"""Mean waits at higher loads are taken as at this one."""
USUAL_LOAD = 0.9
"""At which waits matter."""


def erlang_c(servers: int, load: float) -> float:
    """Probability that a tuple has to wait in M/M/c. load: utilisation of each server, 0 <= load < 1.

    By the recursion of Erlang's loss formula, which neither overflows nor cancels. Raises ValueError for other loads.
    """
    if servers < 1 or not 0.0 <= load < 1.0:
        raise ValueError(f"erlang_c needs servers >= 1 and a load in [0, 1), got {servers} and {load}")
    loss = erlang_b(servers, servers * load)
    return loss / (1.0 - load * (1.0 - loss))


def erlang_b(servers: int, offered: float) -> float:
    """Probability that a tuple is lost in M/M/c/c. offered: arrival rate times mean service time."""
    loss = 1.0
    for k in range(1, servers + 1):
        loss = offered * loss / (k + offered * loss)
    return loss


def mmc_wait_s(servers: int, load: float, service_s: float) -> float:
    """Mean wait in M/M/c, in the unit of the mean service time."""
    return erlang_c(servers, load) * service_s / (servers * (1.0 - load))


def ggc_wait_s(servers: int, load: float, gap_scv: float, service_scv: float, service_s: float) -> float:
    """Mean wait in GI/G/c by Allen and Cunneen: that of M/M/c by the mean of both variabilities."""
    return mmc_wait_s(servers, load, service_s) * (gap_scv + service_scv) / 2.0


def mmck_loss(servers: int, room: int, offered: float) -> float:
    """Probability that a tuple finds M/M/c/K full. room: tuples it holds, in service ones included, >= servers.

    offered: arrival rate times mean service time; may exceed the servers.
    """
    if room < servers:
        raise ValueError(f"mmck_loss needs room for the tuples in service, got {room} for {servers} servers")
    loss = erlang_b(servers, offered)
    for _ in range(room - servers):
        loss = offered * loss / (servers + offered * loss)
    return loss


def gap_scv(turns: np.ndarray, producers: np.ndarray) -> np.ndarray:
    """Squared variation of the gaps at a replica that gets each `turns`-th tuple of several producers' Poisson streams.

    Of one producer, 1 / turns, as gaps are sums of so many.
    """
    return superposed(1.0 / turns, producers)


def superposed(scv: np.ndarray, streams: np.ndarray) -> np.ndarray:
    """Squared variation of the gaps in so many streams together, of each of which it is `scv`.

    What is superposed becomes Poisson again, the slower the higher the load: Whitt's mean of both (QNA, 1983, eq. 29)
    at a load of USUAL_LOAD.
    """
    regular = 1.0 / (1.0 + 4.0 * (1.0 - USUAL_LOAD) ** 2 * (streams - 1.0))
    return np.asarray(1.0 - regular * (1.0 - scv))


def irregularity(gap_scv: np.ndarray, service_scv: np.ndarray, load: np.ndarray) -> np.ndarray:
    """The wait in GI/G/1 over that of M/M/1, by Kingman, for gaps more regular than Poisson's with the correction of
    Kraemer and Langenbach-Belz (1976)."""
    both = gap_scv + service_scv
    shorter = 2.0 * (1.0 - load) * (1.0 - gap_scv) ** 2 / np.maximum(3.0 * load * both, 1e-12)
    return np.asarray(both / 2.0 * np.where(gap_scv < 1.0, np.exp(-shorter), 1.0))


def grown_wait_s(drift: np.ndarray, variance_s: np.ndarray, time_s: np.ndarray) -> np.ndarray:
    """Mean of a reflected Brownian motion after a time, from 0: the wait in a queue that starts empty, when busy.

    drift: load - 1, of any sign. variance_s: of the work that comes, a second: load * service time * (scv of gaps and
    of services). It is that of the highest point so far of the free motion (Harrison 1985, section 1.8), and comes to
    variance / (2 (1 - load)) below 1, as Kingman has it.
    """
    spread = np.maximum(np.sqrt(variance_s * time_s), 1e-12)
    far = drift * time_s / spread
    below, density = _normal(far), np.exp(-(far**2) / 2.0) / np.sqrt(2.0 * np.pi)
    # 2 Phi - 1 over the drift, at no drift too
    turned = np.where(np.abs(far) > 1e-4, (2.0 * below - 1.0) / np.where(far == 0.0, 1.0, far), np.sqrt(2.0 / np.pi))
    return np.asarray(np.maximum(spread * (far * below + density + turned / 2.0), 0.0))


def _normal(each: np.ndarray) -> np.ndarray:
    """The normal distribution function, to 1e-7 (Abramowitz and Stegun, 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * np.abs(each))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-(each**2) / 2.0) / np.sqrt(2.0 * np.pi) * series
    return np.asarray(np.where(each > 0.0, 1.0 - tail, tail))
