"""Key groups that migrate together: a balance of units instead of groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from optimizers.balancing.balance import Balance


def contracted(balance: Balance, unit_g: np.ndarray, pins: Mapping[int, int]) -> Balance:
    """The same balance of U units; a pinned unit is on its node already, and paid for.

    unit_g: the unit of each group, 0 to U - 1. pins: unit -> node. The groups of a unit that is not pinned are on one
    node. Raises BadInput if the pins cost more than the budget.
    """
    units = int(unit_g.max()) + 1
    home_u = np.zeros(units, dtype=int)
    home_u[unit_g] = balance.home_g
    home_u[list(pins)] = list(pins.values())
    pinned = np.zeros(units, dtype=bool)
    pinned[list(pins)] = True
    paid = balance.costs_g[(home_u[unit_g] != balance.home_g)].sum()

    def total(values_g: np.ndarray) -> np.ndarray:
        return np.bincount(unit_g, values_g, units)

    return replace(
        balance,
        loads={name: total(balance.work(name)) / balance.capacity_h[home_u] for name in balance.loads},
        home_g=home_u,
        budget=max(balance.budget - paid, 0.0) if paid <= balance.budget + 1e-9 else balance.budget - paid,
        cost_g=total(balance.costs_g),
        state_g=total(np.asarray(balance.state_g)),
        fixed_g=pinned | (total(balance.stays_g.astype(float)) > 0),
        traffic=None,
    )
