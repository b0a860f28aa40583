"""The few tasks on a small processor, by what each of them needs: for the rate at which one works among the others."""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.compute.bursts import BUSY, Bursts
from twin.engine.compute.company import MEMORY_S
from twin.engine.compute.hidden import HiddenWait
from twin.engine.compute.share import Share
from twin.engine.compute.unequal import FULL, all_sums, busy_odds, rate_beside, waits, without

FEW, SMALL = 16, 2.0
"""Up to so many tasks, on so many cores."""
RENEW_S, RENEW = 1.0, 0.1
"""Simulated seconds for which what was found out is used, and of the time since the beginning at most."""
CROWDED = 0.95
"""Of the cores in use: from there on, bursts do not pass one by one."""
LEAST = 1e-6
"""Cores that a task is taken to need at least."""


class Crowd:
    """One processor's. shares: of its tasks.

    in_step: of each, the part of its tuples that come from tasks here, times (1 - scv)^2 of their service: the steadier
    services are, the more often one ends and the next begins at the moment at which a tuple comes to the next task.
    bursts: through which of them what a window sends passes at once; window: that, if it is here as well.
    """

    __slots__ = (
        "_at_s",
        "_beside",
        "_bursts",
        "_calm",
        "_idle",
        "_in_step",
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
        self._calm = [0.0] * tasks  # rates without jobs, and beside them; 0 until asked for
        self._beside = [0.0] * tasks
        self._scales = [1.0] * (2 * tasks)  # of others' odds, in these
        self._seen_s = [self._done_s(share) for share in self._shares]
        self._work_s = [0.0] * tasks  # since then, forgetting
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
                self._odds_beside = busy_odds(self.capacity, self._needs, self._odds_beside, self._idle, jobs)
                self._sums_beside = all_sums(self._odds_beside)
            rest = without(self._sums_beside, self._odds_beside[place])
            self._beside[place] = self._rate(len(self._shares) + place, jobs, own, demand, rest)
        return self._beside[place]

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
            done_s = self._done_s(share)
            self._work_s[place] = self._work_s[place] * keep + done_s - self._seen_s[place]
            self._seen_s[place] = done_s
            self._calm[place] = self._beside[place] = 0.0
        self._balance([work_s / self._time_s for work_s in self._work_s])

    def _done_s(self, share: Share) -> float:
        """What it has worked; without its jobs, which are in nobody's way by chance, unless they are of bursts."""
        return share.done_s if self._bursts is None else share.done_s + share.given_s

    def _balance(self, demands: list[float]) -> None:
        capacity, total, in_step = self.capacity, 0.0, 0.0
        for need, part in zip(demands, self._in_step, strict=True):
            total += need
            in_step += need * part
        if total <= 0.0:
            return
        self._idle = waits(capacity, demands, in_step / total)
        most = min(1.0, FULL * capacity / total)
        self._needs = needs = [min(FULL * min(1.0, capacity), max(LEAST, need * most)) for need in demands]
        self._sums_beside = []
        self._odds = busy_odds(capacity, needs, self._odds, self._idle)
        self._sums = all_sums(self._odds)
        bursts = self._bursts
        if bursts is not None:
            for place in bursts.members:
                self._shares[place].passing = False
            if total < CROWDED * capacity and max([demands[place] for place in bursts.members]) > 0.0:
                self._pass(bursts, needs, in_step / total)

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
