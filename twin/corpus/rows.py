"""Soundness of training rows, for those who write them and those who read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from twin.metrics import METRICS, REGRESSION_METRICS


def first_fault(columns: Mapping[str, Sequence[Any]], partly_n: np.ndarray | None = None) -> tuple[int, str] | None:
    """First row with a number that no run has, and which; None: all rows are sound.

    columns: of `twin.trace.TRAINING_ROWS`, METRICS and both times at least. partly_n: whether a row is of a real run,
    of which some metrics may be unknown; None: of no row. Runs without success have no latencies.
    """
    warmup_s, horizon_s = (np.array(columns[name], dtype=float) for name in ("warmup_s", "horizon_s"))
    success_n = np.array(columns["success"], dtype=float) == 1
    found = []
    if wrong := _first(~((warmup_s >= 0.0) & (warmup_s < horizon_s) & np.isfinite(horizon_s))):
        found.append((wrong[0], f"warmup_s = {warmup_s[wrong[0]]:g} of {horizon_s[wrong[0]]:g} s"))
    for metric in METRICS:
        values_n = np.array(columns[metric], dtype=float)
        wrong_n = ~np.isfinite(values_n)
        if metric in REGRESSION_METRICS:
            wrong_n = (wrong_n if partly_n is None else wrong_n & ~partly_n) | (values_n < 0.0)
            wrong_n &= success_n
        if wrong := _first(wrong_n):
            found.append((wrong[0], f"{metric} = {columns[metric][wrong[0]]}"))
    return min(found, default=None)


def _first(wrong_n: np.ndarray) -> list[int]:
    """Index of the first of these, if there is one."""
    return np.flatnonzero(wrong_n)[:1].tolist()
