"""Fuses operators by partition attributes (Enorm, Algorithm 1) and places them: `--optimizer fusion`."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Any, Literal, NamedTuple

import numpy as np

from optimizers.fusion.components import Fusion, Splits, baseline, by_attributes, by_communication, least_communication
from optimizers.fusion.job import FusionJob, Kind
from optimizers.interface import Deadline, Optimizer, Problem, Solution, Traits, traits_of
from optimizers.local_search import climb, governor_plan
from optimizers.selection import KnownPlans, by_risk, choose, said
from optimizers.space import Space, SpacePlans, counts_of
from twin.chaining import Fused, Link, attributes_of, links_of, trees, why_apart, why_never
from twin.chaining import links as links_within
from twin.deployment import Deployment, nominal_rates
from twin.errors import BadInput, suggest
from twin.kinds.windowed import Windowed
from twin.plan import ExecutionPlan
from twin.query import AnyOperator, Query
from twin.randomness import random_stream
from twin.rates.seats import CountedPlans
from twin.spec import parse
from twin.unsupported import unsupported_features
from twin.workload import key_groups_of

# a query of the twin as such a job -----------------------------------------------------------------------------------
# Translation of a query of the twin into a job for fusion, with schemas and partition attributes.
#
# A query knows columns by number and type. So each keyed operator is split by an attribute of its own, `NAME.key`,
# which no other operator has, unless its `partition_by` or `keys` names attributes; and a map counts as computing all
# anew, unless its `passes` names attributes that it leaves as they are. Where a query leaves something open, operators
# are not fused: so fusion never sends the records of one key to two places.


Names = Mapping[str, Collection[str]]


def fusion_job(deployment: Deployment, keys: Names | None = None, passes: Names | None = None) -> FusionJob:
    """Fusion job of a deployment: its query's operators with the plan's subtasks, and rates as if nothing were
    saturated.

    keys: by operator whose inputs are all dealt by hash, the attributes that it is keyed by. passes: by map, those of
    these that its output has unchanged. Both add to what the query says. A stateful operator whose input is dealt in
    another way stays alone, with one subtask. Windows are left out: the twin's are in processing time. Raises
    BadInput for an unknown operator or attribute, for keys of an operator that has none, or if an operator has subtasks
    that it cannot be split into.
    """
    query = deployment.query
    keyed = _keys(query, keys or {})
    passed = _passes(query, passes or {}, {name for each in keyed.values() for name in each})
    needed = _needed(query, keyed, passed)
    operators = [_operator(deployment, each, keyed, passed, needed) for each in query.topological]
    document = {"operators": operators, "transfers": _transfers(deployment), "distinct": _distinct(query, keyed)}
    job = parse(FusionJob, document)
    splits = Splits(job)
    for name in job.by_name:
        splits.check((name,))
    return job


def _keys(query: Query, given: Names) -> dict[str, tuple[str, ...]]:
    """Key attributes of each operator that is split by key."""
    own: dict[str, tuple[str, ...]] = {
        each.name: tuple(sorted(attributes_of(query, each.name))) or (f"{each.name}.key",)
        for each in query.operators
        if _by_key(query, each)
    }
    for name, attributes in given.items():
        if name not in own:
            raise BadInput(f"keys names {name!r}, which is not keyed; {suggest(name, own)}")
        if not attributes or isinstance(attributes, str):
            raise BadInput(f"keys of {name!r} should be a list of attributes, got {attributes!r}")
        own[name] = tuple(attributes)
    return own


def _by_key(query: Query, operator: AnyOperator) -> bool:
    ways = [query.partitioning(stream) for stream in query.inputs(operator.name)]
    whole = _whole(operator) or getattr(operator, "partition_by", None) == ()
    return bool(ways) and all(way.keeps_keys for way in ways) and not whole


def _whole(operator: AnyOperator) -> bool:
    """Whether an operator's windows are over all records instead of those of a key."""
    return isinstance(operator, Windowed) and not operator.keyed


def _makes_anew(operator: AnyOperator) -> bool:
    """Whether an operator's results are new records, which keep no attribute of its input unless the query says so."""
    ends = operator.is_source or operator.is_sink
    return not (ends or operator.thins or isinstance(operator, Windowed))


