"""Linear layers over many rows of tables, in blocks that fit a core's cache: the MLPs of models.gnn in numpy.

Axes: N rows, F inputs, D outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BLOCK = 1024
"""Number of rows that go through a network's layers at a time."""
PRODUCTS = 2**18
"""Multiplications up to which linear algebra starts no threads of its own: here each network is a thread."""
LEAK = np.float32(0.01)
"""Slope of `flax.linen.leaky_relu` below 0."""

Layers = tuple[tuple[np.ndarray, np.ndarray], ...]
"""Kernel and bias of each linear layer of an MLP."""
Summands = list[tuple[np.ndarray, np.ndarray]]
"""Sums of table rows: tables [_, D], each with rows [N, R] to add for N results; one past the end is zero."""


def blocks(count: int) -> Iterator[slice]:
    """Slices of BLOCK rows that cover `count` rows; at least one."""
    return (slice(start, start + BLOCK) for start in range(0, max(1, count), BLOCK))


def terms(summands: Summands) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a table and, for each of N results, the one row of it [N] to add."""
    return [
        (_with_zero(table) if rows_NxR.max(initial=0) == len(table) else table, row_N)
        for table, rows_NxR in summands
        for row_N in rows_NxR.T
    ]


def summed(of: list[tuple[np.ndarray, np.ndarray]], rows: slice) -> np.ndarray:
    """[N, D] sums for these results."""
    total, *others = (table.take(row_N[rows], axis=0) for table, row_N in of)
    for each in others:
        total += each
    return total


def _with_zero(table: np.ndarray) -> np.ndarray:
    return np.vstack([table, np.zeros_like(table[:1])])


def mlp(layers: Layers, x_NxF: np.ndarray, *, linear_end: bool) -> np.ndarray:
    """Output of an MLP, as models.gnn.MLP computes it."""
    for index, (kernel, bias) in enumerate(layers):
        x_NxF = product(x_NxF, kernel)
        x_NxF += bias
        if index < len(layers) - 1 or not linear_end:
            x_NxF = leaky(x_NxF)
    return x_NxF


def leaky(x_NxD: np.ndarray) -> np.ndarray:
    """Computes a leaky ReLU in place."""
    return np.maximum(x_NxD, x_NxD * LEAK, out=x_NxD)


def product(x_NxF: np.ndarray, kernel_FxD: np.ndarray) -> np.ndarray:
    """[N, D] matrix product, computed some rows at a time."""
    size = max(1, PRODUCTS // kernel_FxD.size)
    whole, product = len(x_NxF) // size * size, np.empty((len(x_NxF), kernel_FxD.shape[1]), np.float32)
    tiles = np.ascontiguousarray(x_NxF[:whole]).reshape(-1, size, x_NxF.shape[1])
    np.matmul(tiles, kernel_FxD, out=product[:whole].reshape(-1, size, product.shape[1]))
    np.matmul(x_NxF[whole:], kernel_FxD, out=product[whole:])
    return product
