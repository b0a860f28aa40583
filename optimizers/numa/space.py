"""Space of plans for the search on sockets, the moves in it, and plans made of what the search finds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from optimizers.interface import Candidate, Problem, Solution, Status
from optimizers.selection import answering, choose, dealt_anew, estimate, said
from optimizers.space import counts_of, enough_memory
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.rates.numa_rates import NumaJob, binding, most_results_per_s, results_share, sustained

# the space -----------------------------------------------------------------------------------------------------------
# Space of plans for the search on sockets, and classes of interchangeable sockets.
#
# A symmetry exchanges equal sockets, and others with them, which changes nothing of a job: among identical
# sub-problems only one is looked at (BriskStream, Section 4).


MOST = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class SocketSpace:
    """Space of placements on sockets. allowed_ol: where subtasks may be. home_ol: the given plan. pinned_o: operators
    that stay there; kept_o: operators whose numbers of subtasks stay. most_subtasks: of an operator. tied: of equal
    number."""

    allowed_ol: np.ndarray
    home_ol: np.ndarray
    pinned_o: np.ndarray
    kept_o: np.ndarray
    most_subtasks: int
    tied: tuple[list[int], ...] = ()

    @classmethod
    def of(cls, problem: Problem, name: str) -> SocketSpace:
        """Space of a problem; hosts without memory for an operator are left out, if others have it.

        Raises BadInput for limits that the optimizer (`name`) does not keep to: Costream's rules, a number of moves,
        all subtasks on one socket.
        """
        job, space = problem.deployment, problem.space
        if space.costream_rules or space.most_moves is not None or space.spread is False:
            raise BadInput(
                f"{name} keeps to no rules, no number of moves, and no subtasks together; use milp or local-search"
            )
        allowed_ol = space.allows_ol(job)
        roomy_ol = allowed_ol & enough_memory(PlacementCoefficients.of(job))
        allowed_ol = np.where(roomy_ol.any(axis=1, keepdims=True), roomy_ol, allowed_ol)
        pinned_o = space.pinned_o(job)
        free = space.free_o(job) & bool(space.free_subtasks) & ~_copied_o(job)
        groups = tuple(group for group in space.tied(job) if len(group) > 1)
        for group in groups:
            free[group] = free[group].all()
        return cls(allowed_ol, counts_of(job, job.plan), pinned_o, ~free, space.most_subtasks, groups)

    @classmethod
    def everything(cls, operators: int, sockets: int) -> SocketSpace:
        """Space of all placements of any numbers of subtasks."""
        none_o, nothing_ol = np.zeros(operators, bool), np.zeros((operators, sockets), np.int64)
        return cls(nothing_ol == 0, nothing_ol, none_o, none_o, MOST)

    def levelled(self, subtasks_o: np.ndarray, level: Callable[[np.ndarray], int]) -> np.ndarray:
        """Numbers of subtasks [o] with those that are tied made equal, to the least or the greatest of them."""
        found_o = subtasks_o.copy()
        for group in self.tied:
            found_o[group] = level(found_o[group])
        return found_o

    def holds(self, counts_nol: np.ndarray) -> np.ndarray:
        """[n] whether the space has each of these placements."""
        inside_n = ~((counts_nol > 0) & ~self.allowed_ol & ~self.pinned_o[:, None]).any(axis=(1, 2))
        home_n = (counts_nol == self.home_ol)[:, self.pinned_o].all(axis=(1, 2))
        subtasks_no = counts_nol.sum(axis=2)
        same_n = (subtasks_no == self.home_ol.sum(axis=1))[:, self.kept_o].all(axis=1)
        for group in self.tied:
            same_n &= (subtasks_no[:, group] == subtasks_no[:, group[:1]]).all(axis=1)
        return np.asarray(inside_n & home_n & same_n & (subtasks_no <= self.most_subtasks)[:, ~self.kept_o].all(axis=1))


def _copied_o(job: Deployment) -> np.ndarray:
    """[o] whether each subtask gets all records of some stream, so that more subtasks make more of the same."""
    ways = [[job.query.partitioning(each) for each in job.query.inputs(o.name)] for o in job.query.topological]
    return np.array([any(way.copies for way in each) for each in ways])


MAX_STEPS = 20_000
"""Most steps of the search for a symmetry, after which sockets count as different, which is never wrong."""


class Symmetry:
    """Symmetries of a job's sockets: of capacities, operators allowed, and distances and channels of all pairs."""

    def __init__(self, job: NumaJob, allowed_ol: np.ndarray | None = None) -> None:
        columns = [job.capacity_l, job.speed_l, job.memory_l, job.cores_l, job.card_h[job.host_l]]
        columns += [] if allowed_ol is None else list(allowed_ol)
        self._kind_l = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)[1].ravel()
        pairs = np.concatenate([job.fetch_sij, job.send_sij, job.channel_ij[None], job.apart_ij[None]])
        flat = np.ascontiguousarray(pairs.transpose(1, 2, 0).reshape(-1, len(pairs)))
        self._pair_ij = np.unique(flat, axis=0, return_inverse=True)[1].reshape(job.apart_ij.shape)
        self.distinct = cache(self._distinct)

    def _distinct(self, used: frozenset[int]) -> tuple[int, ...]:
        """Used sockets, and one of each class of unused ones that some symmetry exchanges without moving a used one."""
        found: list[int] = []
        for socket in range(len(self._kind_l)):
            if socket in used or not any(self._exchange(used, other, socket) for other in found if other not in used):
                found.append(socket)
        return tuple(found)

    def _exchange(self, used: frozenset[int], one: int, other: int) -> bool:
        """Whether a symmetry that leaves the used sockets in place takes `one` to `other`."""
        image = {socket: socket for socket in used}
        if not self._fits(image, one, other):
            return False
        image[one] = other
        rest = [socket for socket in range(len(self._kind_l)) if socket not in image]
        self._steps = 0
        return self._complete(image, rest)

    def _complete(self, image: dict[int, int], rest: list[int]) -> bool:
        if not rest:
            return True
        first, *others = rest
        taken = set(image.values())
        for target in range(len(self._kind_l)):
            self._steps += 1
            if self._steps > MAX_STEPS:
                return False
            if target not in taken and self._fits(image, first, target):
                image[first] = target
                if self._complete(image, others):
                    return True
                del image[first]
        return False

    def _fits(self, image: dict[int, int], socket: int, target: int) -> bool:
        if self._kind_l[socket] != self._kind_l[target]:
            return False
        pair = self._pair_ij
        return pair[socket, socket] == pair[target, target] and all(
            pair[socket, a] == pair[target, b] and pair[a, socket] == pair[b, target] for a, b in image.items()
        )