def _passes(query: Query, given: Names, known: Iterable[str]) -> dict[str, frozenset[str]]:
    maps = [each.name for each in query.operators if _makes_anew(each)]
    for name, attributes in given.items():
        if name not in maps:
            raise BadInput(f"passes names {name!r}, which is no map; {suggest(name, maps)}")
        for attribute in attributes:
            if attribute not in set(known):
                raise BadInput(
                    f"passes of {name!r} names {attribute!r}, by which nothing is keyed; {suggest(attribute, known)}"
                )
    return {name: frozenset(given.get(name, getattr(query.operator(name), "passes", ()))) for name in maps}


def _needed(
    query: Query, keyed: Mapping[str, tuple[str, ...]], passed: Mapping[str, frozenset[str]]
) -> dict[str, frozenset[str]]:
    """Attributes that each operator's input must have: its own keys, and those that later operators need."""
    needed: dict[str, frozenset[str]] = {}
    for operator in reversed(query.topological):
        later = frozenset[str]().union(*(needed[stream.consumer] for stream in query.outputs(operator.name)))
        own = frozenset(keyed.get(operator.name, ()))
        through = later if operator.thins else passed.get(operator.name, frozenset()) & later
        needed[operator.name] = own | through
    return needed


def _operator(
    deployment: Deployment,
    operator: AnyOperator,
    keyed: Mapping[str, tuple[str, ...]],
    passed: Mapping[str, frozenset[str]],
    needed: Mapping[str, frozenset[str]],
) -> dict[str, Any]:
    query, name = deployment.query, operator.name
    inputs, outputs = query.inputs(name), query.outputs(name)
    later = frozenset[str]().union(*(needed[stream.consumer] for stream in outputs))
    found: dict[str, Any] = {
        "name": name,
        "kind": _kind(operator, keyed),
        "parallelism": deployment.plan.parallelism(name),
    }
    if inputs:
        found["schema_in"] = [f"{stream.producer}.tuple" for stream in inputs] + sorted(needed[name])
    if outputs:
        found["schema_out"] = [f"{name}.tuple", *sorted(later)]
    if name in passed:
        found["passes"] = sorted(passed[name] & later & needed[name])
    ways = [query.partitioning(stream) for stream in inputs]
    scattered = any(way.copies or way.two_choices for way in ways)  # records of a key go to several subtasks
    if name in keyed:
        found["partition_by"] = keyed[name]
    elif any(way.whole and not way.copies for way in ways) or _whole(operator):
        found["partition_by"] = []
    elif found["kind"] == "compute" or scattered:
        found |= {"partition_by": [], "parallelism": 1}
    return found


def _kind(operator: AnyOperator, keyed: Collection[str]) -> Kind:
    if operator.is_source:
        return "source"
    if operator.is_sink:
        return "sink"
    stateful = isinstance(operator, Windowed) or key_groups_of(operator) is not None or operator.name in keyed
    return "compute" if stateful else "map"


def _transfers(deployment: Deployment) -> list[dict[str, Any]]:
    """Transfers of a job: every consumer of an operator gets all that it emits; by broadcast, every subtask of it."""
    query, rates = deployment.query, nominal_rates(deployment.query, deployment.workload.arrivals)
    return [
        {
            "producer": stream.producer,
            "consumer": stream.consumer,
            "rate_per_s": rates[stream.producer].out_per_s
            * query.operator(stream.producer).share_to(stream.consumer)
            * (deployment.plan.parallelism(stream.consumer) if query.partitioning(stream).copies else 1),
        }
        for stream in query.streams_by_name
    ]


