"""Plans by mixed-integer programs over the rate model's coefficients: `twin optimize X --optimizer milp`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from optimizers.interface import LATE, Candidate, Deadline, Problem, Solution, Status, Traits
from optimizers.local_search import changes_of, climb, climb_on, resized_of
from optimizers.milp.ages import TOLERATED
from optimizers.milp.moving import Quick, descents
from optimizers.milp.placing import (
    HUGE,
    LARGE,
    USED,
    Aim,
    Placing,
    ProgramPlan,
    Proof,
    about,
    admissible,
    fluid_bound,
    prove,
)
from optimizers.objectives import MEAN_LATENCIES, NOTHING_MORE, PRICE, at_rate, priced, prices_h
from optimizers.program import FEW_NODES, GAP, ProgramLimits, ProgramOutcome
from optimizers.rules import evened
from optimizers.selection import (
    RISK_STEP,
    Candidates,
    Estimated,
    answering,
    as_close,
    dealt_anew,
    estimate,
    lasting,
    said,
    shortfall,
)
from optimizers.space import Space, SpacePlans, as_plans, counts_of, host_of_sockets
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.randomness import random_stream
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.model import RateModel
from twin.rates.seats import CountedPlans

# the highest rate ----------------------------------------------------------------------------------------------------
# Highest factor on the rates of all sources that some plan of a job bears.
#
# The program that balances finds the least possible peak utilisation at one rate. Loads of joins grow faster than the
# rates, so it is solved again at the rate at which its last plan would be full, until plan and rate agree; once one
# rate is known to be too low and one too high, at a rate between them.


RATE_ROUNDS = 20
RATE_CLOSE = 1e-3
"""Relative tolerance of the utilisation that is aimed at."""
FULL, LEAST = 4.0, 1e-6
"""Utilisation that counts where no plan fits into memory, and where nothing is used."""
INSIDE = 0.03
"""Share of the way between two rates by which the next one stays away from either."""


@dataclass(frozen=True, slots=True)
class HighestRate:
    """Answer of `highest_rate`. factor: multiple of the offered rates at which the fullest resource is used to 99 %
    under the plan counts_ol [O, L]; 0 and None where no plan fits into memory."""

    factor: float
    counts_ol: np.ndarray | None


def highest_rate(deployment: Deployment, space: Space, limits: ProgramLimits) -> HighestRate:
    """Plan with the highest rate, by the linear loads of the rate model. limits: of each program."""
    factor, best = 1.0, HighestRate(0.0, None)
    below: RatePoint | None = None
    above: RatePoint | None = None
    for _ in range(RATE_ROUNDS):
        found = Placing(PlacementCoefficients.of(at_rate(deployment, factor)), space, "balanced").solve(limits)
        used = FULL if found.counts_ol is None else max(found.cost, LEAST)
        if used <= USED * (1.0 + RATE_CLOSE):
            below = RatePoint(factor, used)
            best = max(best, HighestRate(factor, found.counts_ol), key=lambda each: each.factor)
        else:
            above = RatePoint(factor, used)
        if abs(used / USED - 1.0) < RATE_CLOSE:
            break
        factor = _between(below, above) if below and above else factor * USED / used
    return best


class RatePoint(NamedTuple):
    """Factor on the rates, and utilisation of the fullest resource at it."""

    factor: float
    used: float


def _between(below: RatePoint, above: RatePoint) -> float:
    """Factor between the two points at which the utilisation is as wanted, if it is a power of the rate."""
    along = math.log(USED / below.used) / math.log(above.used / below.used)
    return below.factor * (above.factor / below.factor) ** min(max(along, INSIDE), 1.0 - INSIDE)


# the fewest hosts ----------------------------------------------------------------------------------------------------
# Plans a job on the fewest or cheapest hosts that bear it at its rate, with head room.
#
# A plan bears it if the cost model calls it free of backpressure at (1 + head room) times the offered rates, for good:
# the rate model predicts a day, in which deep channels fill. A program with linear loads proposes hosts. Costs that it
# leaves out (fetching between sockets, streams of spread operators) come from the rate model's answer on the proposed
# plan, as a higher demand of the operators, and the program is solved again. Where the numbers of subtasks are free
# they begin at the fewest that will do, and are raised by steps while that might save a host. No plan is cheaper than
# the fluid bound, where work can be divided at will and nothing is lost on the way.
#
# Where latencies are limited too, sets of hosts are tried from the cheapest up. On each, small changes of places and
# of numbers of subtasks are tried until a plan fulfils the limits; else the program proposes hosts beyond the set.


class FeasibleAtRate:
    """Numbers that rank plans by whether they bear a higher rate, then by price. ahead: the problem at that rate.
    prices_h: of hosts; zeros if the hosts do not matter."""

    def __init__(self, ahead: Problem, prices_h: np.ndarray) -> None:
        self._ahead, self._prices_h = ahead, prices_h
        self._host_l = host_of_sockets(ahead.deployment)

    def __call__(self, counts_nol: np.ndarray, known: Estimated) -> np.ndarray:
        """[3, N]: probability that a plan fails to bear the rate, in steps, 0 if it bears it; amount by which it misses
        the requirements; price. known: estimates at the offered rates."""
        found = estimate(self._ahead, as_plans(self._ahead.deployment, counts_nol))
        feasible = (found.backpressured < 0.5) & (found.success >= 0.5)
        risk = np.ceil((1.0 - (1.0 - found.backpressured) * found.success) / RISK_STEP)
        used_nh = counts_nol.any(axis=1) @ (self._host_l[:, None] == np.arange(len(self._prices_h)))
        missed = np.zeros(len(feasible)) if known.missed is None else known.missed
        return np.stack([np.where(feasible, 0.0, risk), missed, used_nh @ self._prices_h])


ROUNDS = 6
"""Most programs solved for one choice of subtasks."""
MORE = (1.0, 1.05, 1.1, 1.2, 1.4, 2.0)
"""Factors on the fewest subtasks that will do, tried in turn."""
SHARE, BATCH = 0.25, 16
"""Share of the estimates left that one set of hosts gets where latencies are limited; number of changes of a plan that
are estimated together, of which the first batch with a better one decides."""
CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Fewest:
    """Answer of `fewest_hosts`. price: of the best plan's hosts, inf if no plan bears the job within the limits; bound:
    no plan's hosts cost less, inf if no hosts are enough. It is a bound under the rate model alone."""

    candidates: Candidates
    price: float
    bound: float