# local search --------------------------------------------------------------------------------------------------------
# Iterated local search on sockets: the best of all small changes, again and again; then a kick, and it starts anew.
#
# Changes: a subtask goes to another socket; two of different operators exchange their sockets; one is added; one is
# removed and one of another operator added, anywhere. All are estimated in one batch. Plans with a core for each
# subtask come first: threads are bound to cores (Section 6.1), and one that needs nearly all of a core never makes up
# for the time that others take. Then a higher load that is borne; of equal ones, less work in all, which leaves room
# for later steps.


CLOSE = 1e-6
"""Relative difference below which loads count as equal."""
STEPS = 500
PRESSED = 0.75
"""Share of a core above which a subtask never makes up for the time that it loses to others there."""
KICK = 6
"""Number of subtasks that a kick moves elsewhere."""
IN_VAIN = 12
"""Number of kicks in a row without a better placement after which the search ends."""


def searched(
    job: NumaJob,
    counts_ol: np.ndarray,
    most_subtasks: int,
    rng: np.random.Generator,
    spent: Callable[[int], bool],
    space: SocketSpace,
    *,
    scale: bool = True,
) -> tuple[np.ndarray, int]:
    """Best placement found from a first one, and the number of placements weighed.

    spent: whether that number weighed is enough. most_subtasks, scale: as in `improved`.
    """
    best, weighed = improved(job, counts_ol, most_subtasks, space, scale=scale, spent=spent)
    worth, in_vain = _worth(job, best[None])[:, 0], 0
    while not space.pinned_o.all() and in_vain < IN_VAIN and worth[1] < 1.0 - CLOSE and not spent(weighed):
        found, more = improved(job, _kicked(best, rng, space), most_subtasks, space, scale=scale, spent=spent)
        weighed += more
        reached = _worth(job, found[None])[:, 0]
        in_vain = 0 if _better(reached[:2], worth[:2]) else in_vain + 1
        if not in_vain:
            best, worth = found, reached
    return best, weighed


