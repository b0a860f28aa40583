"""Bursts: how long records wait for the work that gathers while arrivals are above their mean.

While a peak brings more than an operator can do, work gathers, and it drains between peaks: a fluid queue (Anick, Mitra
and Sondhi, Bell System Technical Journal 61, 1982; here of one source that is on and off). With `up` and `down` for the
seconds of work by which it grows and falls a second, and the times for which it does so, what peaks leave is the
workload of a GI/G/1 queue, of services up up_s and gaps down down_s, by Kingman's law (1961); of exponential times the
result is exact.

Above a mean load of 1, work grows without end, and what is found here is only what bursts add: the work that the
operator missed while it had none. Backward in time, that is the same queue with up and down exchanged.

While a host pauses for a collector, records wait for its end, and then for each other.

Letters at the end of a name are the axes of `twin.rates.layout`; z: sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from twin.arrivals.peaks import peaks_of
from twin.kinds.windowed import Windowed
from twin.metrics import BACKPRESSURE_SHARE
from twin.rates.queueing import RHO_MAX, mixed_by

if TYPE_CHECKING:
    from twin.job import Job
    from twin.query import AnyOperator
    from twin.rates.channels import MeasuredSpan
    from twin.rates.layout import Layout
    from twin.rates.load import Load


# peaks of mixes ------------------------------------------------------------------------------------------------------


class MixedPeaks(NamedTuple):
    """Peaks of mixes of sources, by the fields of `Peaks`. [...] each"""

    height: np.ndarray
    share: np.ndarray
    mean_s: np.ndarray
    scv: np.ndarray
    gap_scv: np.ndarray


class SourcePeaks:
    """Peaks of all sources of a job. of: by the source's name. part_oz: of each operator's input, the share that each
    source is the origin of. [O, Z]"""

    def __init__(self, job: Job) -> None:
        self.of = {source: peaks_of(law) for source, law in job.deployment.workload.arrivals.items()}
        parts, sent = dict[str, Mapping[str, float]](), dict[str, Mapping[str, float]]()
        for component in job.components:
            name = component.operator.name
            if name in self.of:
                parts[name] = {name: 1.0}
            else:
                parts[name] = _mixed([(job.rates[u].out_per_s, sent[u]) for u in job.query.feeds(name)])
            sent[name] = {} if _evens_out(component.operator) else parts[name]
        self.part_oz = np.array([[part.get(source, 0.0) for source in self.of] for part in parts.values()])

    def mixed(self) -> MixedPeaks:
        """Peaks of the input of every operator. [O] each

        Excesses of independent peaks over the mean add up by squares, as deviations do; the rest are means by these
        squares, so that a mix of long and of short peaks leaves as much work as both do where loads are high.
        """
        of_z = np.array(
            [[each.height - 1.0, each.share, each.mean_s, each.scv, each.gap_scv] for each in self.of.values()]
        )
        squares_oz = np.square(self.part_oz * of_z[:, 0])
        total_o = squares_oz.sum(axis=1)
        varies_o = total_o > 0.0
        means_o = squares_oz @ of_z[:, 1:] / np.where(varies_o, total_o, 1.0)[:, None]
        share_o, *rest = means_o.T
        return MixedPeaks(1.0 + np.sqrt(total_o), np.where(varies_o, share_o, 1.0), *rest)


def _evens_out(operator: AnyOperator) -> bool:
    """Whether results leave when windows end, and not as records come."""
    collects = bool(operator.lasts_s(np.ones(1))[0] > 0.0)  # until records of a key cease
    return collects or (isinstance(operator, Windowed) and operator.window.policy == "time")


def _mixed(sent: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Shares of the sources in the output of several operators, by the rates of these."""
    total = sum(per_s for per_s, _ in sent)
    mixed: dict[str, float] = {}
    for per_s, part in sent:
        for source, share in part.items():
            mixed[source] = mixed.get(source, 0.0) + share * (per_s / total if total else 1.0 / len(sent))
    return mixed


# backlogs ------------------------------------------------------------------------------------------------------------


