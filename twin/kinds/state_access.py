"""Accesses of an operator to its state, for backends where each takes time."""

from __future__ import annotations

from typing import NamedTuple


class StateAccess(NamedTuple):
    """Numbers of accesses, as means. reads, writes: for a record that comes. result_reads, result_writes: for a result
    of a window. bytes_each: size of what is read or written; None: of an accumulator, or of a record where there is
    none."""

    reads: float = 0.0
    writes: float = 0.0
    result_reads: float = 0.0
    result_writes: float = 0.0
    bytes_each: float | None = None
