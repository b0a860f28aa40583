"""Which rows of small whole numbers are alike, without sorting where their numbers are few."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

SPARSE = 8
"""Possible keys a row, up to which they are counted instead of sorted."""


def distinct(columns: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A row of each kind [U], and each row's kind [N]. columns: one at least, each [N] of whole numbers >= 0."""
    first_N, *others = columns
    key_N, span = first_N.astype(np.int64), int(first_N.max(initial=0)) + 1
    for column_N in others:
        size = int(column_N.max(initial=0)) + 1
        if span > 2**62 // size:
            row_U, key_N = _by_sorting(key_N)
            span = len(row_U)
        key_N = key_N * size + column_N
        span *= size
    return _by_counting(key_N, span) if span <= SPARSE * len(key_N) else _by_sorting(key_N)


def _by_counting(key_N: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    row_K = np.full(span, -1)
    row_K[key_N] = np.arange(len(key_N))
    there_K = row_K >= 0
    return row_K[there_K], (np.cumsum(there_K) - 1)[key_N]


def _by_sorting(key_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order_N = np.argsort(key_N)
    new_N = np.diff(key_N[order_N], prepend=-1) > 0
    kind_N = np.empty(len(key_N), np.int64)
    kind_N[order_N] = np.cumsum(new_N) - 1
    return order_N[new_N], kind_N