def fewest_hosts(problem: Problem, head_room: float, prices: Mapping[str, float]) -> Fewest:
    """Plans on the fewest or cheapest hosts with this head room. prices: by host, instead of those of the deployment.
    Raises BadInput for an unknown host."""
    price_h = prices_h(problem.deployment, prices)
    scenario = at_rate(problem.scenario, 1.0 + head_room)
    ahead = lasting(replace(problem, scenario=scenario, requirements=NOTHING_MORE))
    space, candidates = problem.space, Candidates(problem, prefers=FeasibleAtRate(ahead, price_h), extra=1)
    job = PlacementCoefficients.of(ahead.deployment)
    bound = fluid_bound(job, space, price_h, TOLERATED)
    for more in MORE if space.free_subtasks else (1.0,):
        if math.isinf(bound):
            break
        if more > 1.0 and (_price(candidates, limited=False) <= bound * (1.0 + CLOSE) or candidates.left <= 0):
            break
        _propose(ahead, job, candidates, price_h, more)
    given = counts_of(problem.deployment, problem.deployment.plan)
    balanced = [] if math.isfinite(_price(candidates, limited=False)) else _balanced(job, candidates)
    candidates.look_at([*balanced, given])
    if _price(candidates) > _price(candidates, limited=False):
        _limited(job, candidates, price_h)
    climb_on(candidates)
    return Fewest(candidates, _price(candidates), bound)


