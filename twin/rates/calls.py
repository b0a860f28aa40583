"""Waits of tuples for a call to an external system and for its answer."""

from __future__ import annotations

import numpy as np

from twin.calls import Calls
from twin.rates.queueing import RHO_MAX, ggc_wait_s


def away_s(calls: Calls, in_per_s: np.ndarray, replicas: np.ndarray, blocked: np.ndarray) -> np.ndarray:
    """Mean seconds from the arrival of a tuple to its answer, for an operator with `in_per_s` tuples a second. [N]

    Arrivals count as Poisson. A tuple waits for a place as in M/G/c, by Allen and Cunneen, where servers are as fast as
    answers leave under full load; and for its turn among the calls of all replicas, as in M/D/1. If the operator is
    blocked, tuples wait in its channels instead.
    """
    each, total, held = np.broadcast_arrays(in_per_s / replicas, in_per_s, blocked)
    rows, back = np.unique(np.stack([each, total, held]), axis=1, return_inverse=True)
    found = [_away_s(calls, float(one), float(all_), bool(full)) for one, all_, full in rows.T]
    return np.array(found)[back.reshape(-1)]


def bunched_s(calls: Calls, each_per_s: np.ndarray, load: np.ndarray) -> np.ndarray:
    """Extra seconds that tuples wait behind a replica whose answers leave in order, and so together. [N]

    load: of the station behind it. A call that began at A and took L delays a tuple that came at B: its work ends at
    A + L + S or later, where S are the services of the tuples between them. So it ends max(L - (B - A) + S) after B,
    over all earlier calls. With the mean of S, load (B - A), this is the time until the answer if tuples came
    1 / (1 - load) times as often.
    """
    found = []
    for rate, used in np.broadcast(each_per_s, np.minimum(load, RHO_MAX)):
        most_s = np.inf if calls.capacity is None or rate <= 0.0 else calls.capacity / rate
        kept_s = [min(calls.kept_s(float(each)), most_s) for each in (rate, rate / (1.0 - used))]
        found.append(kept_s[1] - kept_s[0])
    return np.array(found)


def _away_s(calls: Calls, each_per_s: float, total_per_s: float, blocked: bool) -> float:
    kept_s = calls.kept_s(each_per_s)
    if calls.capacity is not None and each_per_s > 0.0:
        kept_s = min(kept_s, calls.capacity / each_per_s)
    return kept_s if blocked else kept_s + _place_s(calls, each_per_s) + _turn_s(calls, total_per_s)


def _place_s(calls: Calls, per_s: float) -> float:
    if not np.isfinite(calls.replica_per_s):
        return 0.0
    used = min(per_s / calls.replica_per_s, RHO_MAX)
    return ggc_wait_s(calls.servers, used, 1.0, calls.bunching, calls.served_s)


def _turn_s(calls: Calls, per_s: float) -> float:
    if calls.rate_per_s is None:
        return 0.0
    used = min(per_s / calls.rate_per_s, RHO_MAX)
    return used / (1.0 - used) / 2.0 / calls.rate_per_s
