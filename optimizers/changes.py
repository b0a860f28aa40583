"""Small changes of a plan: an operator goes elsewhere, or both ends of a stream, or one of an operator's replicas."""

from __future__ import annotations

import numpy as np

from twin.deployment import Deployment


def changes(counts_ol: np.ndarray, deployment: Deployment, *, spread: bool, pairs: bool = True) -> list[np.ndarray]:
    """All plans one change away; some may not be in the space. spread: whether replicas may part. pairs: whether both
    ends of a stream may go at once."""
    row = {operator.name: o for o, operator in enumerate(deployment.query.topological)}
    ends = [(row[each.producer], row[each.consumer]) for each in deployment.query.streams_by_name]
    operators, sockets = range(len(counts_ol)), range(counts_ol.shape[1])
    found = [_moved(counts_ol, (o,), socket) for o in operators for socket in sockets]
    if spread:
        parted = [(o, start) for o, start in np.argwhere(counts_ol > 0).tolist() if counts_ol[o].sum() > 1]
        found += [_part(counts_ol, o, start, end) for o, start in parted for end in sockets if end != start]
    return found + [_moved(counts_ol, pair, socket) for pair in ends for socket in sockets if pairs]


def _moved(counts_ol: np.ndarray, operators: tuple[int, ...], socket: int) -> np.ndarray:
    found = counts_ol.copy()
    for o in operators:
        found[o] = 0
        found[o, socket] = counts_ol[o].sum()
    return found


def _part(counts_ol: np.ndarray, o: int, start: int, end: int) -> np.ndarray:
    found = counts_ol.copy()
    found[o, start] -= 1
    found[o, end] += 1
    return found