def _price(candidates: Candidates, *, limited: bool = True) -> float:
    """Price of the cheapest plan that bears the job and, if `limited`, fulfils all requirements; inf without one."""
    found = candidates.preferred(slice(None)) if len(candidates) else None
    if found is None:
        return math.inf
    risk, missed, price = found
    return float(price[(risk <= 0.0) & ((missed <= 0.0) | (not limited))].min(initial=math.inf))


def _limited(job: PlacementCoefficients, candidates: Candidates, price_h: np.ndarray) -> None:
    """Looks at plans on one set of hosts after the other, from the cheapest up, until one bears the job and fulfils the
    limits, or the next set costs as much as a known plan that does."""
    problem, tried, host_l = candidates.problem, list[np.ndarray](), job.places.host_l
    moved, resized = changes_of(problem), resized_of(problem)
    if problem.space.free_subtasks:
        job = replicated(job, problem.space, USED, 1.0)
    while candidates.left > 0:
        found = Placing(job, problem.space, "hosts", prices_h=price_h, beyond=tried).solve(candidates.limits)
        if found.counts_ol is None:
            return
        used_h = np.bincount(host_l, found.counts_ol.any(axis=0), len(price_h)) > 0
        price, least = float(price_h[used_h].sum()), int((1.0 - SHARE) * candidates.left)
        if price >= _price(candidates) * (1.0 - CLOSE):
            return

        def near(counts_ol: np.ndarray, here_l: np.ndarray = used_h[host_l]) -> list[np.ndarray]:
            return [each for each in resized(counts_ol) + moved(counts_ol) if not each[:, ~here_l].any()]

        def enough(price: float = price, least: int = least) -> bool:
            return _price(candidates) <= price * (1.0 + CLOSE) or candidates.left <= least

        climb(candidates, near, [found.counts_ol], batch=BATCH, enough=enough)
        tried.append(used_h)


def _propose(
    ahead: Problem,
    job: PlacementCoefficients,
    candidates: Candidates,
    price_h: np.ndarray,
    more: float,
) -> None:
    """Looks at plans on the cheapest hosts until one bears the job."""
    most, space = USED, ahead.space
    if space.free_subtasks:
        job = replicated(job, space, most, more)
    for _ in range(ROUNDS):
        found = Placing(job, space, "hosts", most=most, prices_h=price_h).solve(candidates.limits)
        if found.counts_ol is None or candidates.left <= 0:
            return
        before = _price(candidates, limited=False)
        more_even = evened(found.counts_ol, space.free_o(job.deployment))
        candidates.look_at([found.counts_ol, *([more_even] if space.free_subtasks else [])])
        if _price(candidates, limited=False) < before or found.outcome is ProgramOutcome.STOPPED:
            return
        job, most = _learned(ahead, job, found.counts_ol, most)


def _balanced(job: PlacementCoefficients, candidates: Candidates) -> list[np.ndarray]:
    """The plan on any hosts with the lowest peak utilisation, if there is one."""
    space = candidates.problem.space
    if space.free_subtasks:
        job = replicated(job, space, USED, 1.0)
    found = Placing(job, space, "balanced").solve(candidates.limits)
    return [] if found.counts_ol is None else [found.counts_ol]


def _learned(
    ahead: Problem, job: PlacementCoefficients, counts_ol: np.ndarray, most: float
) -> tuple[PlacementCoefficients, float]:
    """Job with the demands that the rate model finds under a plan, and a lower utilisation limit if demands are not the
    cause."""
    answer = RateModel().answer_counts(ahead.deployment, counts_ol[None])
    works_o = answer.busy_cores[0] * counts_ol.sum(axis=1)
    higher_o = np.maximum(job.operators.work, works_o)
    none_s = np.zeros(len(job.producer_s))
    learned = replace(
        job,
        operators=job.operators._replace(work=higher_o),
        streams=job.streams._replace(send=none_s, receive=none_s),
    )
    pressure = float(answer.offered_pressure.max())
    return learned, most * min(0.99, max(0.5, USED / pressure)) if (
        works_o <= job.operators.work * 1.001
    ).all() else most


