"""Standard errors of the means of one run, from batches of the run.

Batches differ by chance, and the size of these differences tells how far the mean of all is off (batch means:
Schmeiser, Operations Research 30, 1982; Law, Simulation Modeling and Analysis, 9.5.3). A latency is a ratio, of a sum
over a count that both vary, and its error that of a ratio estimator (Law, 9.5.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ERRORS = 2.0
"""Number of standard errors of an interval that holds the mean in about 95 of 100 runs."""
FEWEST_BATCHES = 6
"""Fewest batches: fewer do not show how much they vary."""
MOST_BATCHES = 24
"""Most batches: more are only shorter, and depend on each other."""
LARGE_ERROR = 0.1
"""Relative error of T above which a run warns that it has few results."""
NO_ERRORS = "no standard errors"
"""Beginning of the caution that a run is too short for standard errors; many runs together leave it out."""
DEPENDENT = (-0.25, 0.4)
"""Limits of the correlation of neighbouring batches; outside of these, batches are too short."""
MICROS = 1e6


@dataclass(frozen=True, slots=True)
class StandardErrors:
    """Standard errors of T (results a second) and of the means of Lp and Le (seconds); None where they are unknown."""

    throughput_per_s: float | None = None
    processing_latency_s: float | None = None
    e2e_latency_s: float | None = None


UNKNOWN = StandardErrors()


def edges_s(start_s: float, end_s: float, memory_s: float, slides_s: Sequence[float]) -> tuple[float, ...]:
    """Times at which batches of equal length begin and end, from `start_s` or later to `end_s`; empty if they would be
    too few.

    memory_s: shortest length of a batch. slides_s: see `whole_slides_s`.
    """
    measured_s = end_s - start_s
    length_s = whole_slides_s(max(memory_s, measured_s / MOST_BATCHES), slides_s)
    count = int(measured_s / length_s + 1e-9)
    return tuple(end_s - k * length_s for k in range(count, -1, -1)) if count >= FEWEST_BATCHES else ()


def whole_slides_s(length_s: float, slides_s: Sequence[float]) -> float:
    """Length of a batch that is at least `length_s`. slides_s: seconds between evaluations of windows.

    Each batch should see as many evaluations as the others, or their number is taken for chance. So the length is a
    multiple of the longest slide, and of all slides if possible.
    """
    if not slides_s:
        return length_s
    least_s = beat_s(slides_s, 2.0 * length_s)
    return math.ceil(length_s / least_s - 1e-9) * least_s


def beat_s(slides_s: Sequence[float], most_s: float) -> float:
    """Shortest time that is a multiple of all slides; the longest slide if that time would be more than `most_s`."""
    beats = [max(1, round(slide_s * MICROS)) for slide_s in slides_s]
    all_s = math.lcm(*beats) / MICROS
    return all_s if all_s <= most_s * (1.0 + 1e-12) else max(beats) / MICROS


def standard_errors(batches: np.ndarray, *, growing: bool) -> StandardErrors:
    """Standard errors of the metrics from batches [4, B]: seconds, results, sums of processing and of end-to-end
    latencies.

    growing: the brokers' backlog grows, and Le with it, so that no mean of it exists. All are None if there are fewer
    than `FEWEST_BATCHES` batches, and those of latencies if nothing reached a sink.
    """
    if batches.shape[-1] < FEWEST_BATCHES:
        return UNKNOWN
    length_s, results, processing_s, e2e_s = batches
    return StandardErrors(
        throughput_per_s=ratio_error(results, length_s),
        processing_latency_s=ratio_error(processing_s, results),
        e2e_latency_s=None if growing else ratio_error(e2e_s, results),
    )


def ratio_error(numerators: np.ndarray, denominators: np.ndarray) -> float | None:
    """Standard error of sum(numerators) / sum(denominators), both [B] by batch; None if the denominators sum to 0.

    Neighbouring batches may depend on each other, others may not. So batches are merged in pairs while neighbours are
    much alike, or while one has what the other lacks.
    """
    below = float(denominators.sum())
    if below <= 0.0:
        return None
    left = numerators - denominators * (float(numerators.sum()) / below)
    while True:
        squares, count = float(left @ left), len(left)
        if squares <= 1e-24 * float(numerators @ numerators):
            return 0.0
        # an estimate of the correlation is too low by 1 / count
        alike = float(left[1:] @ left[:-1]) / squares + 1.0 / count
        if DEPENDENT[0] < alike < DEPENDENT[1] or count < 2 * FEWEST_BATCHES:
            break
        left = left[count % 2 :].reshape(-1, 2).sum(axis=1)
    # half of a negative correlation, so that the error never vanishes by chance
    together = 1.0 + 2.0 * alike if alike > 0.0 else max(1.0 / count, 1.0 + alike)
    return math.sqrt(squares * count / (count - 1) * together) / below


def few_results(throughput_per_s: float, errors: StandardErrors) -> list[str]:
    """Caution that results are so few, or so uneven, that the throughput is hardly known; empty if it is known well."""
    if not throughput_per_s or not errors.throughput_per_s:
        return []
    share = ERRORS * errors.throughput_per_s / throughput_per_s
    if share <= LARGE_ERROR:
        return []
    why = "few results, or they come unevenly; replicate or run longer"
    return [f"throughput is known to ± {share:.0%} only (two standard errors): {why}"]
