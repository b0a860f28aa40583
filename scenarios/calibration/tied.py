"""Which unit costs move together where no CPU time was measured: what sources deliver does not tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scenarios.calibration.newton import NewtonFit
from scenarios.calibration.unit_costs import UnitCost

TIED = (
    ("value_us.ints", "value_us.strings", "value_us.doubles"),
    ("serialise_ns_per_byte", "deserialise_ns_per_byte"),
    ("result_us", "scan_us"),
    ("tuple_us.filter", "tuple_us.sink"),
)
"""Each keeps the profile's ratios within it: values, bytes, evaluated windows, what just passes tuples on."""


def ties(costs: Sequence[UnitCost]) -> np.ndarray:
    """1 where a cost follows a factor: those of a tie the same, others their own. [costs, factors]"""
    heads = [next((tie for tie in TIED if cost.name in tie), (cost.name,)) for cost in costs]
    order = list(dict.fromkeys(heads))
    return np.array([[float(head == each) for each in order] for head in heads]).reshape(len(costs), len(order))


def untied(found: NewtonFit, ties_kf: np.ndarray) -> NewtonFit:
    """What was found of the factors, and of other constants behind them, as of single costs and these."""
    others = len(found.logs_k) - ties_kf.shape[1]
    all_kf = np.block(
        [[ties_kf, np.zeros((len(ties_kf), others))], [np.zeros((others, ties_kf.shape[1])), np.eye(others)]]
    )
    return replace(found, logs_k=all_kf @ found.logs_k, covariance_kk=all_kf @ found.covariance_kk @ all_kf.T)
