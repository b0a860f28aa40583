"""What plans come to once sources are held back, and what a run shows of it."""

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
    """What N plans come to. slowdown_on: as of `load`. share: of offered rates that sources ingest. [sources, N]"""

    layout: Layout
    slowdown_on: np.ndarray
    offered: Load
    reached: Load
    share: np.ndarray


class Results(NamedTuple):
    """At the sinks: results a second over the measured time [N]; their ages since ingestion and generation [2, N]."""

    per_s: np.ndarray
    ages_s: np.ndarray


def results(state: Reached, ages: Ages, measured: MeasuredSpan) -> Results:
    """The results of a run, of which those of its empty start are missing."""
    arriving = (state.offered.in_on * ages.fills.taken_on)[state.layout.job.sinks].sum(axis=0)
    return Results(np.asarray(arriving * held_back(ages.results_s[2], measured)), ages.results_s[:2])
