"""Plans ranked by whether they bear the job at a higher rate, then by the price of the hosts that they use."""

from __future__ import annotations

import numpy as np

from optimizers.counted import as_plans
from optimizers.interface import Problem
from optimizers.selection import RISK_STEP, estimate
from optimizers.space import host_of_sockets


class FeasibleAtRate:
    """ahead: the problem at that rate. prices_h: of hosts; zeros if the hosts do not matter."""

    def __init__(self, ahead: Problem, prices_h: np.ndarray) -> None:
        self._ahead, self._prices_h = ahead, prices_h
        self._host_l = host_of_sockets(ahead.deployment)

    def __call__(self, counts_nol: np.ndarray) -> np.ndarray:
        """[2, N]: how likely they fail to bear it, in steps, 0 if they do; the price."""
        found = estimate(self._ahead, as_plans(self._ahead.deployment, counts_nol))
        sane = (found.backpressured < 0.5) & (found.success >= 0.5)
        risk = np.ceil((1.0 - (1.0 - found.backpressured) * found.success) / RISK_STEP)
        used_nh = counts_nol.any(axis=1) @ (self._host_l[:, None] == np.arange(len(self._prices_h)))
        return np.stack([np.where(sane, 0.0, risk), used_nh @ self._prices_h])
