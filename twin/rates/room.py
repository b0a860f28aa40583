"""How many tuples the channels of a stream hold, under N plans at once: with capacity in buffers, the more, the more
replicas send.

Letters at the end of a name are the axes of `twin.rates.layout`.
"""

from __future__ import annotations

import numpy as np

from twin.rates.layout import Layout


def room_sn(layout: Layout) -> np.ndarray:
    """Into one replica of the consumer, none within a task. [S, N], or [S, 1] where the plan does not matter."""
    job, engine = layout.job, layout.job.deployment.engine
    if engine.channel_buffers is None:
        room = np.full((len(job.streams), 1), float(engine.channel_tuples))
        return room if layout.fusing is None else room * ~layout.fusing.inner_sn
    channels_sn = layout.replicas_on[job.producer_s].copy()
    channels_sn[job.forward_s] = 1.0
    buffers_sn = channels_sn * engine.channel_buffers + engine.gate_buffers
    room_sn = np.asarray(np.maximum(buffers_sn * job.buffer_s[:, None], 1.0))
    return room_sn if layout.fusing is None else room_sn * ~layout.fusing.inner_sn
