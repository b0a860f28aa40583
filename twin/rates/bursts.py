"""What bursts of results do to the operator that makes them, where channels have few credits.

An evaluation of a window hands over all results at once. What is beyond the credits leaves at the pace of the slowest
operator downstream, and the window's operator is blocked meanwhile. Axes are those of `twin.rates.layout`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.rates.layout import Layout

if TYPE_CHECKING:
    from twin.rates.load import Load

PEAK = 1.75
"""Size of a burst, over the mean, that is sure to come."""


def burst_blocking(
    layout: Layout,
    in_on: np.ndarray,
    out_on: np.ndarray,
    fires_on: np.ndarray,
    used_on: np.ndarray,
    pace_sn: np.ndarray,
) -> dict[int, np.ndarray]:
    """By windowed operator, the share of time that its own bursts of results keep it blocked. [N]

    An evaluation hands over all results at once. What is beyond the credits of the channels down to an operator leaves
    at that operator's pace, and the window's operator is blocked meanwhile. An operator with other inputs has only the
    time for this one that those leave. used_on: of its time an operator works; pace_sn: utilisation of a stream.
    """
    job, capacity_sn = layout.job, np.broadcast_to(layout.room_sn, pace_sn.shape)
    found: dict[int, np.ndarray] = {}
    for o in job.windowed:
        fires = fires_on[o]
        size = np.divide(out_on[o], fires, out=np.zeros_like(fires), where=fires > 0)
        if not (size > capacity_sn.min()).any():
            continue
        worst = np.zeros(layout.size)
        ahead = [(s, np.zeros(layout.size)) for s in job.outputs[o]]  # with the results that fit in before
        while ahead:
            s, room = ahead.pop()
            consumer, sent = job.consumer_s[s], np.maximum(out_on[job.producer_s[s]] * job.share_s[s], 1e-12)
            each = out_on[o] / sent  # results of the window that make a tuple here
            room = room + capacity_sn[s] * layout.replicas_on[consumer] / layout.copies_sn[s] * each
            used = used_on[consumer]
            mine = sent / np.maximum(in_on[consumer], 1e-12)
            here = used * mine / np.maximum(1.0 - used * (1.0 - mine), 0.05)
            # of the time between evaluations, what the whole burst would need here
            held = np.maximum(here, pace_sn[s]) * np.maximum(1.0 - room / np.maximum(size, 1e-12), 0.0)
            if layout.fusing is not None:
                held = np.where(layout.fusing.inner_sn[s], 0.0, held)
            worst = np.maximum(worst, held)
            if consumer not in job.windowed:
                ahead.extend((each_s, room) for each_s in job.outputs[consumer])
        found[o] = worst
    return found


def stalls(layout: Layout, offered: Load) -> dict[str, np.ndarray]:
    """By join with a time window, the time a tuple takes it under plans where its own bursts will stall it, else 0. [N]

    They will if bursts that are larger than usual, as random ones are now and then, do not leave before the next: the
    tuples that wait meanwhile make the next burst larger still.
    """
    job = layout.job
    found = {}
    for o, blocked in burst_blocking(
        layout, offered.in_on, offered.out_on, offered.fires_on, offered.used_on, offered.stream_sn
    ).items():
        operator = job.operators[o]
        if operator.bunches:
            stalled = (blocked > 0) & (offered.used_on[o] + PEAK * blocked > 1.0)
            if stalled.any():
                each_s = offered.service_on[o] / offered.speed_on[o] / layout.replicas_on[o]
                found[job.names[o]] = np.where(stalled, each_s, 0.0)
    return found
