"""Closed-form laws of queues."""

from __future__ import annotations

import numpy as np

RHO_MAX = 0.98
"""Highest load of a queue in formulas: mean waits at higher ones are taken as at this one."""
LEAST = 1e-3
"""Fewest cores in use in formulas: powers of lower numbers are so small that processors are slow with them."""
USUAL_LOAD = 0.9
"""Load of a queue at which waits matter."""


def erlang_c(servers: int, load: float) -> float:
    """Probability that a record has to wait in M/M/c. load: utilisation of each server, 0 <= load < 1.

    It follows from the recursion of Erlang's loss formula, which neither overflows nor cancels. Raises ValueError for
    other loads.
    """
    if servers < 1 or not 0.0 <= load < 1.0:
        raise ValueError(f"erlang_c needs servers >= 1 and a load in [0, 1), got {servers} and {load}")
    loss = erlang_b(servers, servers * load)
    return loss / (1.0 - load * (1.0 - loss))


def erlang_b(servers: int, offered: float) -> float:
    """Probability that a record is lost in M/M/c/c. offered: arrival rate times mean service time."""
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
    """Time beyond the service on a core, over that service, in M/M/c, and in M/G/c under processor sharing for any
    services. cores: from 1, whole or not. busy: mean number in use.

    By Little's law, it is the mean of a birth-death chain with births at rate `busy` and deaths at rate min(k, cores),
    over `busy`, less the service itself.
    """
    cores, busy = np.broadcast_arrays(cores, busy)
    found = np.empty(busy.shape)
    for many in {*cores.ravel().tolist()}:  # np.unique would import numpy.ma
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


ROUNDS, CLOSE = 8, 1e-4
"""Most rounds of finding how often tasks are busy (`cores_beside`), as more change no answer by a percent; and the
change of a busy task's speed below which they end."""
NONE = 1e-9
"""Number of busy tasks below which it is a rounding error."""


def cores_beside(cores: np.ndarray, others: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean cores, at most one, that a task gets if it is always busy, beside others with demands of theirs. [K]

    cores: of the processor [K]. others: cores that each of some equal tasks needs; counts: number of these tasks, with
    a fraction for one that is there with that probability [C, K]. At any time J of the others are busy, and each busy
    task gets min(1, cores / (1 + J)). Others are busy independently of each other, each as often as it needs to be at
    the mean speed that a busy one has (a mean field), at most always.
    """
    whole, part = np.floor(counts), counts % 1.0
    busy = np.arange(np.ceil(counts).sum(axis=0).max(initial=0.0) + 1.0)[:, None]
    speed = np.minimum(1.0, cores / (1.0 + busy))
    turn = np.exp(2j * np.pi * busy / len(busy))  # points at which the characteristic function of J is taken
    got = np.ones(cores.shape)
    here, several, perhaps = (np.asarray(each.any(axis=1)) for each in (whole > 0.0, whole > 1.0, part > 0.0))
    for _ in range(ROUNDS):
        transform, chance = np.ones(speed.shape, complex), np.minimum(others / got, 1.0)
        for c in np.flatnonzero(here | perhaps).tolist():
            one = chance[c] * (turn - 1.0)
            if here[c]:
                transform *= (1.0 + one) ** whole[c] if several[c] else np.where(whole[c] > 0.0, 1.0 + one, 1.0)
            if perhaps[c]:
                transform *= 1.0 + part[c] * one
        chances = np.maximum(np.fft.fft(transform, axis=0).real / len(busy), 0.0)
        mean, before = (chances * busy).sum(axis=0), got
        got = np.where(mean > NONE, (chances * busy * speed).sum(axis=0) / np.maximum(mean, NONE), 1.0)
        got = np.where(np.abs(got - before) < CLOSE, before, got)  # other entries of the arrays must make no difference
        if (got == before).all():
            break
    return np.asarray((chances * speed).sum(axis=0))


def superposed(scv: np.ndarray, streams: np.ndarray) -> np.ndarray:
    """Squared coefficient of variation of the gaps in several streams together, each of which has `scv`.

    Superposed streams become Poisson again, the slower the higher the load: Whitt's mean of both (QNA, 1983, eq. 29) at
    a load of USUAL_LOAD.
    """
    regular = 1.0 / (1.0 + 4.0 * (1.0 - USUAL_LOAD) ** 2 * (streams - 1.0))
    return np.asarray(1.0 - regular * (1.0 - scv))


# streams together ----------------------------------------------------------------------------------------------------


def mixed_by(rates: np.ndarray, ages: np.ndarray) -> np.ndarray:
    """Mean over K streams by their rates [K, N], of A ages [A, K, N]; where nothing flows, all count alike. [A, N]"""
    if len(rates) == 1:
        return ages[:, 0]
    rates = np.where(rates.sum(axis=0) > 0.0, rates, 1.0)
    return np.asarray((ages * rates).sum(axis=1) / rates.sum(axis=0))


ROUNDING = 1e-12
"""Share of a mean square below which a variance is nothing but rounding."""


def variance_by(rates: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Variance of K streams together, by their rates, means and variances [K, N]. [N]"""
    (mean, second) = mixed_by(rates, np.stack([means, variances + means**2]))
    return np.asarray(np.where(second - mean**2 > second * ROUNDING, second - mean**2, 0.0))
