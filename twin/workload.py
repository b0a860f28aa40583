"""Workloads: the arrival law of each source, and the skew of keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from twin.arrivals.laws import ArrivalLaw, BurstState, Bursty, Constant, Diurnal, Poisson, Spikes, Step, Steps
from twin.arrivals.replay import Replay
from twin.key_skew import KeySkew
from twin.spec import Spec

__all__ = [
    "ArrivalLaw",
    "Arrivals",
    "BurstState",
    "Bursty",
    "Constant",
    "Diurnal",
    "Poisson",
    "Replay",
    "Spikes",
    "Step",
    "Steps",
    "Workload",
]

Arrivals = Annotated[
    Constant | Poisson | Bursty | Diurnal | Steps | Spikes | Replay,
    Field(discriminator="law"),
]


class Workload(Spec):
    """Workload of a job: the arrival law of each source, and the spread of keyed operators' input over key groups."""

    arrivals: dict[str, Arrivals]
    keys: dict[str, KeySkew] = Field(default_factory=dict, description="by operator; absent: all key groups alike")
