"""Tasks that get their work at the same moments, and work side by side: what they leave each other of the cores.

A buffer that is flushed, or a window that is evaluated, has something for all replicas behind it. They begin together,
and while one of them is busy the others are: over time a processor is half empty, and none of them ever sees that.
Whoever else is there meets all of them or none. So a bunch is, to its own and to others, as one task that takes as
many cores as it has members.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from twin.engine.compute.crowding import shared

STEPS, OWN_STEPS, PARTS, SIZES = 128, 8, 2, 8
"""What is told apart: shares of the cores; of what a member gets alone, that it needs; fractions of a bunch or job; and
of a doubling of a bunch's members."""


@dataclass(frozen=True, slots=True)
class Coming:
    """How a stream reaches a task. tasks: on its processor, that get something when it does, itself among them.

    scv: of the work that each gets then. times: at which so comes what comes, one soon after the other, and then none
    for a while; denser: by how much, against an even spread over time.
    """

    tasks: float = 1.0
    scv: float = 0.0
    times: float = 1.0
    denser: float = 1.0

    def piles(self, mine: float, used: float) -> float:
        """As many works as add up where the next comes before the last is done, on a processor used so much.

        mine: of that, by the bunch itself. By chance it finds mine / (1 - used) of its own, as tuples of a class find
        in M/M/1 with processor sharing. Where all come faster than they can be done, half of what is left at the end.
        """
        ahead = used * self.denser
        piles = 1.0 + mine / max(1.0 - used, 1e-3)
        return max(piles, self.times * (1.0 - 1.0 / ahead) / 2.0) if ahead > 1.0 else piles


@dataclass(frozen=True, slots=True)
class Bunch:
    """Of one task. tasks: that get work when it does, itself among them; met: as many as are busy while it is."""

    tasks: float = 1.0
    met: float = 1.0


ALONE, SINGLE = Coming(), Bunch()


def bunch(capacity: float, coming: Coming, own: float, used: float) -> Bunch:
    """Of a task that needs so many cores, on a processor that is used to that share.

    Works that add up differ the less.
    """
    tasks = coming.tasks
    if tasks <= 1.0:
        return SINGLE
    scv = coming.scv / coming.piles(min(used, own * tasks / capacity), used)
    rate = bunched_rate(capacity, tasks, scv)
    met = capacity / rate if rate < 1.0 else tasks - min(1.0, math.sqrt(scv)) * (tasks - 1.0) / 2.0
    return Bunch(tasks, max(1.0, met))


def bunched_rate(capacity: float, tasks: float, scv: float) -> float:
    """Cores that each of so many tasks gets on average while it is busy, which all get their work at one moment. <= 1

    scv: of the work of each. Where it is 0 they share the cores to the end; where it is 1, as of exponential work,
    those that are left share them; in between goes by the deviation.
    """
    most = min(1.0, capacity)
    if tasks <= max(1.0, capacity):
        return most
    level, whole = tasks / capacity, int(tasks)
    served = min(whole, int(capacity))
    others = 0.5 * (whole * (whole + 1) - served * (served + 1)) / capacity + (tasks - whole) * level
    leaving = (served / most + others) / tasks
    return 1.0 / (level + min(1.0, math.sqrt(scv)) * (leaving - level))


class Bunches:
    """Those of the tasks on a processor that come in bunches, as sums over the tasks.

    usual: what they need, in cores. met, squares: of it, and of its squares, times how many are busy of each's bunch.
    """

    __slots__ = ("met", "squares", "usual")

    def __init__(self) -> None:
        self.usual = 0.0
        self.met = 0.0
        self.squares = 0.0

    def add(self, usual: float, bunch: Bunch) -> None:
        """A task more that needs so much."""
        self.usual += usual
        self.met += usual * bunch.met
        self.squares += usual * usual * bunch.met

    def remove(self, usual: float, bunch: Bunch) -> None:
        """One less."""
        self.usual -= usual
        self.met -= usual * bunch.met
        self.squares -= usual * usual * bunch.met

    def without(self, usual: float, bunch: Bunch) -> tuple[float, float, float]:
        """(Cores that all but one bunch need; as many equal ones as would be as uneven; busy members of each.)"""
        total = self.usual - usual * bunch.tasks
        met, squares = (
            self.met - usual * bunch.tasks * bunch.met,
            self.squares - usual * usual * bunch.tasks * bunch.met,
        )
        if total <= 1e-9 or squares <= 1e-12:
            return 0.0, 0.0, 1.0
        return total, total * total / squares, max(1.0, met / total)


def rate_among(capacity: float, jobs: float, own: float, mine: Bunch, bunches: Bunches, scale: float) -> float:
    """Cores that a task gets on average while it is busy, beside so many that are always busy, and bunches. <= 1

    own: cores that it needs. bunches: all, but for what has jobs; scale: by which they need more than is said there.
    """
    met = mine.met
    most = min(1.0, capacity / (jobs + met))
    demand, others, size = bunches.without(own if mine is not SINGLE else 0.0, mine)
    if others <= 0.0 or jobs + met + size * others <= capacity:
        return most
    own_step = round(OWN_STEPS * own / most) if own < most else OWN_STEPS
    step = round(STEPS * demand * scale / capacity)
    if step >= STEPS:
        step = STEPS - 1
    parts = round(PARTS * others) if others < 16.0 else PARTS * round(others)
    slowed = _slowed(capacity, round(PARTS * jobs), _notch(met), own_step, parts, _notch(size), step)
    return most * slowed if slowed < 1.0 else most


def _notch(size: float) -> int:
    return round(SIZES * math.log2(size)) if size > 1.0 else 0


@cache
def _slowed(
    capacity: float, jobs_parts: int, met_notch: int, own_step: int, parts: int, notch: int, step: int
) -> float:
    """That rate over what the member gets without others, by the chain below.

    The odds of the others by bisection, so that they need what they need.
    """
    jobs, met, size, others = jobs_parts / PARTS, 2.0 ** (met_notch / SIZES), 2.0 ** (notch / SIZES), parts / PARTS
    most = min(1.0, capacity / (jobs + met))
    own, demand = most * own_step / OWN_STEPS, capacity * step / STEPS
    low, high = 0.0, 1.0
    for _ in range(20):
        if shared(capacity, jobs, own, others, high, met, size)[0] >= demand:
            break
        low, high = high, 4.0 * high
    for _ in range(12):
        middle = (low + high) / 2.0
        needed = shared(capacity, jobs, own, others, middle, met, size)[0]
        low, high = (middle, high) if needed < demand else (low, middle)
    return shared(capacity, jobs, own, others, high, met, size)[1] / most
