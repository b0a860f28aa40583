"""Which key group of a replica took how much of its work, where keys stay together along a stream.

Groups of a replica are taken to cost alike, tuple by tuple; but what a group exchanges with other hosts has to be
serialised, and what stays does not. That part is each group's own.
"""

from __future__ import annotations

import numpy as np

from twin.profiles import EngineProfile


def remote_cores(
    traffic: np.ndarray, host_g: np.ndarray, host_k: np.ndarray, size: float, engine: EngineProfile
) -> tuple[np.ndarray, np.ndarray]:
    """[G], [K] reference cores that key groups of both ends of a stream spend on tuples that leave their host.

    traffic [G, K]: tuples a second; size: bytes of each; host_g, host_k: where the groups are, by number.
    """
    bytes_gk = size * traffic * (host_g[:, None] != host_k[None, :])
    sent, taken = bytes_gk.sum(axis=1), bytes_gk.sum(axis=0)
    return sent * engine.serialise_ns_per_byte * 1e-9, taken * engine.deserialise_ns_per_byte * 1e-9


def attributed(percent_g: np.ndarray, own_g: np.ndarray, replica_g: np.ndarray) -> np.ndarray:
    """[G] percent of a host by group, the same in all of each replica's groups together.

    percent_g: as if all groups of a replica cost alike. own_g: of that, what is known to be of the group alone; it is
    left out where it is more than the replica did.
    """
    count = int(replica_g.max()) + 1
    all_r, own_r = np.bincount(replica_g, percent_g, count), np.bincount(replica_g, own_g, count)
    known_r = (all_r > 0.0) & (own_r <= all_r)
    rest_r = np.where(known_r, all_r - own_r, all_r) / np.where(all_r > 0.0, all_r, 1.0)
    return np.asarray(percent_g * rest_r[replica_g] + own_g * known_r[replica_g])
