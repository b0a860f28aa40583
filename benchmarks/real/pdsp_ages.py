"""Ages of latency markers in PDSP-Bench's jobs, whose producers send a burst a second.

Markers leave the sources all the time. One that meets a burst waits for a buffer that the burst fills, one that meets
none for the next flush, however fast the job is on average: so ages are of both, by the share of time in which tuples
come. A burst lasts for as long as the slowest operator makes it last.
"""

from __future__ import annotations

import numpy as np

from twin.query import Query
from twin.rates.answer import RateAnswer
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.workload import Constant

HOP_MS = 50.0
"""Of a hop where nothing comes: half the time between two flushes."""
ALWAYS = 0.95
"""Tuples that come for this share of time come always."""
BELOW = 0.97
"""Of what operators can take while a burst is stretched: as much does not fill channels."""


def ages_ms(job: Scenario, answer: RateAnswer) -> float:
    """Ages of latency markers, which pass windows by, summed over the operators behind the source and the committer."""
    order = [answer.operators.index(name) for name in behind(job.query)]
    channel_s, coming = answer.channel_s[0, order], float(answer.offered_pressure[0].max())
    if coming < ALWAYS:
        meeting_s = RateModel().answer(_meanwhile(job, coming), [job.plan]).channel_s[0, order]
        channel_s = coming * meeting_s + (1.0 - coming) * HOP_MS / 1000.0
    return 1000.0 * _summed(channel_s + answer.queue_s[0, order], _source_s(answer)) + HOP_MS


def behind(query: Query) -> list[str]:
    """The operators behind the source, in data-flow order."""
    found, at = [], "source"
    while following := query.outputs(at):
        at = following[0].consumer
        found.append(at)
    return found


def _source_s(answer: RateAnswer) -> float:
    at = answer.operators.index("source")
    return float(answer.channel_s[0, at] + answer.queue_s[0, at])


def _summed(steps_s: np.ndarray, before_s: float) -> float:
    """The age at each operator, and once more at the last for the committer."""
    at_each = before_s + np.cumsum(steps_s)
    return float(at_each.sum() + at_each[-1])


def _meanwhile(job: Scenario, coming: float) -> Scenario:
    """The job while a burst comes."""
    rate_per_s = BELOW * job.workload.arrivals["source"].mean_rate_per_s / coming
    arrivals = {**job.workload.arrivals, "source": Constant(rate_per_s=rate_per_s)}
    return job.model_copy(update={"workload": job.workload.model_copy(update={"arrivals": arrivals})})
