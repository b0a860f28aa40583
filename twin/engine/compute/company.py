"""What a task that keeps up meets on its processor: jobs for some of the time, and what the others need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.compute.bunches import SINGLE, Bunches, rate_among
from twin.engine.compute.crowding import calm_rate, crowded_rate, mixed_rate

if TYPE_CHECKING:
    from twin.engine.compute.crowd import Crowd
    from twin.engine.compute.share import Share

MEMORY_S = 5.0
"""Over which what is met is averaged: by how much chance moves it is in the rates already."""


class Tally:
    """One processor's, of the tasks that neither have a job nor are blocked. Integrals since the beginning.

    usual, squares: sum of what those need, in cores, and of its squares, that get their work each by itself; present:
    as many of these as are busy on average. bunches: the others. calm_s: time without jobs; calm_work: what all of them
    needed in it. slope_s: of 1 / (jobs + 1) while there were jobs; left_s: of what those left, times that. level_s: of
    what each job got.
    """

    __slots__ = (
        "bunches",
        "calm_s",
        "calm_work",
        "left_s",
        "level_s",
        "present",
        "slope_s",
        "squares",
        "usual",
    )

    def __init__(self) -> None:
        self.usual = 0.0
        self.squares = 0.0
        self.present = 0.0
        self.bunches = Bunches()
        self.calm_s = 0.0
        self.calm_work = 0.0
        self.slope_s = 0.0
        self.left_s = 0.0
        self.level_s = 0.0

    @property
    def demand(self) -> float:
        """Cores that all of them need."""
        return self.usual + self.bunches.usual

    def add(self, share: Share) -> None:
        """One more."""
        usual = share.usual
        if share.bunch is not SINGLE:
            self.bunches.add(usual, share.bunch)
            return
        self.usual += usual
        self.squares += usual * usual
        self.present += share.present

    def remove(self, share: Share) -> None:
        """One less."""
        usual = share.usual
        if share.bunch is not SINGLE:
            self.bunches.remove(usual, share.bunch)
            return
        self.usual -= usual
        self.squares -= usual * usual
        self.present -= share.present

    def like_without(self, usual: float) -> float:
        """As many equal tasks would be as uneven as these without one: square of the sum over sum of squares."""
        total, squares = self.usual - usual, self.squares - usual * usual
        return total * total / squares if total > 1e-9 and squares > 1e-12 else 0.0

    def spend(self, time_s: float, jobs: int, capacity: float, level: float) -> None:
        """So much time passes beside so many jobs, of which each gets `level` cores."""
        if jobs:
            slope_s = time_s / (jobs + 1)
            self.slope_s += slope_s
            self.level_s += time_s * level
            self.left_s += slope_s * (capacity - self.demand)
        else:
            self.calm_s += time_s
            self.calm_work += time_s * self.demand


class Company:
    """One task's: the same integrals, forgetting, over the time in which it could keep up.

    others: like how many the others are without jobs; company: they and the jobs together, beside jobs. Apart they
    would add up to more than there are: whoever has a job is not among the others.
    """

    __slots__ = (
        "_beside_s",
        "_calm_s",
        "_calm_work",
        "_company",
        "_from_calm_s",
        "_from_calm_work",
        "_from_left_s",
        "_from_s",
        "_from_slope_s",
        "_left_s",
        "_others",
        "_others_s",
        "_slope_s",
    )

    def __init__(self) -> None:
        self._others = 0.0
        self._others_s = 0.0
        self._company = 0.0
        self._beside_s = 0.0
        self._calm_s = 0.0
        self._calm_work = 0.0
        self._slope_s = 0.0
        self._left_s = 0.0
        self._from_s = 0.0
        self._from_calm_s = 0.0
        self._from_calm_work = 0.0
        self._from_slope_s = 0.0
        self._from_left_s = 0.0

    def begin(self, tally: Tally, now_s: float) -> None:
        """What was met before does not count."""
        self._from_s = now_s
        self._from_calm_s, self._from_calm_work = tally.calm_s, tally.calm_work
        self._from_slope_s, self._from_left_s = tally.slope_s, tally.left_s

    def rate(
        self, tally: Tally, capacity: float, now_s: float, jobs: float, share: Share, crowd: Crowd | None
    ) -> float:
        """Cores that it got on average while it was busy since it last asked, or gets beside so many jobs.

        crowd: where it is known who the others are; else they are taken as equal.
        """
        calm, time_s, jobs_now = 0.0 if jobs else 1.0, now_s - self._from_s, jobs
        own, single = share.usual, share.bunch is SINGLE
        counted = 0.0 if share.resting or not single else own  # of that, what the tally holds now
        if time_s > 0.0:
            calm_s, slope_s = tally.calm_s - self._from_calm_s, tally.slope_s - self._from_slope_s
            if slope_s > 0.0:
                calm, jobs = calm_s / time_s, (time_s - calm_s) / slope_s - 1.0
            else:
                calm, jobs = 1.0, 0.0
            keep = MEMORY_S / (MEMORY_S + time_s)
            self._learn(tally, calm_s, slope_s, keep)
            self._count(tally.like_without(counted), jobs_now, time_s, keep)
            self.begin(tally, now_s)
        apart = single and not tally.bunches.usual
        rate = 0.0
        if calm > 0.0:
            demand = self._calm_work / self._calm_s if self._calm_s > 0.0 else tally.demand
            if not apart:
                rate = self._among(tally, capacity, 0.0, share, demand)
            elif crowd is None:
                rate = calm_rate(capacity, own, self._others, demand - own)
            else:
                rate = crowd.calm_rate(share.place, own, demand - own)
        if calm < 1.0:
            demand = capacity - self._left_s / self._slope_s if self._slope_s > 0.0 else tally.demand
            if not apart:
                beside = self._among(tally, capacity, jobs, share, demand)
            elif crowd is None:
                others = self._company - jobs if self._company > jobs else 0.0
                beside = crowded_rate(capacity, jobs, own, others, demand - own)
            else:
                beside = crowd.crowded_rate(share.place, jobs, own, demand - own)
            rate = mixed_rate(own, calm, rate, beside) if calm > 0.0 else beside
        return rate

    def _among(self, tally: Tally, capacity: float, jobs: float, share: Share, demand: float) -> float:
        """The same where there are bunches: of its own one, or among single tasks as far as bunches let them.

        demand: of all who keep up. Single tasks are many and small: how many of them are busy hardly changes.
        """
        own, bunches, beside = share.usual, tally.bunches, jobs + tally.present
        scale = demand / tally.demand if tally.demand > 0.0 else 1.0
        if share.bunch is not SINGLE:  # of which some have jobs, if any have
            mates = share.bunch.met - 1.0
            return rate_among(capacity, beside - (mates if mates < jobs else jobs), own, share.bunch, bunches, scale)
        singles = tally.usual
        if not share.resting:
            singles -= own
            beside -= share.present
        if beside < 0.0:
            beside = 0.0
        singles = singles * scale if singles > 0.0 else 0.0
        if jobs:
            rate = crowded_rate(capacity, jobs, own, max(0.0, self._company - jobs), singles)
        else:
            rate = calm_rate(capacity, own, self._others, singles)
        return rate * rate_among(capacity, beside, own, SINGLE, bunches, scale) / min(1.0, capacity / (beside + 1.0))

    def _learn(self, tally: Tally, calm_s: float, slope_s: float, keep: float) -> None:
        self._calm_s = self._calm_s * keep + calm_s
        self._calm_work = self._calm_work * keep + tally.calm_work - self._from_calm_work
        self._slope_s = self._slope_s * keep + slope_s
        self._left_s = self._left_s * keep + tally.left_s - self._from_left_s

    def _count(self, others: float, jobs: float, time_s: float, keep: float) -> None:
        """Takes how many there are now for how many there were. Until both have been seen, one stands for the other."""
        if jobs:
            self._beside_s = self._beside_s * keep + time_s
            self._company += time_s / self._beside_s * (jobs + others - self._company)
            if self._others_s == 0.0:
                self._others = self._company
        else:
            self._others_s = self._others_s * keep + time_s
            self._others += time_s / self._others_s * (others - self._others)
            if self._beside_s == 0.0:
                self._company = self._others
