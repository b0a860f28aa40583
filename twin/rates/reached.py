"""State of plans once sources are held back, and the results that a run shows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twin.rates.channels import MeasuredSpan, held_back
from twin.rates.latency import Ages
from twin.rates.layout import Layout
from twin.rates.load import Load


@dataclass(frozen=True, slots=True)
class Reached:
    """State of N plans, offered and reached. share: of its offered rate that each source ingests. [sources, N]"""

    layout: Layout
    offered: Load
    reached: Load
    share: np.ndarray


class Results(NamedTuple):
    """Results at the sinks: number a second over the measured time [N]; their ages since ingestion and generation, in
    seconds [2, N]."""

    per_s: np.ndarray
    ages_s: np.ndarray


def results(state: Reached, ages: Ages, measured: MeasuredSpan) -> Results:
    """Results of a run, without those that its empty start lacks."""
    arriving = (state.offered.in_on * ages.fills.taken_on)[state.layout.job.sinks].sum(axis=0)
    return Results(np.asarray(arriving * held_back(ages.results_s[2], measured)), ages.results_s[:2])
