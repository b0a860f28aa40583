"""Closed-form laws of queues."""

from __future__ import annotations

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


def shared_wait_s(cores: np.ndarray, busy: np.ndarray) -> np.ndarray:
    """Time beyond the service on a core, over that service, in M/M/c, and by M/G/c under processor sharing whatever
    services are like. cores: from 1, whole or not. busy: of them, in use on average.

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
        found[rows] = present / chances / used - 1.0
    return np.maximum(found, 0.0)


MOST_TASKS = 64
"""Of tasks that come and go, of which more count as so many: those leave a task almost exactly what a fluid would."""
NEVER = 1e-3
"""Least rate at which a task ends to be busy, over that at which it begins to: where it gets less than it needs."""


def cores_beside(cores: np.ndarray, always: np.ndarray, demand: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Cores, at most one, that a task gets on average if it is always busy, as are `always` tasks together with it.

    Beside these, of so many equal `tasks` which need `demand` cores together, K are busy, and each that is busy gets
    s = min(1, cores / (always + K)). A task that is idle begins to be busy at the rate of its tuples, and one that is
    busy ends at s less that, as the queue of an M/M/1 does: a birth-death chain in which they get what they need.
    """
    k = np.arange(1.0 + np.ceil(min(tasks.max(initial=0.0), MOST_TASKS)))[:, None]
    each = demand / np.maximum(tasks, 1e-12)
    speed = np.minimum(1.0, cores / (always + k))
    births = each * np.maximum(tasks - k, 0.0)
    deaths = k * np.maximum(speed - each, NEVER * each)
    steps = np.log(np.maximum(births[:-1], 1e-300) / np.maximum(deaths[1:], 1e-300))
    chances = np.cumsum(np.concatenate([np.zeros_like(births[:1]), steps]), axis=0)
    chances = np.exp(chances - chances.max(axis=0))
    return np.asarray((chances * speed).sum(axis=0) / chances.sum(axis=0))


def superposed(scv: np.ndarray, streams: np.ndarray) -> np.ndarray:
    """Squared variation of the gaps in so many streams together, of each of which it is `scv`.

    What is superposed becomes Poisson again, the slower the higher the load: Whitt's mean of both (QNA, 1983, eq. 29)
    at a load of USUAL_LOAD.
    """
    regular = 1.0 / (1.0 + 4.0 * (1.0 - USUAL_LOAD) ** 2 * (streams - 1.0))
    return np.asarray(1.0 - regular * (1.0 - scv))