def _distinct(query: Query, keyed: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Number of values of each attribute that is an operator's only key: at most its key groups, and its keys if
    known."""
    found: dict[str, int] = {}
    for name, attributes in keyed.items():
        operator = query.operator(name)
        counts = [key_groups_of(operator), operator.values(0) or None]  # nobody counts the values of other keys
        for count in counts:
            if count is not None and len(attributes) == 1:
                found[attributes[0]] = min(count, found.get(attributes[0], count))
    return found


# arrangements and their changes --------------------------------------------------------------------------------------
# Places of operators, which of them run as one task, and all small changes of such an arrangement.
#
# A plan fuses trees (`twin.chaining`): a set of links, each the only stream into its consumer. An algorithm of fusion
# makes components of any shape; where they branch, a plan fuses only the paths in them. Fused operators move, get
# subtasks and lose them together. A change of links joins two tasks, at the places of either, or parts one.


Links = frozenset[Link]


def possible(deployment: Deployment) -> tuple[Link, ...]:
    """Ends of the streams that may be put within a task, wherever operators are placed, each the only one out of its
    producer; none where sockets or context switches are limited, under which fused operators are not simulated."""
    if deployment.engine.context_switch or any(host.sockets for host in deployment.cluster.hosts):
        return ()
    query = deployment.query
    ends = [(each.producer, each.consumer) for each in query.streams_by_name if len(query.outputs(each.producer)) == 1]
    return tuple(each for each in ends if not why_never(query, *each))


def within(fusion: Fusion, allowed: Collection[Link]) -> list[Link]:
    """The allowed links within a component, the busiest first."""
    of, busy = fusion.component_of, sorted(fusion.job.transfers, key=lambda each: -each.rate_per_s)
    ends = [(each.producer, each.consumer) for each in busy]
    return [each for each in ends if each in allowed and of[each[0]] == of[each[1]]]


def joined(query: Query, links: Collection[Link]) -> tuple[Fused, ...]:
    """Operators that the links join, sorted by the names of the first ones."""
    return trees(query, {consumer: producer for producer, consumer in links})


def with_links(query: Query, plan: ExecutionPlan, links: Collection[Link]) -> ExecutionPlan:
    """Plan with these operators fused, as far as they may be: operators that are not placed alike run apart."""
    before = dict[str, str]()
    for group in joined(query, links):
        for producer, name in links_within(query, group):
            path = [producer]
            while path[0] in before:
                path.insert(0, before[path[0]])
            if not why_apart(query, plan, path, name):
                before[name] = producer
    return plan.model_copy(update={"fused": trees(query, before)})


class Arrangement(NamedTuple):
    """Places and fusion of a plan. counts_ol: subtasks of operators in data-flow order by socket. links: between
    operators that run as one task."""

    counts_ol: np.ndarray
    links: Links

    @property
    def key(self) -> tuple[bytes, Links]:
        """Key of the arrangement: equal for equal ones."""
        return self.counts_ol.tobytes(), self.links

    def plan(self, job: Deployment) -> ExecutionPlan:
        """Execution plan of the job with this arrangement."""
        if (self.counts_ol == counts_of(job, job.plan)).all():  # in the order of its subtasks
            return with_links(job.query, job.plan, self.links)
        return with_links(job.query, CountedPlans(job, self.counts_ol[None])[0], self.links)


def arranged(job: Deployment, plan: ExecutionPlan) -> Arrangement:
    """Arrangement of a plan."""
    return Arrangement(counts_of(job, plan), links_of(job.query, plan.fused))


def gathered(job: Deployment, here: Arrangement, link: Link) -> Iterator[Arrangement]:
    """Yields the arrangements that fuse both ends of a link: at the places of the producer, and at those of the
    consumer."""
    rows, links = _rows(job), here.links | {link}
    whole = next(group for group in joined(job.query, links) if link[0] in group)
    for end in link:
        counts_ol = here.counts_ol.copy()
        counts_ol[[rows[name] for name in whole]] = here.counts_ol[rows[end]]
        yield Arrangement(counts_ol, links)


class Arrangements(KnownPlans[Arrangement]):
    """Known plans in the form of arrangements."""

    def key(self, item: Arrangement) -> Hashable:
        """Key of an arrangement's places and links."""
        return item.key

    def counts_of(self, item: Arrangement) -> np.ndarray:
        """Subtasks of an arrangement by operator and socket [O, L], without its links."""
        return item.counts_ol

    def plans(self, items: Sequence[Arrangement]) -> Sequence[ExecutionPlan]:
        """Execution plans of the arrangements."""
        return [each.plan(self.problem.deployment) for each in items]


def changes_of(problem: Problem, free: Sequence[Link]) -> Callable[[Arrangement], Iterator[Arrangement]]:
    """Function that yields all arrangements one change away; some may not be in the space. free: links that may be
    joined and parted."""
    job, scale = problem.deployment, bool(problem.space.free_subtasks)
    spread = problem.space.spreads(job)

    def changes(here: Arrangement) -> Iterator[Arrangement]:
        for rows in _components(job, here.links):
            for counts_l in _moved(here.counts_ol[rows[0]], spread=spread, scale=scale):
                counts_ol = here.counts_ol.copy()
                counts_ol[rows] = counts_l
                yield Arrangement(counts_ol, here.links)
        for link in free:
            if link in here.links:
                yield Arrangement(here.counts_ol, here.links - {link})
            else:
                yield from gathered(job, here, link)

    return changes


def everything(job: Deployment, space: Space, free: tuple[Link, ...], most: int) -> list[Arrangement] | None:
    """All arrangements of a space; None if there may be more than `most`."""
    if space.free_subtasks or len(free) > most.bit_length():
        return None
    plans = SpacePlans(job, space)
    if not plans.exact or plans.count > most:
        return None
    rows, found = _rows(job), list[Arrangement]()
    for counts_ol in plans.all():
        alike = [link for link in free if (counts_ol[rows[link[0]]] == counts_ol[rows[link[1]]]).all()]
        if len(found) + 2 ** len(alike) > most:
            return None
        subsets = chain.from_iterable(combinations(alike, size) for size in range(len(alike) + 1))
        found += [Arrangement(counts_ol, frozenset(links)) for links in subsets]
    return found


def _rows(job: Deployment) -> dict[str, int]:
    return {operator.name: o for o, operator in enumerate(job.query.topological)}


def _components(job: Deployment, links: Links) -> list[list[int]]:
    """Rows of operators that run as one task, task by task; an operator that is not fused is a task of its own."""
    rows, together = _rows(job), joined(job.query, links)
    inside = {name for group in together for name in group}
    groups = (*together, *((name,) for name in rows if name not in inside))
    return [[rows[name] for name in group] for group in groups]


def _moved(counts_l: np.ndarray, *, spread: bool, scale: bool) -> Iterator[np.ndarray]:
    total, one = int(counts_l.sum()), np.eye(len(counts_l), dtype=np.int64)
    for socket in range(len(counts_l)):
        yield total * one[socket]
        if scale:
            yield counts_l + one[socket]
    for socket in np.flatnonzero(counts_l).tolist() if total > 1 else []:
        if scale:
            yield counts_l - one[socket]
        if spread:
            yield from (counts_l - one[socket] + one[other] for other in range(len(counts_l)) if other != socket)


# the optimizer -------------------------------------------------------------------------------------------------------
# An algorithm makes components of operators; a plan fuses the paths in them. A placement optimizer, if given
# (`fusion+rlas`), places the fused job. Then a climb under the problem's cost model looks for better places; with a
# placement optimizer it also fuses and parts operators, sources included, whatever the algorithm has found.


SECONDS, PART, LEAST_S = 30.0, 0.5, 0.1
"""Time of the exact solution: most seconds, part of the time left, and least seconds."""

Algorithm = Literal["comm", "pa", "baseline", "exact"]
Found = tuple[Fusion, float | None]
"""A fusion, and the least communication of any fusion; None if not known."""


def _exact(job: FusionJob, _: int, deadline: Deadline) -> Found:
    found = least_communication(job, seconds=max(LEAST_S, min(SECONDS, PART * deadline.left_s)))
    return found.fusion, found.bound


ALGORITHMS: Mapping[Algorithm, Callable[[FusionJob, int, Deadline], Found]] = {
    "comm": lambda job, *_: (by_communication(job), None),
    "pa": lambda job, *_: (by_attributes(job), None),
    "baseline": lambda job, seed, _: (baseline(job, random_stream(seed, "fusion-baseline")), None),
    "exact": _exact,
}
"""Algorithms of fusion by name: of a job, a seed and a deadline. Each raises BadInput for a job that it cannot fuse."""

PLACING = 0.5
"""Share of the budget and of the time that a placement optimizer gets."""
NOTHING = "nothing of this job can run as one"
APART = "no fusion was found that is better than all operators apart"


@dataclass(frozen=True, slots=True)
class FusionOptimizer:
    """Planner that fuses and places operators. algorithm: one of ALGORITHMS. placing: optimizer that places the fused
    job; None: only the climb places, and it leaves the links of the algorithm as they are."""

    name: str = "fusion"
    algorithm: Algorithm = "comm"
    placing: Optimizer | None = None

    @property
    def traits(self) -> Traits:
        """Traits with the objective and the rules of the placement optimizer."""
        theirs = self._placing
        return Traits(objective=theirs.objective, costream_rules=theirs.costream_rules)

    @property
    def _placing(self) -> Traits:
        return Traits() if self.placing is None else traits_of(self.placing)

    def solve(self, problem: Problem) -> Solution:
        """Best plan found. Raises BadInput for a job that the algorithm cannot fuse, a cost model that does not see
        fusion, or as the placement optimizer does."""
        started_s, deadline = time.perf_counter(), problem.deadline()
        problem.space.check(problem.deployment)
        if self.traits.costream_rules:
            problem = replace(problem, space=replace(problem.space, costream_rules=True))
        allowed = possible(problem.deployment)
        fusion, least = ALGORITHMS[self.algorithm](fusion_job(problem.deployment), problem.seed, deadline)
        wanted = within(fusion, allowed)
        _check_seen(problem, wanted)
        scales = self._placing.objective is not None and problem.space.free_subtasks is None
        bounded = self.placing is not None and not scales
        problem, starts, asked = self._starts(problem, wanted)
        free = allowed if self.placing else ()
        known = Arrangements(replace(problem, budget=problem.budget - asked), by_risk, deadline=deadline)
        whole = everything(problem.deployment, problem.space, free, known.left) if bounded else None
        climb(known, changes_of(problem, free), starts if whole is None else ())
        known.look_at(whole or ())
        complete = whole is not None and len(known) == len(whole)
        evaluations = asked + len(known)
        best = choose(problem, known.found(), evaluations=evaluations, started_s=started_s, complete=complete)
        among = said(best.among, "fused or apart").replace(";", ",") if complete else ""
        return replace(best, among=among, message=said(_told(problem, best.plan, fusion, least), best.message))

    def _starts(self, problem: Problem, wanted: list[Link]) -> tuple[Problem, list[Arrangement], int]:
        """Problem with its numbers of subtasks settled, arrangements from which climbs begin, and number of estimates
        spent."""
        fixed = problem.settled(free_subtasks=False)
        first = _first(fixed)
        starts = [_fused(fixed, first, wanted, towards) for towards in (0, 1)]
        if self.placing is None:
            return fixed, starts, 0
        job, budget = problem.deployment, max(1, int(PLACING * problem.budget))
        seconds = None if problem.seconds is None else PLACING * problem.seconds
        scenario = problem.scenario.with_plan(starts[0].plan(job))
        placed = self.placing.solve(replace(problem, scenario=scenario, budget=budget, seconds=seconds))
        answer = arranged(job, placed.plan)
        scaled = bool((answer.counts_ol.sum(axis=1) != first.counts_ol.sum(axis=1)).any())
        problem = problem.settled(free_subtasks=scaled)
        joined = [_fused(problem, answer, wanted, towards) for towards in (0, 1)]
        return problem, [answer, *joined, *starts], placed.evaluations


def _first(problem: Problem) -> Arrangement:
    """Arrangement of the given plan, or of another one if that is not in the space, with nothing fused."""
    job, space = problem.deployment, problem.space
    for plan in (job.plan, governor_plan(problem)):
        if space.includes(job, plan):
            return Arrangement(counts_of(job, plan), frozenset())
    drawn = SpacePlans(job, replace(space, free_subtasks=False)).sample(random_stream(problem.seed, "fusion"), 1)
    return Arrangement(drawn[0], frozenset())


def _fused(problem: Problem, here: Arrangement, wanted: list[Link], towards: int) -> Arrangement:
    """Arrangement with these links added, as far as the space has a place for both ends. towards: the end tried
    first."""
    for link in wanted:
        ends = list(gathered(problem.deployment, here, link))
        fitting = (each for each in (ends[towards], ends[1 - towards]) if _fits(problem, each))
        here = next(fitting, here)
    return here


def _fits(problem: Problem, here: Arrangement) -> bool:
    return bool(problem.space.holds(problem.deployment, here.counts_ol[None])[0])


def _check_seen(problem: Problem, wanted: list[Link]) -> None:
    """Raises BadInput if the cost model cannot tell fused operators from unfused ones."""
    model, job = problem.cost_model, problem.scenario
    trial = next((each for link in wanted[:1] for each in gathered(job, arranged(job, job.plan), link)), None)
    if trial is None:
        return
    fused = job.model_copy(update={"plan": trial.plan(job)})
    if set(unsupported_features(fused, ())) - set(unsupported_features(fused, ("fusion",))) & set(
        model.blind_to(fused)
    ):
        raise BadInput(f"cost model {model.name} does not see which operators run as one; use rates or sim")


def _told(problem: Problem, plan: ExecutionPlan, fusion: Fusion, least: float | None) -> str:
    """Message on the share of records that still go from task to task, or on why nothing is fused."""
    if not plan.fused:
        return NOTHING if not possible(problem.deployment) else APART
    links, transfers = links_of(problem.deployment.query, plan.fused), fusion.job.transfers
    sent = sum(each.rate_per_s for each in transfers if (each.producer, each.consumer) not in links)
    share = sent / (fusion.job.rate_per_s or 1.0)
    bound = "" if least is None else f"; components of common keys leave {least:.0%} at least"
    return f"{share:.0%} of what is sent goes from task to task{bound}"