def replicated(job: PlacementCoefficients, space: Space, most: float, more: float) -> PlacementCoefficients:
    """Job with `more` times the fewest subtasks that use no core, and no place for their calls to outside, beyond
    `most`, where their numbers are free."""
    deployment, work_o = job.deployment, job.operators.work
    free = space.free_o(deployment)
    core_o = np.where(space.allows_ol(deployment), job.places.core_l, 0.0).max(axis=1)
    called_o = [
        rate / each.calls.subtask_per_s if each.calls else 0.0
        for rate, each in zip(job.operators.in_per_s, deployment.query.topological, strict=True)
    ]
    used_o = np.maximum(work_o / np.maximum(core_o, 1e-9), called_o)
    wanted_o = np.maximum(np.ceil(used_o / most * more), 1.0)
    useful = space.most_subtasks  # a key group is on one subtask, so no more subtasks than groups have work
    most_o = [min(useful, each.values(useful)) for each in deployment.query.topological]
    subtasks_o = np.where(free, np.minimum(wanted_o, most_o), job.operators.parallelism).astype(np.int64)
    for group in space.tied(deployment):
        parts = [part for o in group if (part := deployment.query.topological[o].parts)]
        subtasks_o[group] = _fewest_alike(parts, int(subtasks_o[group].max()))
    return _with_subtasks(job, subtasks_o)


def _with_subtasks(job: PlacementCoefficients, subtasks_o: np.ndarray) -> PlacementCoefficients:
    """Job planned with these numbers of subtasks; operators that keep their number keep their places."""
    counts_ol = counts_of(job.deployment, job.deployment.plan)
    changed = counts_ol.sum(axis=1) != subtasks_o
    counts_ol[changed] = 0
    counts_ol[changed, 0] = subtasks_o[changed]
    plan = CountedPlans(job.deployment, counts_ol[None])[0]
    return PlacementCoefficients.of(job.deployment.model_copy(update={"plan": plan}))


