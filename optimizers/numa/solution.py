"""Solution from placements on sockets: the candidates as plans, judged by the problem's cost model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from optimizers.interface import Candidate, Problem, Solution, Status
from optimizers.numa.moves import borne, crowded, pressed
from optimizers.selection import choose, dealt_anew, estimate, instead, said
from twin.rates.model import RateModel
from twin.rates.numa_job import NumaJob
from twin.rates.numa_rates import binding, most_results_per_s, sustained

TOLERANCE = 1e-6
"""Relative tolerance of a bound, for rounding."""
NEAR = 0.02
"""Relative difference of throughputs that count as near: crowded sockets bear up to a tenth less than predicted."""
CROWDED = 1.25
"""Replicas a core above which a socket is crowded."""
PROVED = 1e-3
"""Relative gap up to which a plan counts as optimal: the bound may be the offered rate, and records still on their way
at the end of a run have not arrived."""


def solution(
    problem: Problem,
    job: NumaJob,
    candidates: Sequence[np.ndarray],
    *,
    started_s: float,
    weighed: int = 0,
    most: float = math.inf,
) -> Solution:
    """Solution of the best candidate [o, l] by the problem's cost model (ties as in `selection.choose`).

    started_s: time.perf_counter() when planning began. weighed: number of placements weighed before. most: load that no
    plan of the space exceeds, if that is proved.
    """
    plans = [job.plan_of(counts_ol) for counts_ol in candidates[: problem.budget]]
    found = estimate(problem, plans)
    chosen = choose(problem, found, evaluations=len(plans), started_s=started_s, complete=False)
    row = next(index for index, plan in enumerate(plans) if plan == chosen.plan)
    tied = [index for index in range(len(plans)) if as_good(found.candidate(index), found.candidate(row))]
    row = tied[roomiest(job, [candidates[index] for index in tied])[0]]
    if problem.objective == "throughput_per_s":
        row = calmest(job, candidates[: len(plans)], [found.candidate(index) for index in range(len(plans))], row)
    chosen, counts_ol = instead(chosen, found.candidate(row)), candidates[row]
    load = float(sustained(job, counts_ol[None]).load_n[0])
    told = chosen.sane or job.additive  # windows may give all results of an overload: that bound says nothing
    bound = results_bound(problem, job, chosen.objective, most) if told else None
    message = chosen.message
    if job.uneven:
        message = said(f"{', '.join(job.uneven)}: weighed by the cost model alone", chosen.message)
    elif load < 1.0 and not chosen.runs:
        alike = " if all are slowed alike" if len(job.sources) > 1 else ""
        full = (
            f"the sources are offered more than this plan bears{alike}: {load:.1%} of it, limited by "
            f"{binding(job, counts_ol)}; all cores together would bear at most {load_bound(job):.1%}"
        )
        message = said(full, dealt_anew(problem, chosen.plan))
    proved = bound is not None and chosen.sane and chosen.objective >= bound * (1.0 - PROVED)
    proved = proved and problem.space.includes(problem.deployment, chosen.plan)  # baselines know of no space
    status = Status.OPTIMAL if proved else chosen.status
    among = problem.space.words(problem.deployment) if proved else ""
    return replace(chosen, bound=bound, message=message, status=status, weighed=weighed, among=among)


def as_good(one: Candidate, other: Candidate) -> bool:
    """Whether the predictions of two plans make no difference between them."""
    close = abs(one.objective - other.objective) <= PROVED * abs(other.objective)
    return close and one.sane == other.sane and one.backpressured <= other.backpressured + PROVED


def calmest(job: NumaJob, candidates: Sequence[np.ndarray], found: Sequence[Candidate], best: int) -> int:
    """Row of the candidate whose sockets are crowded least, among those that let through nearly as much as the best one
    and press no more replicas; the best itself if it keeps up or none is crowded less."""
    if found[best].sane or not crowding(job, candidates[best][None])[0]:
        return best
    least = found[best].objective * (1.0 - NEAR)
    near = [best, *(row for row, each in enumerate(found) if not each.sane and each.objective >= least)]
    counts_nol = np.stack([candidates[row] for row in near])
    crowding_n, pressed_n = crowding(job, counts_nol), pressed(job, counts_nol)
    calmer = np.flatnonzero((crowding_n < crowding_n[0]) & (pressed_n <= pressed_n[0]))
    return min(((crowding_n[n], -found[near[n]].objective, near[n]) for n in calmer), default=(0.0, 0.0, best))[2]


def crowding(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """[n] replicas a core beyond CROWDED, squared and summed: one too many on two sockets is better than two on one."""
    beyond_nl = np.maximum(counts_nol.sum(axis=1) / job.cores_l - CROWDED, 0.0)
    return np.asarray((beyond_nl**2).sum(axis=1))


def roomiest(job: NumaJob, candidates: Sequence[np.ndarray]) -> list[int]:
    """Rows of the candidates [o, l] in order: first those where replicas that need nearly a core have one, then those
    with a core for each replica, then by load borne. Sharing a core loses a little that no model of means sees."""
    counts_nol = np.stack(candidates)
    return np.lexsort((-borne(job, counts_nol)[0], crowded(job, counts_nol), pressed(job, counts_nol))).tolist()


def results_bound(problem: Problem, job: NumaJob, reached: float, most: float) -> float | None:
    """Upper bound of the results a second of all plans; None if nothing is proved.

    It holds for the rate model's estimates only.
    """
    model = problem.cost_model
    if job.uneven or problem.objective != "throughput_per_s" or not isinstance(model, RateModel):
        return None
    bound = _most_results(job, most)
    if bound is None:
        return None
    arrived = float(bound * model.measured(problem.scenario).length_s)  # the model predicts runs that have results
    bound /= 1.0 - 0.5 ** min(max(arrived, 1e-9), 1000.0)
    return None if reached > bound * (1.0 + TOLERANCE) else max(bound, reached)


def _most_results(job: NumaJob, most: float) -> float | None:
    """Most results a second of all plans, None if not known. most: load that no plan exceeds. One of several sources
    may be slowed and not the others, so a load bounds their results only if it is all; and where windows make results,
    fewer tuples need not give fewer."""
    share = min(1.0, load_bound(job), most)
    if share == 1.0:
        return job.results_per_s
    if not job.additive:
        return None
    alone = share * job.results_per_s if len(job.sources) == 1 else math.inf
    return min(alone, most_results_per_s(job))


def load_bound(job: NumaJob) -> float:
    """Upper bound of the load of all plans: all cores together, and no tuple comes from another socket."""
    return float(job.capacity_l.sum() / (job.in_o * job.time_o).sum())
