"""Results of queueing theory, in seconds and records a second: closed forms, and small Markov chains solved exactly.

Nothing here comes from `twin/rates/queueing.py`: the simulator computes with that, so it cannot be its own judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import coo_array
from scipy.sparse.linalg import spsolve
from scipy.stats import gamma

State = tuple[int, int]
Moves = Callable[[State], Iterator[tuple[State, float]]]
"""Function from a state to every other state that it can move to, with the rate of the move."""


def wait_m_g_1(load: float, service_s: float, scv: float) -> float:
    """Mean wait by Pollaczek and Khinchine; scv: squared coefficient of variation of the service time."""
    return service_s * load * (1 + scv) / 2 / (1 - load)


def wait_d_m_1(load: float, service_s: float) -> float:
    """Mean wait with evenly spaced arrivals: sigma = exp(-(1 - sigma) / load), wait = service sigma / (1 - sigma)."""
    sigma = brentq(lambda s: s - math.exp(-(1 - s) / load), 1e-12, 1 - 1e-9)
    return float(service_s * sigma / (1 - sigma))


def wait_erlang_m_1(stages: int, load: float, service_s: float) -> float:
    """Mean wait in E_k/M/1: arrivals are every k-th of a Poisson stream, as one of k subtasks gets them in turn.

    sigma = (1 + (1 - sigma) / (k load))^-k, wait = service sigma / (1 - sigma).
    """
    sigma = brentq(lambda s: s - (1 + (1 - s) / (stages * load)) ** -stages, 0.0, 1 - 1e-9)
    return float(service_s * sigma / (1 - sigma))


def wait_erlang_g_1(stages: int, load: float, service_s: float, scv: float) -> float:
    """Mean wait in E_k/G/1 with gamma services of that squared coefficient of variation, by Spitzer's identity.

    The mean wait is the sum over n of E[(X_n - Y_n)^+] / n, X_n and Y_n being the sums of n services and of n gaps; and
    E[(X - Y)^+] is the integral of P(Y <= t < X).
    """
    total, share = 0.0, np.linspace(0.0, 1.0, 4001)
    for n in range(1, 100_000):
        services, gaps = gamma(n / scv, scale=service_s * scv), gamma(n * stages, scale=service_s / load / stages)
        t = services.ppf(1e-13) + share * (services.isf(1e-13) - services.ppf(1e-13))
        below = gaps.cdf(share * t[0]) if t[0] > 0 else np.zeros(1)
        term = (np.trapezoid(services.sf(t) * gaps.cdf(t), t) + np.trapezoid(below, share * t[0])) / n
        total += float(term)
        if term < 1e-9 * total:
            break
    return total


def age_of_pairs(window_s: float, load: float, service_s: float, scv: float) -> float:
    """Mean age of a join's results, each counted from the older of its two records, of an M/G/1 queue's departures.

    Both leave the queue evenly over a time window, so the older of them does so a third of it after its start, on
    average, and was in the queue before. The evaluation waits for the service under way at the window's end: by the
    inspection paradox load * service * (1 + scv) / 2 on average. Left out: a record that waited long is followed by
    more records than usual. That is 0.02 of a service at load 0.6, 0.3 at load 0.9, by simulation of the pairs
    themselves.
    """
    sojourn_s = service_s + wait_m_g_1(load, service_s, scv)
    return 2.0 * window_s / 3.0 + sojourn_s + load * service_s * (1 + scv) / 2


def wait_m_m_c(servers: int, load: float, service_s: float) -> float:
    """Mean wait by Erlang C; load: of each server."""
    offered = servers * load
    terms = [offered**k / math.factorial(k) for k in range(servers)]
    last = offered**servers / math.factorial(servers) / (1 - load)
    return last / (sum(terms) + last) * service_s / servers / (1 - load)


def loss_m_m_c_k(servers: int, places: int, rate: float, service_rate: float) -> tuple[float, float]:
    """M/M/c/K, K = `places` in all: the share of lost arrivals, and the mean wait of the others."""
    weights = [1.0]
    for k in range(places):
        weights.append(weights[-1] * rate / (service_rate * min(k + 1, servers)))
    shares = np.array(weights) / sum(weights)
    queue = sum(max(0, k - servers) * share for k, share in enumerate(shares))
    return float(shares[-1]), float(queue / rate / (1 - shares[-1]))


def sojourn_blocking_tandem(rate: float, service_rates: tuple[float, float], places: int, most: int = 400) -> float:
    """Mean time from arrival to departure in two exponential servers in a row.

    The queue of the first is unlimited (cut off at `most`); before the second, `places` can wait. A customer who finds
    them taken after the first service stays and blocks that server (blocking after service).
    """
    first, second = service_rates

    def moves(state: State) -> Iterator[tuple[State, float]]:
        queued, beyond = state  # at the first server; beyond it, the one that blocks it included
        if queued < most:
            yield (queued + 1, beyond), rate
        if queued and beyond <= places + 1:
            yield (queued - 1, beyond + 1), first
        if beyond:
            yield (queued, beyond - 1), second

    return sum(share * sum(state) for state, share in _stationary(moves)) / rate


def throughput_blocking_tandem(service_rates: tuple[float, float], places: int) -> float:
    """Records a second through two exponential servers, of which the first never lacks work: a birth-death chain."""
    first, second = service_rates
    weights = (first / second) ** np.arange(places + 3)
    return float(second * (1 - weights[0] / weights.sum()))


def shared_core(rate: float, service_rates: tuple[float, float]) -> tuple[float, float, float]:
    """Mean time through two exponential servers in a row that share one core, half of it each while both work; and the
    share of time in which each has a record in service, which is more than its load, as services stretch."""
    first, second = service_rates
    most = math.ceil(math.log(1e-7) / math.log(rate / first + rate / second))  # queues fall off at least as fast

    def moves(state: State) -> Iterator[tuple[State, float]]:
        one, two = state
        share = 0.5 if one and two else 1.0
        if one < most:
            yield (one + 1, two), rate
        if one:
            # at the cut-off a record is lost: were it to wait, both queues would stay full
            yield (one - 1, min(two + 1, most)), first * share
        if two:
            yield (one, two - 1), second * share

    shares = _stationary(moves)
    one, two = (sum(share for state, share in shares if state[place]) for place in (0, 1))
    return sum(share * sum(state) for state, share in shares) / rate, one, two


def sojourn_processor_sharing(load: float, service_s: float) -> float:
    """Mean time in M/G/1 processor sharing, which depends on the service time's mean alone."""
    return service_s / (1 - load)


def _stationary(moves: Moves) -> list[tuple[State, float]]:
    """States that (0, 0) leads to, and their shares of the time."""
    index: dict[State, int] = {(0, 0): 0}
    states = [(0, 0)]
    rows, columns, rates = [], [], []
    for state in states:  # grows while it is walked
        for target, rate in moves(state):
            if target not in index:
                index[target] = len(states)
                states.append(target)
            here, there = index[state], index[target]
            rows += [there, here]
            columns += [here, here]
            rates += [rate, -rate]
    size = len(states)
    balance = coo_array((rates, (rows, columns)), shape=(size, size)).tolil()
    balance[0, :] = 1.0  # one balance equation follows from the others; the shares add up to 1
    right = np.zeros(size)
    right[0] = 1.0
    shares = spsolve(balance.tocsc(), right)
    return list(zip(states, shares.tolist(), strict=True))