def _fewest_alike(parts: Sequence[int], parallelism: int) -> int:
    """Fewest subtasks with which the busiest reads no more partitions than with `parallelism`. parts: partitions by
    topic."""
    return min([-(-count // -(-count // parallelism)) for count in parts] or [parallelism])


# the optimizer -------------------------------------------------------------------------------------------------------
# They aim at the best objective, the highest rate (`goal=rate`), or the fewest hosts with head room (`goal=hosts`).
# The programs are solved by HiGHS; the problem's own cost model estimates their plans, which small changes then
# improve under it, so that no program's errors remain unseen. The given plan is always a candidate. For the best
# objective the program whose ages include neighbours makes the start (for a latency, and operators on one socket
# each), else or beside it the one that balances.
#
# Programs take long to begin with at size, and leave out what neighbours on many cores cost each other. So a quick
# estimate moves operators from the given plan on (`moving`), and beyond a size no other program is solved than the
# linear one for the bound, for which a part of the time is kept.


TOO_MUCH = 1.02
"""Utilisation above which the rate model calls every plan backpressured."""
SOON, MANY = 0.1, 100
"""Share of the run in which backpressure is to show, and number of plans checked, to call all plans overloaded."""
GAPS = ((200, GAP), (math.inf, 3e-2))
"""Relative gap of programs, of what placement can change, by the number of operators times sockets up to which it
holds: small changes find the rest sooner."""


BEGINNING, SEARCHING = 0.3, 0.6
"""Shares of the time left that the first program, and the search before the proof, may take at most."""
AROUND = 128
"""Number of moves, the best by the quick estimate, that the cost model estimates of a plan."""


def _solved(job: PlacementCoefficients, candidates: Candidates, aim: Aim) -> ProgramPlan:
    end_to_end = candidates.problem.objective.startswith("e2e_latency_s")
    size = _size(job)
    limits = replace(candidates.limits, gap=next(gap for most, gap in GAPS if size <= most))
    if size > LARGE:
        limits = replace(limits, deadline=candidates.deadline.part(BEGINNING), nodes=FEW_NODES)
    return Placing(job, candidates.problem.space, aim, end_to_end=end_to_end).solve(limits)


def _size(job: PlacementCoefficients) -> int:
    return len(job.names) * len(job.places.host_l)


def _quick(problem: Problem, job: PlacementCoefficients) -> Quick | None:
    """Quick estimate of a latency, for a large job whose plans move operators as a whole and freely; else None."""
    ruled = problem.space.costream_rules or problem.space.most_moves is not None
    if ruled or _size(job) <= LARGE or (counts_of(job.deployment, job.deployment.plan) > 0).sum(axis=1).max() > 1:
        return None
    return Quick.of(job, problem.space, end_to_end=problem.objective.startswith("e2e_latency_s"))


def _move_on(quick: Quick, candidates: Candidates, deadline: Deadline) -> None:
    """Looks at plans that quick moves find from the known ones, and climbs from the best by the cost model."""
    problem = candidates.problem
    starts = [candidates[row].argmax(axis=1) for row in candidates.ranking]
    for place_o in descents(quick, starts, random_stream(problem.seed, "quick-moves"), deadline):
        candidates.look_at([_counts(quick, place_o)])
        if candidates.left <= 0:
            return
    climb(candidates, lambda counts_ol: _best_moves(quick, counts_ol), [candidates[candidates.best]])


def _counts(quick: Quick, place_o: np.ndarray) -> np.ndarray:
    counts_ol = np.zeros(quick.allowed_ol.shape, np.int64)
    counts_ol[np.arange(len(place_o)), place_o] = quick.job.operators.parallelism
    return counts_ol


def _best_moves(quick: Quick, counts_ol: np.ndarray) -> list[np.ndarray]:
    place_o = counts_ol.argmax(axis=1)
    change_ol = quick.moves(place_o)
    found = []
    for move in np.argsort(change_ol, axis=None, kind="stable")[:AROUND].tolist():
        o, socket = divmod(move, change_ol.shape[1])
        if np.isfinite(change_ol[o, socket]):
            moved = place_o.copy()
            moved[o] = socket
            found.append(_counts(quick, moved))
    return found


def _rough(problem: Problem) -> bool:
    """Whether programs leave out costs: distances between sockets, and all but the loads of spread operators."""
    return problem.space.spreads(problem.deployment) or any(
        host.socket_count > 1 for host in problem.deployment.cluster.hosts
    )


def _shows(problem: Problem, candidates: Candidates) -> bool:
    """Whether overloaded plans are backpressured long before the end of the run: channels may be too deep for that."""
    if not len(candidates) or not isinstance(problem.cost_model, RateModel):
        return False
    soon = replace(problem.cost_model, horizon_s=SOON * problem.cost_model.run_s(problem.scenario), warmup_s=0.0)
    plans = as_plans(problem.deployment, np.stack([candidates[row] for row in candidates.ranking[:MANY]]))
    found = soon.predict(problem.scenario, plans)
    return bool((found["backpressured"] * found["success"] > 0.5).all())


def _too_much(balanced: ProgramPlan | None) -> bool:
    """Whether even the least possible peak utilisation is too high, or no plan fits into memory."""
    return balanced is not None and (balanced.outcome is ProgramOutcome.INFEASIBLE or balanced.bound > TOO_MUCH)


Goal = Literal["objective", "rate", "hosts"]
HEAD_ROOM = 0.2
"""Head room of plans on the fewest hosts: share of the offered rate that they must bear beyond it."""
STOPPED = "the solver's time was up before it was done"
OVERLOADED = "every plan is overloaded: more is offered than any placement bears; this one lets the most through"


@dataclass(frozen=True, slots=True)
class Milp:
    """Planner by mixed-integer programs. goal: as above; on the fewest hosts, numbers of subtasks are free unless the
    space says otherwise, and head room is the default. ruled: whether it obeys Costream's rules itself."""

    name: str = "milp"
    goal: Goal = "objective"
    ruled: bool = False

    @property
    def traits(self) -> Traits:
        """Traits by goal; on the fewest hosts the answer has head room unless other head room is required."""
        usual = self.goal == "objective"
        room, goal = (HEAD_ROOM, PRICE) if self.goal == "hosts" else (None, None)
        return Traits(
            by_objective=usual,
            goal=goal,
            costream_rules=self.ruled,
            head_room=room,
            drivable=usual,
            analytic=usual,
        )

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput if the space names what the job does not have, holds no plan of it, or frees
        numbers of subtasks that the programs keep."""
        started_s = time.perf_counter()
        if problem.space.free_subtasks and self.goal != "hosts":
            raise BadInput(f"{self.name} keeps numbers of subtasks; use rlas or milp-hosts, or leave out free subtasks")
        problem.space.check(problem.deployment)
        problem = problem.settled(free_subtasks=self.goal == "hosts", costream_rules=self.ruled)
        solvers = {"objective": self._objective, "rate": self._rate, "hosts": self._hosts}
        found = solvers[self.goal](problem)
        message = said(found.message, dealt_anew(problem, found.plan))
        return replace(found, message=message, seconds=time.perf_counter() - started_s)

    def _objective(self, problem: Problem) -> Solution:
        limited = problem.within_usual()
        job, candidates = PlacementCoefficients.of(problem.deployment), Candidates(limited)
        all_time = candidates.deadline
        in_one_place = problem.objective in MEAN_LATENCIES and not problem.space.spreads(problem.deployment)
        quick = _quick(problem, job) if in_one_place else None
        given = counts_of(problem.deployment, problem.deployment.plan)
        if quick is not None:
            candidates.deadline = all_time.part(SEARCHING)
            candidates.look_at([given])
        if quick is not None and len(candidates):
            _move_on(quick, candidates, all_time.part(BEGINNING))
        found_quickly = (
            (_size(job) > HUGE or not problem.proves)
            and len(candidates) > 0
            and candidates.candidate(candidates.best).feasible
        )
        solved = [_solved(job, candidates, "crowded")] if in_one_place and not found_quickly else []
        balanced = None
        if not found_quickly and (not solved or solved[0].counts_ol is None):
            balanced = _solved(job, candidates, "balanced")
            solved.append(balanced)
        if problem.objective == PRICE:
            ahead = PlacementCoefficients.of(at_rate(problem.deployment, problem.requirements.factor))
            price_h = prices_h(problem.deployment, problem.requirements.prices)
            solved.append(Placing(ahead, problem.space, "hosts", prices_h=price_h).solve(candidates.limits))
        starts = [each.counts_ol for each in solved if each.counts_ol is not None]
        starts.append(given)
        candidates.look_at(starts)
        if quick is not None and len(candidates) and not found_quickly:
            _move_on(quick, candidates, all_time.part(BEGINNING))
        if quick is None:
            climb_on(candidates, starts if _rough(problem) else ())
        candidates.deadline = all_time
        by_rates = isinstance(problem.cost_model, RateModel)
        overloaded = by_rates and not job.bursty and _too_much(balanced) and _shows(problem, candidates)
        feasible = len(candidates) > 0 and candidates.candidate(candidates.best).feasible
        proof = Proof(None, closed=False)
        if feasible and problem.proves and admissible(problem, job):
            proof = prove(job, candidates)
        best = self._best(problem, candidates)
        if overloaded and not best.feasible:
            return replace(best, status=Status.INFEASIBLE, message=OVERLOADED)
        status = Status.OPTIMAL if proof.closed else Status.FEASIBLE
        stopped = any(each.outcome is ProgramOutcome.STOPPED for each in solved)
        late = LATE if problem.seconds is None and all_time.over and not all_time.stopped() else ""
        among = best.among if proof.bound is None else about(job, candidates, best.among)
        message = said(late, best.message or STOPPED * stopped)
        return replace(best, status=status, bound=proof.bound, message=message, among=among)

    def _rate(self, problem: Problem) -> Solution:
        found = highest_rate(problem.deployment, problem.space, Candidates(problem).limits)
        ahead = replace(problem, scenario=at_rate(problem.scenario, found.factor or 1.0))
        no_price_h = np.zeros(len(problem.deployment.cluster.hosts))
        candidates = Candidates(problem, prefers=FeasibleAtRate(ahead, no_price_h), extra=1)
        given = counts_of(problem.deployment, problem.deployment.plan)
        candidates.look_at([given] if found.counts_ol is None else [found.counts_ol, given])
        climb_on(candidates)
        best, chosen = self._best(problem, candidates), candidates.best
        before, row = candidates.candidate(chosen), candidates.row(given)
        if row is not None and _as_good(candidates.candidate(row), before):
            best, chosen = answering(problem, best, candidates.candidate(row), before), row
        risk = candidates.preferred(chosen)
        if found.counts_ol is None or risk is None or risk[0] > 0.0:
            return replace(best, message=best.message or "the highest rate that this plan bears was not confirmed")
        return replace(best, message=f"the plan bears {found.factor:.3g} times the offered rates")

    def _hosts(self, problem: Problem) -> Solution:
        required = self.traits.required(problem)
        head_room = required.head_room or 0.0
        found = fewest_hosts(problem, head_room, required.prices)
        best = self._best(problem, found.candidates)
        used = sorted(best.plan.hosts(*best.plan.placement))
        limits = replace(required, head_room=None).words
        ahead = f"{1.0 + head_room:g} times the offered rates"
        by_rates = isinstance(problem.cost_model, RateModel)
        if math.isinf(found.price):
            proved = by_rates and math.isinf(found.bound)
            status = Status.INFEASIBLE if proved else Status.FEASIBLE
            words = f"bears {ahead}" + (f", {limits}" if limits else "")
            return replace(best, status=status, message=f"no plan was found that {words}")
        hosts = f"1 host ({used[0]}) bears" if len(used) == 1 else f"{len(used)} hosts ({', '.join(used)}) bear"
        within = f", under a plan that {limits}" if limits else ""
        says = _says(found, by_rates, priced=priced(problem.deployment, required.prices))
        unsafe = shortfall(problem, found.candidates.candidate(found.candidates.best))
        return replace(best, message=said(unsafe, f"{hosts} {ahead}{within}{says}"))

    def _best(self, problem: Problem, candidates: Candidates) -> Solution:
        """Solution of the best candidate, without a proof. Raises BadInput if no plan of the space is found."""
        if not len(candidates):  # no program has an answer, so any plan is as good
            plans = SpacePlans(problem.deployment, replace(problem.space, free_subtasks=False))
            candidates.look_at(plans.sample(random_stream(problem.seed, "milp"), 1))
        return candidates.solution(time.perf_counter())


def _as_good(one: Candidate, best: Candidate) -> bool:
    """Whether neither plan keeps up, and their predictions differ by no more than the error of predictions."""
    return not one.runs and not best.runs and as_close(one.objective, best.objective)


def _says(found: Fewest, by_rates: bool, *, priced: bool) -> str:
    """Words on the price of other plans, which only the rate model's loads bound."""
    price = f" for {found.price:g}" if priced else ""
    if not by_rates:
        return price
    if found.price <= found.bound * (1.0 + CLOSE):
        return f"{price}; {'nothing is cheaper' if priced else 'no fewer will do'}"
    return f"{price}; no plan can do with less than {found.bound:g}"
