"""The few tasks on a small processor, by what each of them needs: for the rate at which one works among the others."""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.compute.bursts import BUSY, LEAST, Bursts
from twin.engine.compute.company import MEMORY_S
from twin.engine.compute.hidden import HiddenWait
from twin.engine.compute.share import Share
from twin.engine.compute.unequal import FULL, all_sums, busy_odds, rate_beside, waits, without

FEW, SMALL = 16, 2.0
"""Up to so many tasks, on so many cores."""
RENEW_S, RENEW = 2.0, 0.1
"""Simulated seconds for which what was found out is used, and of the time since the beginning at most."""
CROWDED = 0.95
"""Of the cores in use: from there on, bursts do not pass one by one."""


class Crowd:
    """One processor's. shares: of its tasks.

    in_step: of each, the part of its tuples that come from tasks here, times (1 - scv)^2 of their service: the steadier
    services are, the more often one ends and the next begins at the moment at which a tuple comes to the next task.
    bursts: through which of them what a window sends passes at once; window: that, if it is here as well.
    """

    __slots__ = (
        "_always",
        "_at_s",
        "_beside",
        "_bursts",
        "_calm",
        "_given_s",
        "_idle",
        "_in_step",
        "_job_s",
        "_needs",
        "_odds",
        "_odds_beside",
        "_scales",
        "_seen_s",
        "_shares",
        "_sums",
        "_sums_beside",
        "_time_s",
        "_until_s",
        "_window",
        "_work_s",
        "capacity",
    )

    def __init__(
        self,
        capacity: float,
        shares: Sequence[Share],
        in_step: Sequence[float],
        now_s: float,
        bursts: Bursts | None = None,
        window: HiddenWait | None = None,
    ) -> None:
        self.capacity = capacity
        self._bursts = bursts
        self._window = window
        self._shares = tuple(shares)
        self._in_step = tuple(in_step)
        tasks = len(self._shares)
        self._needs = [LEAST] * tasks
        self._odds = self._odds_beside = [LEAST] * tasks
        self._sums = all_sums(self._odds)
        self._sums_beside: list[float] = []  # beside jobs; empty until asked for
        self._idle = 1.0
        self._calm = [0.0] * tasks  # rates, 0 until asked for: without jobs, beside them, and of who is always busy
        self._beside = [0.0] * tasks
        self._always = [0.0] * tasks
        self._scales = [1.0] * (3 * tasks)  # of others' odds, in these
        self._seen_s = [share.done_s for share in self._shares]
        self._given_s = [share.given_s for share in self._shares]
        self._work_s = [0.0] * tasks  # since then, forgetting; without jobs, and as jobs
        self._job_s = [0.0] * tasks
        self._time_s = 0.0
        self._at_s = self._until_s = now_s
        for place, share in enumerate(self._shares):
            share.place = place

    def calm_rate(self, place: int, own: float, demand: float) -> float:
        """Cores that a task gets while it is busy, where nobody has a job. own, demand: of it and of all the others."""
        if self._calm[place] == 0.0:
            self._calm[place] = self._rate(place, 0.0, own, demand, without(self._sums, self._odds[place]))
        return self._calm[place]

    def crowded_rate(self, place: int, jobs: float, own: float, demand: float) -> float:
        """The same beside so many jobs."""
        if self._beside[place] == 0.0:
            if not self._sums_beside:
                tasks = len(self._shares)
                most = FULL * self.capacity * tasks / (tasks + jobs)  # jobs get what all get at least
                scale = min(1.0, most / sum(self._needs))
                needs = [scale * need for need in self._needs]
                self._odds_beside = busy_odds(self.capacity, needs, self._odds_beside, self._idle, jobs)
                self._sums_beside = all_sums(self._odds_beside)
            rest = without(self._sums_beside, self._odds_beside[place])
            self._beside[place] = self._rate(len(self._shares) + place, jobs, own, demand, rest)
        return self._beside[place]

    def always_rate(self, place: int) -> float:
        """Cores that a task gets which alone is always busy; 0 while it is not known what the others need."""
        if self._always[place] == 0.0 and self._time_s > 0.0:
            demand = 0.0
            for need in self._needs:
                demand += need
            demand -= self._needs[place]
            rest = without(self._sums, self._odds[place])
            self._always[place] = self._rate(2 * len(self._shares) + place, 0.0, 1.0, demand, rest)
        return self._always[place]

    def renew(self, now_s: float) -> None:
        """Takes in what the tasks have needed, if it is time to."""
        elapsed_s = now_s - self._at_s
        if now_s < self._until_s or elapsed_s <= 0.0:
            return
        self._at_s = now_s
        self._until_s = now_s + min(RENEW_S, RENEW * now_s)
        keep = MEMORY_S / (MEMORY_S + elapsed_s)
        self._time_s = self._time_s * keep + elapsed_s
        for place, share in enumerate(self._shares):
            self._work_s[place] = self._work_s[place] * keep + share.done_s - self._seen_s[place]
            self._job_s[place] = self._job_s[place] * keep + share.given_s - self._given_s[place]
            self._seen_s[place], self._given_s[place] = share.done_s, share.given_s
            self._calm[place] = self._beside[place] = self._always[place] = 0.0
        self._balance([work_s / self._time_s for work_s in self._work_s])

    def _balance(self, demands: list[float]) -> None:
        """By what each has worked without jobs, as these are in nobody's way by chance."""
        if sum(demands) <= 0.0:
            return
        self._idle = waits(self.capacity, demands, self._in_step_of(demands))
        self._needs = self._within(demands)
        self._odds = busy_odds(self.capacity, self._needs, self._odds, self._idle)
        self._sums, self._sums_beside = all_sums(self._odds), []
        bursts = self._bursts
        if bursts is not None:
            every = [need + job_s / self._time_s for need, job_s in zip(demands, self._job_s, strict=True)]
            for place in bursts.members:
                self._shares[place].passing = False
            if sum(every) < CROWDED * self.capacity and max([every[place] for place in bursts.members]) > 0.0:
                self._pass(bursts, self._within(every), self._in_step_of(every))

    def _within(self, demands: list[float]) -> list[float]:
        """As much as the cores can do, at most."""
        most = min(1.0, FULL * self.capacity / sum(demands))
        return [min(FULL * min(1.0, self.capacity), max(LEAST, need * most)) for need in demands]

    def _in_step_of(self, demands: list[float]) -> float:
        in_step = 0.0
        for need, part in zip(demands, self._in_step, strict=True):
            in_step += need * part
        return in_step / sum(demands)

    def _pass(self, bursts: Bursts, needs: list[float], in_step: float) -> None:
        bursts.settle(needs, 0.0 if self._window is None else self._window.evaluating(), in_step)
        self._calm = list(bursts.rates)
        for place in bursts.members:
            self._beside[place] = self._calm[place]
            self._shares[place].passing = bursts.passing < BUSY

    def _rate(self, at: int, jobs: float, own: float, demand: float, rest: list[float]) -> float:
        capacity = self.capacity
        least = capacity / (jobs + len(self._shares))
        needed = max(LEAST, min(demand, FULL * capacity - min(own, least)))
        rate, self._scales[at] = rate_beside(capacity, jobs, own, needed, rest, self._idle, self._scales[at])
        return rate