LEAST, LEAST_S = 1e-6, 1e-12
"""Least distance of a load from 1, and least seconds, by which formulas divide."""
PARTS = (0.125, 0.375, 0.625, 0.875)
"""Moments, in parts of the measured time, whose mean stands for that over all of it."""


class Backlog(NamedTuple):
    """Work that waits at operators, in seconds, when a record comes: with the probability `chance` an exponential time
    of mean `mean_s`, else none. At the end of the run it is there with the probability `last`, of mean `last_s`. [O, N]
    each"""

    chance: np.ndarray
    mean_s: np.ndarray
    last: np.ndarray
    last_s: np.ndarray

    @property
    def total_s(self) -> np.ndarray:
        """Mean wait of a record."""
        return self.chance * self.mean_s

    def within(self, room_s: np.ndarray) -> np.ndarray:
        """Mean of what lies in the first `room_s` seconds of it."""
        return self.total_s * -np.expm1(-room_s / np.maximum(self.mean_s, LEAST_S))

    def beyond(self, work_s: np.ndarray) -> np.ndarray:
        """Probability that there is more at the end of the run."""
        return np.asarray(self.last * np.exp(-work_s / np.maximum(self.last_s, LEAST_S)))


def backlog(load: np.ndarray, peaks: MixedPeaks, measured: MeasuredSpan) -> Backlog:
    """Backlog of operators with that mean load, in a run from an empty start. [O, N]"""
    share = np.clip(peaks.share, LEAST, 1.0 - LEAST)
    above, below = load * peaks.height - 1.0, 1.0 - load * (1.0 - peaks.height * share) / (1.0 - share)
    gap_s = peaks.mean_s * (1.0 - share) / share
    over, varies = load > 1.0, (above > 0.0) & (below > 0.0) & (peaks.mean_s > 0.0)

    def either(usual: np.ndarray, overloaded: np.ndarray, steady: float) -> np.ndarray:
        return np.where(varies, np.where(over, overloaded, usual), steady)

    up, down = either(above, below, 1.0), either(below, above, 2.0)
    up_s, down_s = either(peaks.mean_s, gap_s, 1.0), either(gap_s, peaks.mean_s, 1.0)
    up_scv, down_scv = either(peaks.scv, peaks.gap_scv, 1.0), either(peaks.gap_scv, peaks.scv, 1.0)
    drift = np.where(varies, np.maximum(np.abs(1.0 - load), LEAST), 0.5)
    filled = 1.0 - drift * (up_s + down_s) / (down * down_s)
    left_s = up * up_s * ((1.0 + up_scv) + (up_scv + down_scv) * filled / (1.0 - filled)) / 2.0
    share_up = up_s / (up_s + down_s)
    of_records = np.where(over, share_up, peaks.height * share)
    chance, last = (np.where(varies, part + (1.0 - part) * filled, 0.0) for part in (of_records, share_up))
    variance = (up + down) ** 2 * share_up * (1.0 - share_up) * (up_scv + down_scv) / (1.0 / up_s + 1.0 / down_s)
    mean = sum(_reached(drift, variance, measured.start_s + part * measured.length_s) for part in PARTS) / len(PARTS)
    # above a load of 1, the mean is of a moment, and records come while there is more and are read the later
    less = np.where(over & varies, variance / (2.0 * np.maximum(load, 1.0) * np.maximum(chance, LEAST) * left_s), 0.0)
    mean = np.maximum(mean - less, 0.0) / np.maximum(load, 1.0)
    # a run that is shorter than a cycle may have no peak, and no more gathers than in all of it
    most_s, coming = up * measured.end_s / 2.0, np.minimum(measured.end_s / (up_s + down_s), 1.0)
    at_last_s = np.minimum(left_s * _reached(drift, variance, measured.end_s), most_s)
    return Backlog(chance * coming, np.minimum(left_s * mean, most_s), last * coming, at_last_s)


