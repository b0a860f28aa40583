"""Ages of latency markers in PDSP-Bench's jobs, whose producers send a burst a second.

Markers leave the sources all the time. One that meets a burst waits for a buffer that the burst fills, one that meets
none for the next flush, however fast the job is on average: so ages are of both, by the share of time in which tuples
come. Where operators are slower than the burst, they stretch it.
"""

from __future__ import annotations

import numpy as np

from twin.arrivals.bursty import BurstState, Bursty
from twin.query import Query
from twin.rates.answer import RateAnswer
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.workload import Constant

HOP_MS = 50.0
"""Of a hop where nothing comes: half the time between two flushes."""
EVERY_S = 1.0
"""Between the beginnings of two bursts."""
ALWAYS = 0.95
"""Tuples that come for this share of time come always."""
BELOW = 0.97
"""Of what operators can take while a burst is stretched: as much does not fill channels."""


def in_bursts(job: Scenario, burst_per_s: float) -> Scenario:
    """The job with its tuples in bursts of that rate; as it is where more is offered."""
    offered_per_s = job.workload.arrivals["source"].mean_rate_per_s
    lasting_s = EVERY_S * offered_per_s / burst_per_s
    if lasting_s > ALWAYS * EVERY_S:
        return job
    states = (
        BurstState(rate_per_s=burst_per_s, mean_s=lasting_s),
        BurstState(rate_per_s=0.0, mean_s=EVERY_S - lasting_s),
    )
    return _with(job, Bursty(states=states))


def ages_ms(job: Scenario) -> float:
    """Ages of latency markers, which pass windows by, summed over the operators behind the source and the committer."""
    law = job.workload.arrivals["source"]
    answer = RateModel().answer(job, [job.plan])
    order = [answer.operators.index(name) for name in behind(job.query)]
    channel_s = answer.channel_s[0, order]
    coming = max(law.mean_rate_per_s / law.peak_rate_per_s, float(answer.offered_pressure[0].max()))
    if isinstance(law, Bursty) and coming < ALWAYS:
        burst = _with(job, Constant(rate_per_s=BELOW * law.mean_rate_per_s / coming))
        meeting_s = RateModel().answer(burst, [job.plan]).channel_s[0, order]
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


def _with(job: Scenario, law: Bursty | Constant) -> Scenario:
    arrivals = {**job.workload.arrivals, "source": law}
    return job.model_copy(update={"workload": job.workload.model_copy(update={"arrivals": arrivals})})
