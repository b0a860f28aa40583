"""The waiting that a task's segments hide, from slow averages of its load, ready to be put into their stamps."""

from __future__ import annotations

import math

from twin.engine.compute.conservation import Conservation
from twin.engine.compute.inputs import Inputs
from twin.engine.compute.load import Load
from twin.engine.compute.neighbours import Neighbours
from twin.engine.compute.pace import Pace
from twin.engine.compute.waiting import (
    CRITICAL,
    departure_gap_scv,
    hidden_share,
    merged_gap_scv,
    residual_wait_s,
    tuple_wait_s,
)
from twin.engine.draws import Draws
from twin.rates.queues import erlang_c

RENEW_S = 1.0
"""Simulated seconds for which a computed mean is used: the averages behind it are slow."""

WHOLE = 0.999
"""Cores from which on a task on a shared processor is as one with a core of its own."""


class HiddenWait:
    """One task's. `neighbours`: all tasks on its processor, itself among them; None if it is not shared."""

    __slots__ = (
        "_mean_s",
        "_meet",
        "_often",
        "_until_s",
        "_whole",
        "conservation",
        "faster",
        "gap_scv_after",
        "inputs",
        "load",
        "neighbours",
        "pace",
        "servers",
        "service_scv",
        "speed",
        "streams",
        "streams_after",
        "together",
        "tuple_scv",
        "unseen_scv_after",
        "wait_s",
    )

    def __init__(self, tuple_scv: float, inputs: Inputs) -> None:
        self.load = Load()
        self.inputs = inputs
        self.tuple_scv = tuple_scv
        self.service_scv = tuple_scv  # where streams differ, of all that comes
        self.neighbours: Neighbours | None = None
        self.conservation: Conservation | None = None  # where it holds
        self.wait_s = 0.0  # as if its line were a queue by itself
        self.speed = 0.0  # cores while it is busy; 0 while it is not known to keep up
        self.pace: Pace | None = None  # where tuples come from tasks on it
        self.faster = 1.0  # its line moves on by so much than its busy time says, see Pace
        self.servers = 1  # that take from the same queue, this one included
        self.streams = 1.0  # of producer replicas, that meet here
        self.streams_after = 1.0  # that are in one of what leaves
        self.together = 1.0  # tuples that come at one moment
        self.gap_scv_after = 1.0  # variability of the gaps between tuples that leave
        self.unseen_scv_after = 0.0  # of it, what segments do not show
        self._mean_s = 0.0
        self._often = 0.0  # probability that a tuple waits
        self._until_s = 0.0
        self._meet: list[tuple[int, HiddenWait | None]] = []
        self._whole = False

    def evaluating(self) -> float:
        """Cores that it takes on average beyond its tuples' own work: for evaluations of its window."""
        load = self.load
        load.refresh()
        return max(0.0, load.work_per_s - load.tuples_per_s * (self.inputs.service_s + self.inputs.beyond_s()))

    def know_pace(self, pace: Pace | None) -> None:
        """Which is that of its processor, if tuples come from there."""
        self.pace = pace if pace is not None and pace.feeds else None
        self.faster = 1.0

    def know_streams(self, meet: list[tuple[int, HiddenWait | None]], whole: bool) -> None:
        """How many meet here, by input, and at whom those met that each of them is of.

        whole: somebody gets all that leaves. He is told how it varies over long times, and in how many streams it came.
        """
        self._meet = meet
        self._whole = whole
        self._count()

    def _count(self) -> None:
        """A busy server's departures are spaced by its services: so much of the streams that met there is lost."""
        streams = sum([many * (1.0 if there is None else there.streams_after) for many, there in self._meet])
        self.streams = streams if streams > 1.0 else 1.0

    def sample(
        self, draws: Draws, n: int, span_s: float, speed: float, now_s: float, each_s: float
    ) -> tuple[float, float]:
        """(wait, deviation of the service from its mean) of a tuple in a segment of n, in seconds.

        span_s: over which the segment's work is spread, with that of all others that come meanwhile. speed: reference
        cores by which the task's line moves on. each_s: mean service in the segment; no tuple's is less than 0. The
        wait is 0 or exponential, so that its quantiles are those of a queue and not only its mean.
        """
        if now_s >= self._until_s:
            self._renew(n, span_s, speed, now_s)
        usual_s = self.load.work_each_s / speed * self.faster
        varied_s = (usual_s if usual_s < each_s else each_s) * (draws.service() - 1.0)
        if self._mean_s > 0.0 and draws.uniform() < self._often:
            return self._mean_s * draws.exponential() / self._often, varied_s
        return 0.0, varied_s

    def _renew(self, n: int, span_s: float, speed: float, now_s: float) -> None:
        load = self.load
        load.refresh()
        self._count()
        n = max(n, round(load.tuples_per_s * span_s))
        self.service_scv = self.tuple_scv + (1.0 + self.tuple_scv) * self.inputs.scv()
        self._mean_s, used = self._mean(n, speed, now_s)
        self._often = used if self.servers == 1 or used >= 1.0 else erlang_c(self.servers, used)
        self._until_s = now_s + RENEW_S
        gap_scv = load.gap_scv if self._whole else merged_gap_scv(used, load.gap_scv, self.streams)
        self.gap_scv_after = departure_gap_scv(used, gap_scv, self.service_scv)
        self.streams_after = 1.0 + (self.streams - 1.0) * (1.0 - min(1.0, used) ** 2)
        self.unseen_scv_after = departure_gap_scv(used, load.unseen_scv, 0.0) if load.unseen_scv else 0.0

    def _mean(self, n: int, speed: float, now_s: float) -> tuple[float, float]:
        """(mean hidden wait in seconds, utilisation of the speed that the task gets).

        What comes together queues as one, with a service of all of them.
        """
        load, many = self.load, self.together
        speed = load.smooth_speed(speed)
        used = load.work_per_s / speed
        if used >= CRITICAL or used <= 0.0:
            self.speed = 0.0
            return 0.0, min(used, 1.0)
        service_s, service_scv = many * load.work_each_s / speed, self.service_scv / many
        args = n / many, used, load.gap_scv, service_scv, service_s, self.servers, self.streams, load.unseen_scv
        if self.neighbours is None or speed >= WHOLE:
            return residual_wait_s(*args), used
        gap_scv = merged_gap_scv(used, load.gap_scv, self.streams)
        wait_s = tuple_wait_s(used, gap_scv, service_scv, service_s, self.servers)
        if self.conservation is not None:
            self.wait_s, self.speed = wait_s, speed
            if self.conservation.holds(now_s):
                return self.conservation.wait_s(self) * self.conservation.hidden_share(n / load.tuples_per_s), used
        wait_s *= hidden_share(self._drift(self.neighbours, n, speed, now_s))
        if self.pace is None:
            return wait_s, used
        longer = self.faster - 1.0
        self.pace.renew(now_s)
        self.faster = self.pace.faster(speed / self.faster)
        if self.pace.led > 0.0:  # its line is as on a core of its own
            wait_s += self.pace.led * (residual_wait_s(*args) - wait_s)
        return wait_s + longer * (wait_s + load.work_each_s / speed), used

    def _drift(self, neighbours: Neighbours, n: int, speed: float, now_s: float) -> float:
        """Spare capacity over a segment, in standard deviations of the work that the whole processor gets meanwhile.

        Servers of a common queue make up for each other: of each, so small a part of the variance counts.
        """
        load = self.load
        duration_s, own = n / load.tuples_per_s, n / self.servers
        variance, others = own * load.work_each_s**2 * self.service_scv, 0.0
        if speed < 1.0:
            others, others_variance = neighbours.below(load, speed, now_s)
            variance += others_variance * duration_s
        shown_scv = max(0.0, load.gap_scv - load.unseen_scv)
        variance += own * self.together * shown_scv * ((speed + others) / load.tuples_per_s) ** 2
        return (speed - load.work_per_s) * duration_s / math.sqrt(variance) if variance > 0.0 else math.inf