def _reached(drift: np.ndarray, variance: np.ndarray, at_s: float) -> np.ndarray:
    """Mean of Brownian motion that begins at 0, where it is reflected, over its mean in the long run, for a drift
    toward 0: 2 F(y) - 1 + 2 y f(y) - 2 y^2 F(-y), with the normal distribution F and its density f (Harrison, Brownian
    Motion and Stochastic Flow Systems, 1985); by an exponential that is off by less than .003."""
    y = drift * np.sqrt(at_s / np.maximum(variance, LEAST_S))
    return np.asarray(-np.expm1(-4.0 / math.sqrt(2.0 * math.pi) * y - 0.3 * y**2))


class Waited(NamedTuple):
    """Seconds that records wait in the job, and before it at the broker, and the variance of both together. [N] each"""

    inside_s: np.ndarray
    outside_s: np.ndarray
    variance: np.ndarray


class Gathered:
    """Waits for backlogs along the streams. Behind the operator that is slowest at peaks, records come no faster than
    it lets them, so on a way the slowest counts alone. What has no room in the channels waits at the broker.

    behind: probability that sources are so far behind at the end of the run that it counts as backpressure. [N]
    """

    def __init__(self, layout: Layout, offered: Load, room_sn: np.ndarray, measured: MeasuredSpan) -> None:
        """room_sn: records that all channels of a stream hold. [S, N]"""
        self.job = job = layout.job
        self.load_on = offered.cpu_on.copy()
        for s, consumer in enumerate(job.consumer_s):  # what waits for the network is on its way already
            np.maximum(self.load_on[consumer], offered.stream_sn[s], out=self.load_on[consumer])
        pause_s, cycle_s = job.pauses_s
        self.pause_s = pause_s**2 / (2.0 * cycle_s)
        """Mean time in seconds until a pause is over that a record finds, if any."""
        self.backlog = None
        if (job.peaks.mean_s > 0.0).any():
            self.backlog = backlog(self.load_on, MixedPeaks(*(each[:, None] for each in job.peaks)), measured)
        drained_sn = layout.carried_sn(offered.out_on) / np.maximum(self.load_on[job.consumer_s], LEAST)
        self.room_sn, self.end_s = room_sn / np.maximum(drained_sn, LEAST_S), measured.end_s
        self.remote_sn = np.broadcast_to(layout.remote_sn, (len(job.streams), layout.size))
        self.before_on, self.room_on = np.zeros((2, *self.load_on.shape))
        self.behind = np.zeros(layout.size)

    def pass_on(self, o: int, rates: np.ndarray) -> Waited:
        """What records wait at operator `o`, beside what they have waited before; for each operator in data-flow order.
        rates: of its inputs [K, N]; none of a source."""
        paused_s = self.pause_s * (self.load_on[o] / (1.0 - np.minimum(self.load_on[o], RHO_MAX)))
        before_s, apart_s, streams = np.zeros_like(self.behind), np.zeros_like(self.behind), self.job.inputs[o]
        if streams:
            producers = [self.job.producer_s[s] for s in streams]
            room_s = self.room_on[producers] + self.room_sn[streams]
            given = self.before_on[producers], room_s, self.remote_sn[streams]
            before_s, self.room_on[o], remote = mixed_by(rates, np.stack(given))
            apart_s = self.pause_s * remote
        outside_s = np.zeros_like(self.behind) if streams else np.full_like(self.behind, self.pause_s)
        if self.backlog is None:
            more_s = np.maximum(paused_s - before_s, 0.0)
            self.before_on[o] = before_s + more_s
            return Waited(apart_s + more_s, outside_s, (apart_s + more_s + outside_s) ** 2)
        own = Backlog(*(each[o] for each in self.backlog))
        more_s = np.maximum(own.total_s + paused_s - before_s, 0.0)
        self.before_on[o] = before_s + more_s
        inside_s = np.minimum(own.within(self.room_on[o]) + paused_s, more_s)
        late_s = self.room_on[o] + BACKPRESSURE_SHARE * self.end_s * self.load_on[o]
        self.behind = np.maximum(self.behind, own.beyond(late_s))
        varied = np.square(more_s) * (2.0 / np.maximum(own.chance, LEAST) - 1.0) * (own.chance > 0.0)
        return Waited(apart_s + inside_s, outside_s + more_s - inside_s, varied + (apart_s + outside_s) ** 2)
