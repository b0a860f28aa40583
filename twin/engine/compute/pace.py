"""At which pace the lines of tasks move on that are fed by a task of their own processor: by that processor's clock.

All that are busy on a processor work at one level. Tuples that come from a task there that is always busy come the
slower, the more of those behind it are busy: on a clock that runs at that level they come and are served as if each
task had a core of its own (a change of time: what is true of a tandem of such queues is true of these). So a line
behind an always busy task is used to work / level, and not to the larger share of the time that it is busy.
"""

from __future__ import annotations

from collections.abc import Sequence

from twin.engine.compute.company import MEMORY_S, Tally
from twin.engine.compute.share import Share

RENEW_S = 1.0
"""Simulated seconds for which what was found out is used."""
ALWAYS = 0.95
"""Of the time: who has jobs for less of it, as joins have with each evaluation, leaves lines time to empty between."""


class Pace:
    """Of all replicas of one operator on one processor, whose standings there are `shares`.

    engaged: share of the time in which they had jobs. led: share of their tuples that come by the processor's clock.
    level: cores that a job gets there on average. feeds: where their tuples come from on this processor, each with its
    part of all tuples.
    """

    __slots__ = (
        "_at_s",
        "_beside_s",
        "_calm_s",
        "_job_s",
        "_jobs_s",
        "_level_s",
        "_levels_s",
        "_time_s",
        "engaged",
        "feeds",
        "led",
        "level",
        "shares",
        "tally",
    )

    def __init__(self, tally: Tally, shares: Sequence[Share], now_s: float) -> None:
        self.tally = tally
        self.shares = shares
        self.feeds: list[tuple[float, Pace]] = []
        self.engaged = 0.0
        self.led = 0.0
        self.level = 0.0
        self._at_s = now_s
        self._calm_s, self._levels_s, self._jobs_s = tally.calm_s, tally.level_s, self._jobs_until_s(now_s)
        self._time_s = self._beside_s = self._level_s = self._job_s = 0.0  # since then, forgetting

    def faster(self, rate: float) -> float:
        """By how much the line moves on faster than the cores say that its task gets while it is busy. >= 1"""
        return 1.0 + self.led * (self.level / rate - 1.0) if self.level > rate else 1.0

    def renew(self, now_s: float) -> None:
        """Takes what has happened on the processor, which is as far as `now_s`, into the averages."""
        time_s = now_s - self._at_s
        if time_s < RENEW_S:
            return
        self._at_s = now_s
        self._learn(time_s, self._jobs_until_s(now_s))
        led = 0.0
        for part, feed in self.feeds:
            feed.renew(now_s)
            led += part if feed.engaged >= ALWAYS else part * feed.led
        self.led = led

    def _learn(self, time_s: float, jobs_s: float) -> None:
        keep, tally = MEMORY_S / (MEMORY_S + time_s), self.tally
        self._time_s = self._time_s * keep + time_s
        self._job_s = self._job_s * keep + jobs_s - self._jobs_s
        self._beside_s = self._beside_s * keep + time_s - (tally.calm_s - self._calm_s)
        self._level_s = self._level_s * keep + tally.level_s - self._levels_s
        self._calm_s, self._levels_s, self._jobs_s = tally.calm_s, tally.level_s, jobs_s
        self.engaged = self._job_s / (self._time_s * len(self.shares))
        if self._beside_s > 0.0:
            self.level = self._level_s / self._beside_s

    def _jobs_until_s(self, now_s: float) -> float:
        jobs_s = 0.0
        for share in self.shares:
            jobs_s += share.jobs_until_s(now_s)
        return jobs_s
