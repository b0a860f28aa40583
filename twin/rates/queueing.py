"""Closed-form laws of queues and of shared processors.

Of n tasks beside a *permanent customer* (one that is always busy), K are busy; each of them, and each of `always` that
always are, gets min(1, c / (K + always)) cores. K is a birth-death chain: a tuple that comes finds its own task busy by
chance, or rather not where tuples are dealt in turn. So cores are lost while few are busy, and what one gets is less
than what the demand of the others leaves: the mean over the chain. How much that varies over time comes to waits as
varied services do: the asymptotic variance of a birth-death chain's mean, in closed form (Whitt, "Asymptotic formulas
for Markov processes with applications to simulation", 1992). Their arrays are [K], one entry a case.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RHO_MAX = 0.98
"""Mean waits at higher loads are taken as at this one."""
LEAST = 1e-3
"""Cores in use, as which fewer count: powers of less are no numbers that a processor is fast with."""
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


def beside_busy(cores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The mean of min(1, cores / (1 + K)) where K others are busy, a Poisson number with that mean. cores: from 1."""
    cores, others = np.broadcast_arrays(cores, others)
    found = np.empty(others.shape)
    for many in np.unique(cores).tolist():
        rows = cores == many
        mean, whole = np.maximum(others[rows], LEAST), int(many)
        term = np.exp(-mean)
        fewer = np.zeros_like(mean)
        for k in range(1, whole + 1):
            fewer, term = fewer + term, term * mean / k
        found[rows] = fewer + many / mean * np.maximum(1.0 - fewer - term, 0.0)
    return found


def longer(cores: np.ndarray, busy: np.ndarray) -> np.ndarray:
    """Time beyond the service on a core, over that service. cores: from 1. busy: of them, in use on average.

    Of a birth-death chain with births at rate `busy` and deaths at rate min(k, cores), the mean over `busy`, by Little.
    """
    cores, busy = np.broadcast_arrays(cores, busy)
    found = np.empty(busy.shape)
    for many in np.unique(cores).tolist():
        rows = cores == many
        used = np.clip(busy[rows], LEAST, RHO_MAX * many)
        rho, whole = used / many, int(many)
        term = np.ones_like(used)
        chances, present = np.ones_like(used), np.zeros_like(used)
        for k in range(1, whole + 1):
            term = term * used / k
            chances, present = chances + term, present + k * term
        beyond = term * rho / (1.0 - rho)
        chances, present = chances + beyond, present + beyond * (whole + 1.0 / (1.0 - rho))
        found[rows] = present / chances / np.maximum(used, 1e-12) - 1.0
    return np.maximum(found, 0.0)


MOST_TASKS = 256
"""Beside one, of which more count as so many."""
NEVER = 1e-3
"""Least share of its demand at which a task's queue empties, if the task gets less than it needs."""


class Others(NamedTuple):
    """Of the tasks beside one that come and go: the cores that they need in all; how many equal ones vary as they do;
    whether a tuple finds its own task busy by chance (1) or never (0); the mean rest of a service, in CPU seconds."""

    demand: np.ndarray
    tasks: np.ndarray
    chance: np.ndarray
    rest_s: np.ndarray

    def select(self, rows: np.ndarray) -> Others:
        """The values of some tasks. rows: a mask."""
        return Others(self.demand[rows], self.tasks[rows], self.chance[rows], self.rest_s[rows])


class Left(NamedTuple):
    """cores: what one that is always busy gets on average, above 0; varied_s: by how much the variance of what it gets
    in all grows a second."""

    cores: np.ndarray
    varied_s: np.ndarray


def cores_beside(cores: np.ndarray, always: np.ndarray, others: Others) -> Left:
    """To one of `always` tasks that always are busy. cores: of the processor."""
    most = int(np.ceil(min(others.tasks.max(initial=0.0), MOST_TASKS)))
    k = np.arange(most + 1.0)[:, None]
    speed = np.minimum(1.0, cores / (k + always))
    births, deaths = _birth_and_death(k, speed, others)
    steps = np.cumsum(np.log(np.maximum(births[:-1], 1e-300)) - np.log(deaths[1:]), axis=0)
    steps = np.concatenate([np.zeros_like(steps[:1]), steps]) if most else np.zeros_like(births)
    chances = np.exp(steps - steps.max(axis=0))
    chances /= chances.sum(axis=0)
    mean = (chances * speed).sum(axis=0)
    flow = births[:-1] * chances[:-1]
    apart = np.cumsum(chances * (speed - mean), axis=0)[:-1] ** 2
    varied = 2.0 * np.where(flow > 1e-12, apart / np.maximum(flow, 1e-12), 0.0).sum(axis=0)
    return Left(mean, varied * others.rest_s)


def _birth_and_death(k: np.ndarray, speed: np.ndarray, others: Others) -> tuple[np.ndarray, np.ndarray]:
    """At which of the others one more becomes busy where k are, and one less: so that they do what they need. In times
    of a mean rest of a service. [most + 1, K] each"""
    each = others.demand / np.maximum(others.tasks, 1e-12)
    free = np.clip(others.tasks - k, 0.0, 1.0)
    births = others.demand * (1.0 - others.chance * np.minimum(k / np.maximum(others.tasks, 1e-12), 1.0)) * free
    return births, np.maximum(k * (speed - others.chance * each), NEVER * np.maximum(each, 1e-12))
