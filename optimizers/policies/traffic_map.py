"""Traffic between the key groups of a running job, in bytes a second, and what it costs where it leaves a host."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from optimizers.balancing.traffic import Traffic
from twin.control import PeriodStatistics
from twin.deployment import Deployment


def serialising(deployment: Deployment) -> float:
    """Percent of a reference core that a byte a second costs both ends together."""
    engine = deployment.engine
    return 100.0 * 1e-9 * (engine.serialise_ns_per_byte + engine.deserialise_ns_per_byte)


def traffic_of(
    deployment: Deployment, periods: Sequence[PeriodStatistics], operators: Sequence[str], beside: int
) -> Traffic:
    """Means over the periods, of the key groups of one operator after the other, and `beside` that send nothing."""
    counts = [len(periods[-1].key_groups[name]) for name in operators]
    first = dict(zip(operators, accumulate(counts, initial=0), strict=False))
    senders, receivers, rates = [], [], []
    for ends in sorted({ends for period in periods for ends in period.traffic}):
        if ends[0] in first and ends[1] in first:
            size = deployment.engine.output_bytes(deployment.query, ends[0])
            rate = size * np.mean([period.traffic[ends] for period in periods], axis=0)
            sender, receiver = np.nonzero(rate)
            senders.append(sender + first[ends[0]])
            receivers.append(receiver + first[ends[1]])
            rates.append(rate[sender, receiver])
    nothing = np.zeros(0, dtype=int)
    return Traffic(
        operator_g=np.repeat(np.arange(len(operators) + 1), [*counts, beside]),
        sender_e=np.concatenate([nothing, *senders]),
        receiver_e=np.concatenate([nothing, *receivers]),
        rate_e=np.concatenate([nothing.astype(float), *rates]),
    )