def _better(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether `one` is better than `other` in the first value in which they differ by more than rounding."""
    for ours, theirs in zip(one.tolist(), other.tolist(), strict=True):
        if abs(ours - theirs) > CLOSE * abs(theirs):
            return bool(ours > theirs)
    return False


def _kicked(counts_ol: np.ndarray, rng: np.random.Generator, space: SocketSpace) -> np.ndarray:
    """Placement with some subtasks elsewhere, each operator with as many as before."""
    found = counts_ol.copy()
    for _ in range(KICK):
        o = int(rng.choice(np.flatnonzero(~space.pinned_o)))
        start, end = rng.choice(np.flatnonzero(found[o])), int(rng.choice(np.flatnonzero(space.allowed_ol[o])))
        found[o, start] -= 1
        found[o, end] += 1
    return found


def improved(
    job: NumaJob,
    counts_ol: np.ndarray,
    most_subtasks: int,
    space: SocketSpace,
    *,
    steps: int = STEPS,
    scale: bool = True,
    spent: Callable[[int], bool] | None = None,
) -> tuple[np.ndarray, int]:
    """Placement that no small change improves, or that `steps` steps reach, and the number of placements weighed.

    spent: whether that number weighed is enough, asked at each step. most_subtasks: of all operators together. scale:
    whether their numbers may change."""
    here, weighed = counts_ol.astype(float), 0
    worth = _worth(job, here[None])[:, 0]
    for _ in range(steps):
        changes = neighbours(here, most_subtasks, scale)
        changes = changes[space.holds(changes)]
        if not len(changes):  # one socket, and no subtask to spare
            break
        worths = _worth(job, changes)
        weighed += len(changes)
        best = int(np.lexsort(worths[::-1])[-1])
        if not _better(worths[:, best], worth):
            break
        if spent is not None and spent(weighed):
            return changes[best], weighed
        here, worth = changes[best], worths[:, best]
    return here, weighed


def _worth(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """[3, n] worth of placements, more is better, the first number above all: subtasks without a core of their own,
    negative; load that is borne, in steps of CLOSE; load that all cores together could bear."""
    borne_n, total_n = borne(job, counts_nol)
    scale = CLOSE * max(float(borne_n.max()), 1e-300)
    return np.stack([-crowded(job, counts_nol), np.round(borne_n / scale) * scale, total_n])


def borne(job: NumaJob, counts_nol: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sustained load [n] (of several sources, the share of all results), and load that all cores could bear [n]."""
    found = sustained(job, counts_nol)
    if len(job.sources) == 1 or not job.additive:
        return found.load_n, found.total_n
    return results_share(job, counts_nol), found.total_n


def crowded(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """[n] number of subtasks beyond the cores of their socket."""
    return np.asarray(np.maximum(counts_nol.sum(axis=1) - job.cores_l, 0).sum(axis=1))


def pressed(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """[n] cores that subtasks need beyond PRESSED of a core each for the load borne, summed, on crowded sockets."""
    needs_no = np.minimum(borne(job, counts_nol)[0], 1.0)[:, None] * job.in_o * job.time_o / counts_nol.sum(axis=2)
    over_nl = counts_nol.sum(axis=1) > job.cores_l
    beyond_no = np.maximum(needs_no - PRESSED, 0.0)
    return np.round(np.einsum("nol,nl,no->n", counts_nol, over_nl.astype(float), beyond_no), 6)


def loosened(job: NumaJob, counts_ol: np.ndarray, most_subtasks: int, space: SocketSpace) -> np.ndarray:
    """Placement with subtasks added beside pressed ones until none is pressed, at most so many in all."""
    found = counts_ol.copy()
    while found.sum() < most_subtasks and pressed(job, found[None])[0]:
        over_l = found.sum(axis=0) > job.cores_l
        needs_o = job.in_o * job.time_o / found.sum(axis=1) * (found * over_l).any(axis=1)
        o = int(np.argmax(needs_o))
        found[o, int(np.argmax(found[o] * over_l))] += 1
        if not space.holds(found[None])[0]:
            return counts_ol
    return found


def neighbours(counts_ol: np.ndarray, most_subtasks: int, scale: bool) -> np.ndarray:
    """All placements one change away [n, o, l]."""
    operators, sockets = range(counts_ol.shape[0]), range(counts_ol.shape[1])
    taken = [(o, j) for o in operators for j in sockets if counts_ol[o, j] > 0]
    deltas: list[tuple[tuple[int, int], ...]] = []  # loses a subtask, gains one, in turn
    deltas += [((o, i), (o, j)) for o, i in taken for j in sockets if i != j]
    deltas += [((o, i), (p, i), (p, j), (o, j)) for o, i in taken for p, j in taken if o < p and i != j]
    if scale:
        spare = [(o, i) for o, i in taken if counts_ol[o].sum() > 1]
        deltas += [((o, i), (p, j)) for o, i in spare for p in operators if p != o for j in sockets]
        if counts_ol.sum() < most_subtasks:
            deltas += [((-1, -1), (o, j)) for o in operators for j in sockets]
    changed = np.pad(np.repeat(counts_ol[None], len(deltas), axis=0), ((0, 0), (0, 1), (0, 1)))  # -1 is thrown away
    for length in (2, 4):
        rows = [row for row, delta in enumerate(deltas) if len(delta) == length]
        for step in range(length if rows else 0):
            o, j = np.array([deltas[row][step] for row in rows]).T
            changed[rows, o, j] += 1 if step % 2 else -1
    return changed[:, :-1, :-1]


def different(placements: list[np.ndarray]) -> list[np.ndarray]:
    """Placements without repetitions, in their order."""
    return list({each.astype(int).tobytes(): each for each in placements}.values())


def best_first(job: NumaJob, placements: list[np.ndarray]) -> list[np.ndarray]:
    """Different placements by the load they bear; those with a core for each subtask come first."""
    counts_nol = np.array(different(placements))
    order = np.lexsort((-borne(job, counts_nol)[0], crowded(job, counts_nol)))
    return [counts_nol[index] for index in order]


# solutions -----------------------------------------------------------------------------------------------------------
# Solution from placements on sockets: the candidates as plans, judged by the problem's cost model.


TOLERANCE = 1e-6
"""Relative tolerance of a bound, for rounding."""
NEAR = 0.02
"""Relative difference of throughputs that count as near: crowded sockets bear up to a tenth less than predicted."""
CROWDED = 1.25
"""Subtasks a core above which a socket is crowded."""
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
    before = found.candidate(row)
    tied = [index for index in range(len(plans)) if as_good(found.candidate(index), before)]
    row = tied[roomiest(job, [candidates[index] for index in tied])[0]]
    if problem.objective == "throughput_per_s":
        row = calmest(job, candidates[: len(plans)], [found.candidate(index) for index in range(len(plans))], row)
    chosen, counts_ol = answering(problem, chosen, found.candidate(row), before), candidates[row]
    load = float(sustained(job, counts_ol[None]).load_n[0])
    told = chosen.feasible or job.additive  # windows may give all results of an overload: that bound says nothing
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
    proved = bound is not None and chosen.feasible and chosen.objective >= bound * (1.0 - PROVED)
    proved = proved and problem.space.includes(problem.deployment, chosen.plan)  # baselines know of no space
    status = Status.OPTIMAL if proved else chosen.status
    among = problem.space.words(problem.deployment) if proved else ""
    return replace(chosen, bound=bound, message=message, status=status, weighed=weighed, among=among)


def as_good(one: Candidate, other: Candidate) -> bool:
    """Whether the predictions of two plans make no difference between them."""
    close = abs(one.objective - other.objective) <= PROVED * abs(other.objective)
    return close and one.feasible == other.feasible and one.backpressured <= other.backpressured + PROVED


def calmest(job: NumaJob, candidates: Sequence[np.ndarray], found: Sequence[Candidate], best: int) -> int:
    """Row of the candidate whose sockets are crowded least, among those that let through nearly as much as the best one
    and press no more subtasks; the best itself if it keeps up or none is crowded less."""
    if found[best].feasible or not crowding(job, candidates[best][None])[0]:
        return best
    least = found[best].objective * (1.0 - NEAR)
    near = [best, *(row for row, each in enumerate(found) if not each.feasible and each.objective >= least)]
    counts_nol = np.stack([candidates[row] for row in near])
    crowding_n, pressed_n = crowding(job, counts_nol), pressed(job, counts_nol)
    calmer = np.flatnonzero((crowding_n < crowding_n[0]) & (pressed_n <= pressed_n[0]))
    return min(((crowding_n[n], -found[near[n]].objective, near[n]) for n in calmer), default=(0.0, 0.0, best))[2]


def crowding(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """[n] subtasks a core beyond CROWDED, squared and summed: one too many on two sockets is better than two on one."""
    beyond_nl = np.maximum(counts_nol.sum(axis=1) / job.cores_l - CROWDED, 0.0)
    return np.asarray((beyond_nl**2).sum(axis=1))


def roomiest(job: NumaJob, candidates: Sequence[np.ndarray]) -> list[int]:
    """Rows of the candidates [o, l] in order: first those where subtasks that need nearly a core have one, then those
    with a core for each subtask, then by load borne. Sharing a core loses a little that no model of means sees."""
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
    fewer records need not give fewer."""
    share = min(1.0, load_bound(job), most)
    if share == 1.0:
        return job.results_per_s
    if not job.additive:
        return None
    alone = share * job.results_per_s if len(job.sources) == 1 else math.inf
    return min(alone, most_results_per_s(job))


def load_bound(job: NumaJob) -> float:
    """Upper bound of the load of all plans: all cores together, and no record comes from another socket."""
    return float(job.capacity_l.sum() / (job.in_o * job.time_o).sum())
