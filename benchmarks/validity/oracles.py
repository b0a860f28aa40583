"""What queueing theory says, in seconds and tuples a second: closed forms, and small Markov chains solved exactly.

Nothing here comes from `twin/theory.py`: the simulator computes with that, so it cannot be its own judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import coo_array
from scipy.sparse.linalg import spsolve

State = tuple[int, int]
Moves = Callable[[State], Iterator[tuple[State, float]]]
"""From a state, every other state it can move to, with the rate of doing so."""


def wait_m_g_1(load: float, service_s: float, scv: float) -> float:
    """Mean wait by Pollaczek and Khinchine; scv: squared coefficient of variation of the service time."""
    return service_s * load * (1 + scv) / 2 / (1 - load)


def wait_d_m_1(load: float, service_s: float) -> float:
    """Mean wait with evenly spaced arrivals: sigma = exp(-(1 - sigma) / load), wait = service sigma / (1 - sigma)."""
    sigma = brentq(lambda s: s - math.exp(-(1 - s) / load), 1e-12, 1 - 1e-9)
    return float(service_s * sigma / (1 - sigma))


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

    The queue of the first is unlimited (cut off at `most`); before the second, `places` can wait. Who finds them taken
    after the first service stays and blocks that server (blocking after service).
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

    return _mean_total(moves) / rate


def throughput_blocking_tandem(service_rates: tuple[float, float], places: int) -> float:
    """Tuples a second through the same two servers when the first never lacks work: a birth-death chain."""
    first, second = service_rates
    weights = (first / second) ** np.arange(places + 3)
    return float(second * (1 - weights[0] / weights.sum()))


def sojourn_shared_core(rate: float, service_rates: tuple[float, float], most: int = 150) -> float:
    """Mean time through two exponential servers in a row that share one core: half of it each while both work."""
    first, second = service_rates

    def moves(state: State) -> Iterator[tuple[State, float]]:
        one, two = state
        share = 0.5 if one and two else 1.0
        if one < most:
            yield (one + 1, two), rate
        if one:
            # at the cut-off a tuple is lost: were it to wait, both queues would stay full
            yield (one - 1, min(two + 1, most)), first * share
        if two:
            yield (one, two - 1), second * share

    return _mean_total(moves) / rate


def sojourn_processor_sharing(load: float, service_s: float) -> float:
    """M/G/1 processor sharing: depends on the service time's mean alone."""
    return service_s / (1 - load)


def _mean_total(moves: Moves) -> float:
    """The stationary mean of the sum of a state's two numbers, over all states that (0, 0) leads to."""
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
    return float(shares @ np.array([sum(state) for state in states]))
