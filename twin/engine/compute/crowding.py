"""At which rate a task works that keeps up, while it has something to do, among others that want the same cores.

Tasks and jobs that are busy share the cores evenly. As fluids, a task would get what the others leave it; but tuples
collide, and who is slowed is busy for longer and collides more. A small task among large ones is slowed more than they
are: they meet it less often than it meets them.
"""

from __future__ import annotations

from functools import cache

OWN_STEPS, STEPS, PARTS = 32, 256, 4
"""What is told apart: shares of a core, or of less, that the task itself needs; of the cores, that the others need; and
fractions of a task or job."""
QUEUED, QUEUED_ALONE = 1.15, 1.10
"""What colliding costs a task among others that keep up, over the chain's figure: tuples queue meanwhile, so it stays
busy. A fit to exact runs of 2 to 24 tasks on 2 and 4 cores, and on one core or less."""
BUSIEST = 0.9
"""Of a task that keeps up on several cores, as long as others leave it enough."""
NEGLIGIBLE = 1e-12
"""A term of a sum, against the sum, from which on the rest is left out."""


def crowded_rate(capacity: float, jobs: float, own: float, others: float, demand: float) -> float:
    """Cores that a task gets on average while it is busy, beside so many jobs and others that keep up as well. <= 1

    own, demand: cores that the task needs, and that all the others need, which are taken as equal.
    """
    most = capacity / (1.0 + jobs)
    if most > 1.0:
        most = 1.0
    if jobs + others + 1.0 <= capacity or others <= 0.0 or demand <= 0.0:
        return most
    own_step = round(OWN_STEPS * own / capacity if capacity < 1.0 else OWN_STEPS * own)
    step = round(STEPS * (own + demand) / capacity)
    if step >= STEPS:
        step = STEPS - 1
    jobs_parts = round(PARTS * jobs) if jobs else 0
    others_parts = round(PARTS * others) if others < 16.0 else PARTS * round(others)
    return _rate(capacity, jobs_parts, own_step, others_parts, step)


def calm_rate(capacity: float, own: float, others: float, demand: float) -> float:
    """That rate without jobs: not below what is left to one that is always busy, who bounds it from below."""
    rate, least = crowded_rate(capacity, 0.0, own, others, demand), capacity - demand
    if least > 1.0:
        least = 1.0
    if capacity > 1.0 and own / BUSIEST < least:
        least = own / BUSIEST
    return rate if rate > least else least


def mixed_rate(own: float, calm: float, rate: float, beside: float) -> float:
    """That rate where the task gets `rate` for the share `calm` of the time, and `beside` < `rate` for the rest of it.

    It has as much to do in both. What it cannot do beside jobs it does when they have ended.
    """
    if own < beside:
        return 1.0 / (calm / rate + (1.0 - calm) / beside)
    left = (own - (1.0 - calm) * beside) / rate
    return own / (1.0 - calm + left) if left < calm else calm * rate + (1.0 - calm) * beside


@cache
def _rate(capacity: float, jobs_parts: int, own_step: int, others_parts: int, step: int) -> float:
    """By the chain below; the odds of the others by bisection, so that they need what they need."""
    jobs, others = jobs_parts / PARTS, others_parts / PARTS
    own = min(1.0, capacity) * own_step / OWN_STEPS
    demand = max(0.0, capacity * step / STEPS - own)
    most = min(1.0, capacity / (1.0 + jobs))
    low, high = 0.0, 1.0
    for _ in range(20):
        if shared(capacity, jobs, own, others, high)[0] >= demand:
            break
        low, high = high, 4.0 * high
    for _ in range(24):
        middle = (low + high) / 2.0
        low, high = (middle, high) if shared(capacity, jobs, own, others, middle)[0] < demand else (low, middle)
    rate = shared(capacity, jobs, own, others, high)[1]
    if jobs_parts:
        return rate
    least = capacity / (1.0 + others)
    return max(least, most - (QUEUED if capacity > 1.0 else QUEUED_ALONE) * (most - rate))


def shared(
    capacity: float, jobs: float, own: float, others: float, odds: float, met: float = 1.0, size: float = 1.0
) -> tuple[float, float]:
    """Cores that the others work with, and that the task gets while it is busy. odds: of another's being busy, alone.

    Each task has one piece of work at a time, and some time after it the next. That is a closed network of processor
    sharing, whose states have a product form: k busy tasks have a weight of their odds' product times that of
    i / min(i, cores), from `jobs` + 1 to `jobs` + k. (Baskett, Chandy, Muntz and Palacios, "Open, closed, and mixed
    networks of queues", 1975.)

    met, size: tasks that are busy whenever this one is, itself among them, and whenever another is. It is exact for
    equal bunches whose members are done together, if what they do at a time is exponential.
    """
    weight, without, within, idle_work, busy_work, k = 1.0, 0.0, 0.0, 0.0, 0.0, 0
    while True:
        busy = size * k
        slow = (jobs + met + busy) / capacity  # of each task, if it is busy as well
        if slow < 1.0:
            slow = 1.0
        without += weight  # of states in which the task is idle, over its odds those in which it works
        within += weight * slow
        busy_work += weight * busy
        idle_work += weight * busy if jobs + busy <= capacity else weight * busy * capacity / (jobs + busy)
        if k >= others or (weight < NEGLIGIBLE * without and jobs + busy > capacity):
            break
        more = (jobs + busy + size) / capacity
        weight *= (others - k) / (k + 1) * odds * (more if more > 1.0 else 1.0)
        k += 1
        if weight > 1e200:
            weight, without, within = 1.0, without / weight, within / weight
            idle_work, busy_work = idle_work / weight, busy_work / weight
    rate = without / within
    if own >= rate:  # it is always busy
        return busy_work / within, rate
    return (idle_work * (1.0 - own / rate) + own * busy_work) / without, rate
