"""Hosts that cannot even hold the engine and one replica of an operator."""

from __future__ import annotations

import numpy as np

from twin.rates.coefficients import PlacementCoefficients


def enough_memory(job: PlacementCoefficients) -> np.ndarray:
    """Whether the host of a socket has memory for the engine and one replica of an operator. [O, L]"""
    law, host_l = job.deployment.engine.memory, job.places.host_l
    need_o = job.operators.held_mb / job.operators.replicas + law.base_mb
    return np.asarray(need_o[:, None] < law.crash * job.places.ram_mb_h[host_l])
