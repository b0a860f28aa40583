"""Space of plans that an optimizer may choose from, and its plans in the forms that optimizers and cost models need."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import combinations

import numpy as np

from optimizers.rules import (
    MAX_LISTED,
    PlacementSpace,
    bin_ranges,
    by_slots,
    deployed,
    different,
    fits,
    groups_of,
    valid_rows,
)
from twin.chaining import links_of
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.event_checks import naming_subtasks
from twin.kinds.windowed import Windowed
from twin.plan import ExecutionPlan, Location
from twin.query import AnyOperator
from twin.randomness import random_stream
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.seats import CountedPlans, Placements
from twin.scenario import Scenario

# the space -----------------------------------------------------------------------------------------------------------
# Space of plans that may be chosen: a frozen description, independent of optimizers and programs.
#
# Where numbers of subtasks may change, that of an operator is free if any subtask may take its records, or if it parts
# them by keys. An aggregate without keys counts all records together, and an operator that gets all records in one
# subtask gains nothing from others: these keep their numbers. So does an operator of which events name single
# subtasks, as other plans may not have these. Operators that are joined by forward streams have equally many.


def tied(deployment: Deployment, part_chains: bool = False) -> list[list[int]]:
    """Groups of operators that must have equally many subtasks, as in chains, unless these may be parted; single
    operators are groups too. Indices are in data-flow order."""
    import networkx as nx  # most commands start without

    query = deployment.query
    row = {operator.name: o for o, operator in enumerate(query.topological)}
    graph: nx.Graph[int] = nx.empty_graph(len(row))
    forward = [each for each in query.streams if query.partitioning(each).paired]
    graph.add_edges_from((row[each.producer], row[each.consumer]) for each in forward)
    chains = () if part_chains else deployment.plan.fused
    graph.add_edges_from((row[a], row[b]) for a, b in links_of(query, chains))
    return [sorted(group) for group in nx.connected_components(graph)]


def _named(deployment: Deployment) -> set[str]:
    """Operators whose number of subtasks stays as events name single subtasks."""
    return naming_subtasks(deployment.events) if isinstance(deployment, Scenario) else set()


def _divisible(deployment: Deployment, operator: AnyOperator) -> bool:
    ways = [deployment.query.partitioning(each) for each in deployment.query.inputs(operator.name)]
    counts_all = isinstance(operator, Windowed) and not operator.keyed
    return not counts_all and not any(way.whole and not way.copies for way in ways)


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Space of plans of a job; by default all plans.

    pinned: operators whose subtasks stay where the deployment's plan has them, beside those that the job itself calls
    pinned. allowed: the hosts that an operator may be on, where not all are. spread: whether subtasks of an operator
    may be on several sockets; None: if it has several. costream_rules: data never flow to a weaker bin of hosts and
    never return to one (`optimizers.rules`); operators are then on one socket each. most_moves: operators that may be
    elsewhere than in the deployment's plan; None: all. free_subtasks: whether their numbers may change; None: if the
    optimizer changes them. most_subtasks: of an operator, then. part_chains: whether chained operators may have other
    numbers than each other, and then run apart. slots: whether only plans that an engine of task slots can
    deploy may be chosen (`optimizers.rules`); None: where numbers are free, any host is allowed, and the engine has
    slots.

    Raises BadInput for a number below 0, no host for an operator, or rules for spread operators.
    """

    pinned: frozenset[str] = frozenset()
    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spread: bool | None = None
    costream_rules: bool = False
    most_moves: int | None = None
    free_subtasks: bool | None = None
    most_subtasks: int = 1000
    part_chains: bool = False
    slots: bool | None = None

    def __post_init__(self) -> None:
        if self.most_moves is not None and self.most_moves < 0:
            raise BadInput(f"number of operators that may move must be >= 0, got {self.most_moves}")
        if self.most_subtasks < 1:
            raise BadInput(f"number of subtasks of an operator must be >= 1, got {self.most_subtasks}")
        if self.spread and self.costream_rules:
            raise BadInput("Costream's rules are for operators on one host each; give spread or costream_rules")
        for name, hosts in self.allowed.items():
            if not hosts:
                raise BadInput(f"operator {name!r} is allowed on no host; name at least one")

    def settled(self, *, free_subtasks: bool) -> Space:
        """Space for an optimizer that changes numbers of subtasks, or not, unless the space says which."""
        return self if self.free_subtasks is not None else replace(self, free_subtasks=free_subtasks)

    def spreads(self, deployment: Deployment) -> bool:
        """Whether an operator that is not pinned may be on several sockets."""
        if self.spread is not None:
            return self.spread
        several = self.free_subtasks or any(
            deployment.plan.parallelism(each.name) > 1 for each in deployment.query.operators
        )
        return several and not self.costream_rules

    def has_slots(self, deployment: Deployment) -> bool:
        """Whether plans must fit into slots."""
        if self.slots is not None:
            return self.slots
        narrowed = self.allowed or self.most_moves is not None or self.spread is False or self.costream_rules
        return bool(self.free_subtasks) and not narrowed and by_slots(deployment)

    def deployable(self, deployment: Deployment, counts_ol: np.ndarray) -> np.ndarray:
        """[O, L] the plan as it is deployed in slots, if the space has slots; else unchanged."""
        if not self.has_slots(deployment):
            return counts_ol
        return deployed(counts_ol, self.pinned_o(deployment), groups_of(deployment))

    def check(self, deployment: Deployment) -> None:
        """Raises BadInput for an unknown operator or host, and for a pinned operator where it may not be."""
        operators = [operator.name for operator in deployment.query.operators]
        hosts = [host.name for host in deployment.cluster.hosts]
        for name, asked in [*((each, "pinned") for each in self.pinned), *((each, "allowed") for each in self.allowed)]:
            if name not in operators:
                raise BadInput(f"unknown operator {name!r} is {asked}; {suggest(name, operators)}")
        for name, allowed in self.allowed.items():
            for host in allowed:
                if host not in hosts:
                    raise BadInput(f"operator {name!r} is allowed on unknown host {host!r}; {suggest(host, hosts)}")
            stays = name in self.pinned or deployment.query.operator(name).pinned
            elsewhere = [place.host for place in deployment.plan.locations(name) if place.host not in allowed]
            if stays and elsewhere:
                raise BadInput(
                    f"operator {name!r} is pinned to {elsewhere[0]!r}, and allowed on {', '.join(allowed)} only; "
                    "allow that host, or do not pin it"
                )

    def allows_ol(self, deployment: Deployment) -> np.ndarray:
        """[O in data-flow order, L] whether an operator may be on a socket of all hosts. Raises as `check` does."""
        self.check(deployment)
        places = locations(deployment)
        allowed_ol = [
            [place.host in self.allowed.get(operator.name, (place.host,)) for place in places]
            for operator in deployment.query.topological
        ]
        home_ol = counts_of(deployment, deployment.plan) > 0
        return np.where(self.pinned_o(deployment)[:, None], home_ol, np.array(allowed_ol))

    def pinned_o(self, deployment: Deployment) -> np.ndarray:
        """[O] whether an operator stays where it is."""
        topological = deployment.query.topological
        return np.array([operator.pinned or operator.name in self.pinned for operator in topological])

    def tied(self, deployment: Deployment) -> list[list[int]]:
        """Groups of operators that must have equally many subtasks, as indices in data-flow order."""
        return tied(deployment, self.part_chains)

    def free_o(self, deployment: Deployment) -> np.ndarray:
        """[O] whether the number of an operator's subtasks may change, where numbers may."""
        named = _named(deployment)
        free = ~self.pinned_o(deployment) & [
            _divisible(deployment, each) and each.name not in named for each in deployment.query.topological
        ]
        for group in self.tied(deployment):
            free[group] = free[group].all()
        return np.asarray(free)

    def holds(self, deployment: Deployment, counts_nol: np.ndarray) -> np.ndarray:
        """[N] whether each of these plans is in the space, and valid for the job.

        Numbers of subtasks may be any unless the space fixes them.
        """
        if self.free_subtasks is None:
            return replace(self, free_subtasks=True, slots=bool(self.slots)).holds(deployment, counts_nol)
        used_nol = counts_nol > 0
        fits_n = ~(used_nol & ~self.allows_ol(deployment)).any(axis=(1, 2))
        host_l = host_of_sockets(deployment)
        on_noh = used_nol @ (host_l[:, None] == np.arange(host_l.max() + 1))
        home_ol, pinned_o = counts_of(deployment, deployment.plan), self.pinned_o(deployment)
        fits_n &= (counts_nol == home_ol)[:, pinned_o].all(axis=(1, 2))
        if not self.spreads(deployment):
            fits_n &= (used_nol.sum(axis=2) == 1)[:, ~pinned_o].all(axis=1)
        fits_n &= self._numbers_fit(deployment, counts_nol.sum(axis=2))
        if self.most_moves is not None:
            fits_n &= (counts_nol != home_ol).any(axis=2).sum(axis=1) <= self.most_moves
        fits_n &= _shared_together(deployment, on_noh) & _connected(deployment, on_noh)
        if self.has_slots(deployment):
            fits_n &= fits(counts_nol, pinned_o, groups_of(deployment))
        if self.costream_rules:
            fits_n[fits_n] = _ruled(deployment, on_noh[fits_n])
        return np.asarray(fits_n)

    def includes(self, deployment: Deployment, plan: ExecutionPlan) -> bool:
        """Whether a plan is in the space, and valid for the job."""
        return bool(self.holds(deployment, counts_of(deployment, plan)[None])[0])

    def words(self, deployment: Deployment) -> str:
        """Description of the space in a few words, for readers of claims about it."""
        pinned = [
            each.name
            for each, stays in zip(deployment.query.topological, self.pinned_o(deployment), strict=True)
            if stays
        ]
        named = sorted(_named(deployment) - {*pinned}) if self.free_subtasks else []
        ordered = sorted(uneven(deployment, self))
        said = [
            "any number of subtasks" if self.free_subtasks else "these numbers of subtasks",
            f"those of {', '.join(named)} as given, since events name them" if named else "",
            f"those of {', '.join(ordered)}, which are unlike, in the order of the hosts" if ordered else "",
            "" if self.spreads(deployment) else "an operator on one socket",
            f"{', '.join(pinned)} pinned" if pinned else "",
            f"{', '.join(self.allowed)} on some hosts only" if self.allowed else "",
            "Costream's rules" if self.costream_rules else "",
            "spread evenly over slots" if self.has_slots(deployment) else "",
            "what is fused stays so where it is together" if deployment.plan.fused and not self.part_chains else "",
            ""
            if self.most_moves is None
            else f"at most {self.most_moves} operator{'s' * (self.most_moves != 1)} moved",
        ]
        return ", ".join(filter(None, said))

    def _numbers_fit(self, deployment: Deployment, subtasks_no: np.ndarray) -> np.ndarray:
        """[N] whether operators have numbers of subtasks that they may have."""
        kept_o = np.ones(subtasks_no.shape[1], bool)
        if self.free_subtasks:
            kept_o = ~self.free_o(deployment)
        fits_n = (subtasks_no == subtasks_of(deployment))[:, kept_o].all(axis=1) & (subtasks_no > 0).all(axis=1)
        for group in self.tied(deployment):
            fits_n &= (subtasks_no[:, group] == subtasks_no[:, group[:1]]).all(axis=1)
        return np.asarray(fits_n)


ALL_PLANS = Space()


def locations(deployment: Deployment) -> tuple[Location, ...]:
    """Sockets of all hosts in a row."""
    hosts = deployment.cluster.hosts
    return tuple(Location(host.name, socket) for host in hosts for socket in range(host.socket_count))


def host_of_sockets(deployment: Deployment) -> np.ndarray:
    """[L] number of each socket's host."""
    sockets = [host.socket_count for host in deployment.cluster.hosts]
    return np.repeat(np.arange(len(sockets)), sockets)


def subtasks_of(deployment: Deployment) -> np.ndarray:
    """[O] numbers of subtasks in the deployment's plan, in data-flow order."""
    return np.array([deployment.plan.parallelism(operator.name) for operator in deployment.query.topological])


def listed(job: Deployment) -> list[int]:
    """Place in data-flow order of each operator as the query lists them."""
    topological = [operator.name for operator in job.query.topological]
    return [topological.index(operator.name) for operator in job.query.operators]


def counts_of(deployment: Deployment, plan: ExecutionPlan) -> np.ndarray:
    """[O in data-flow order, L] subtasks of a plan by operator and socket."""
    column = {place: index for index, place in enumerate(locations(deployment))}
    counts_ol = np.zeros((len(deployment.query.operators), len(column)), np.int64)
    for o, operator in enumerate(deployment.query.topological):
        for place in plan.locations(operator.name):
            counts_ol[o, column[place]] += 1
    return counts_ol


def _shared_together(deployment: Deployment, on_noh: np.ndarray) -> np.ndarray:
    """[N] whether subtasks that take from one queue are on one host."""
    query = deployment.query
    shared_o = [any(query.partitioning(each).one_queue for each in query.inputs(o.name)) for o in query.topological]
    return np.asarray((on_noh[:, shared_o].sum(axis=2) <= 1).all(axis=1))


def _connected(deployment: Deployment, on_noh: np.ndarray) -> np.ndarray:
    """[N] whether the hosts of every stream are connected."""
    cluster = deployment.cluster
    if not cluster.links:
        return np.ones(len(on_noh), bool)
    import networkx as nx  # most commands start without

    graph = nx.Graph([link.between for link in cluster.links])
    graph.add_nodes_from(host.name for host in cluster.hosts)
    part = {name: number for number, names in enumerate(nx.connected_components(graph)) for name in names}
    part_h = np.array([part[host.name] for host in cluster.hosts])
    in_nop = on_noh @ (part_h[:, None] == np.arange(part_h.max() + 1))
    return np.asarray(((in_nop.any(axis=1)).sum(axis=1) == 1) | _each_in_one(deployment, in_nop))


def _each_in_one(deployment: Deployment, in_nop: np.ndarray) -> np.ndarray:
    row = {operator.name: o for o, operator in enumerate(deployment.query.topological)}
    both = [in_nop[:, [row[each.producer], row[each.consumer]]].any(axis=1) for each in deployment.query.streams]
    return np.asarray((np.stack(both).sum(axis=2) == 1).all(axis=0))


def _ruled(deployment: Deployment, on_noh: np.ndarray) -> np.ndarray:
    hosts_no = on_noh.argmax(axis=2)[:, listed(deployment)]
    return valid_rows(deployment.query, bin_ranges(deployment.cluster), hosts_no)


# plans as counts -----------------------------------------------------------------------------------------------------
# Plans as counts of subtasks by operator and socket, in the form that cost models read fastest.


def as_plans(job: Deployment, counts_nol: np.ndarray) -> Sequence[ExecutionPlan]:
    """Plans of counts [N, O, L], operators in data-flow order, sockets of all hosts in a row.

    Key groups stay with their subtasks, by number; counts of the deployment's own plan give that plan itself.
    """
    plans = CountedPlans(job, counts_nol)
    if job.plan.key_groups:
        given_ol = counts_of(job, job.plan)
        return [
            job.plan if (each == given_ol).all() else job.plan.with_placement(plans[n].placement)
            for n, each in enumerate(counts_nol)
        ]
    if any(host.socket_count > 1 for host in job.cluster.hosts) or ((counts_nol > 0).sum(axis=2) != 1).any():
        return plans
    placements = Placements(job, counts_nol.argmax(axis=2)[:, listed(job)])
    same = counts_nol.sum(axis=2)[:, listed(job)] == np.array(placements.parallelism)
    return placements if same.all() else plans


def counts_on(job: Deployment, hosts_no: np.ndarray) -> np.ndarray:
    """Counts [N, O, L] of placements that put each operator, as the query lists them, on socket 0 of one host."""
    return np.asarray(Placements(job, hosts_no).socket_counts(job), np.int64)


def enough_memory(job: PlacementCoefficients) -> np.ndarray:
    """[O, L] whether the host of a socket has memory for the engine and one subtask of an operator."""
    law, host_l = job.deployment.engine.memory, job.places.host_l
    need_o = job.operators.held_mb / job.operators.parallelism + law.base_mb
    return np.asarray(need_o[:, None] < law.crash * job.places.ram_mb_h[host_l])


# plans of the space --------------------------------------------------------------------------------------------------
# Plans of a space, as subtasks by operator and socket: counted, listed, and drawn.
#
# An operator's options are the places that its subtasks may have, whatever the others do; plans are all combinations
# that the space holds (streams have a route, rules are kept). Under Costream's rules few combinations are left, so
# placements come from `optimizers.rules`, which counts and draws them exactly.


NOTHING = "no plan of the space was found ({words}); {remedy}"
REMEDY = "allow more hosts, pin fewer operators, or leave out the rules"
TRIES = 64
"""Plans that are drawn to see whether a wider space has any."""


UNEVEN = 1.05
"""Share of the busiest subtask, as a multiple of the mean one, above which it matters where each is."""


def uneven(deployment: Deployment, space: Space) -> frozenset[str]:
    """Operators of which it matters which subtask is where: they have several, may move, and skewed keys give some more
    than others. Plans in counts have their subtasks in the order of the sockets, whatever else there could be."""
    names = [each.name for each in deployment.query.topological]
    if all(deployment.plan.parallelism(name) == 1 for name in names):
        return frozenset()
    skew_o, pinned_o = PlacementCoefficients.of(deployment).operators.skew, space.pinned_o(deployment)
    found = zip(names, skew_o, pinned_o, strict=True)
    return frozenset(
        name for name, skew, pinned in found if skew > UNEVEN and not pinned and deployment.plan.parallelism(name) > 1
    )


def nothing_found(deployment: Deployment, space: Space) -> BadInput:
    """Error for a space without plans, which names every limit that alone is in the way, with its operator."""
    fixed = replace(space, free_subtasks=False)
    alone = [words for words, wider in _wider(deployment, fixed) if _has_plans(deployment, wider)]
    remedy = f"there are plans without {', or without '.join(alone)}" if alone else REMEDY
    return BadInput(NOTHING.format(words=space.words(deployment), remedy=remedy))


def _wider(deployment: Deployment, space: Space) -> Iterator[tuple[str, Space]]:
    """Spaces with one limit less, and that limit in words."""
    for name in sorted(space.pinned):
        if not deployment.query.operator(name).pinned:
            where = ", ".join(deployment.plan.hosts(name))
            yield f"pinning {name} to {where}", replace(space, pinned=space.pinned - {name})
    for name, hosts in space.allowed.items():
        others = {each: where for each, where in space.allowed.items() if each != name}
        yield f"limiting {name} to {', '.join(hosts)}", replace(space, allowed=others)
    if space.costream_rules:
        yield "Costream's rules", replace(space, costream_rules=False)
    if (most := space.most_moves) is not None:
        yield f"the limit of {most} operator{'s' * (most != 1)} moved", replace(space, most_moves=None)


def _has_plans(deployment: Deployment, space: Space) -> bool:
    try:
        plans = SpacePlans(deployment, space)
        return bool(len(plans.draws(random_stream(0, "wider"), TRIES))) or (plans._listable and len(plans._listed) > 0)
    except BadInput:
        return False


class SpacePlans:
    """Plans of one job. Raises BadInput if the space names unknown parts, or leaves numbers of subtasks free."""

    def __init__(self, deployment: Deployment, space: Space) -> None:
        if space.free_subtasks:
            raise BadInput(
                "plans with any number of subtasks are not listed or drawn; use rlas or milp-hosts, or fix them"
            )
        self._job, self._space = deployment, space
        self._allowed_ol = space.allows_ol(deployment)
        self._host_l = host_of_sockets(deployment)
        self._home_ol, self._pinned_o = counts_of(deployment, deployment.plan), space.pinned_o(deployment)
        self._spread = space.spreads(deployment)
        one_socket = len(self._host_l) == len(deployment.cluster.hosts)
        self._ruled = (
            PlacementSpace(deployment.query, deployment.cluster) if space.costream_rules and one_socket else None
        )

    @property
    def exact(self) -> bool:
        """Whether `count` is exact; otherwise it is an upper bound."""
        return self._listable or (self._ruled_whole and self._ruled is not None and self._ruled.exact)

    @cached_property
    def count(self) -> int:
        """Number of plans, or an upper bound."""
        if self._ruled is not None and self._ruled_whole:
            return self._ruled.count
        return len(self._listed) if self._listable else self._combinations

    def all(self) -> np.ndarray:
        """Every plan [N, O, L], in a fixed order. Raises BadInput above MAX_LISTED combinations, and for none."""
        if not self._listable:
            raise BadInput(
                f"{self.count} plans are too many to list (at most {MAX_LISTED}); "
                "use an optimizer that samples (costream, local-search)"
            )
        return self._some(self._listed)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """At most `size` different plans [N, O, L], >= 1, at random; all, shuffled, if there are few.

        Uniform without replacement where the options of operators are independent, or under the rules alone. Raises
        BadInput if none is found.
        """
        if size < 1:
            raise BadInput(f"number of candidate placements must be >= 1, got {size}")
        if self._ruled is not None and self._ruled_whole:
            return self._counts(self._ruled.sample(rng, size))
        if self._listable and self.count <= 2 * size:
            return self._some(self._listed[rng.permutation(len(self._listed))[:size]])
        found = different(partial(self.draws, rng, size), size)
        if len(found) < size and self._listable:
            found = self._listed[rng.permutation(len(self._listed))]
        return self._some(found[:size])

    def draws(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws plans [N, O, L], with replacement: those of so many combinations that the space holds, maybe none."""
        if self._ruled is not None:
            found = self._counts(self._ruled.draws(rng, size))
            found[:, self._pinned_o] = self._home_ol[self._pinned_o]
        else:
            found = np.stack([self._drawn(o, rng, size) for o in range(len(self._home_ol))], axis=1)
        if self._space.most_moves is not None:
            order_no = rng.random(found.shape[:2]).argsort(axis=1)
            found = np.where((order_no < self._space.most_moves)[:, :, None], found, self._home_ol)
        return found[self._space.holds(self._job, found)]

    def _some(self, found: np.ndarray) -> np.ndarray:
        if not len(found):
            raise nothing_found(self._job, self._space)
        return found

    def _counts(self, hosts_no: np.ndarray) -> np.ndarray:
        return counts_on(self._job, hosts_no)

    @property
    def _ruled_whole(self) -> bool:
        """Whether Costream's rules are the only limit of the space, on hosts that all reach each other."""
        whole = self._allowed_ol.all() and not self._pinned_o.any() and self._space.most_moves is None
        return self._ruled is not None and bool(whole) and not self._job.cluster.links

    @cached_property
    def _combinations(self) -> int:
        return math.prod(self._ways(o) for o in range(len(self._home_ol)))

    @property
    def _listable(self) -> bool:
        if self._combinations <= MAX_LISTED:
            return True
        return self._ruled is not None and self._ruled.listable

    @cached_property
    def _listed(self) -> np.ndarray:
        if self._ruled is not None and self._ruled.listable:
            found = self._counts(self._ruled.all())
        else:
            options = [self._options(o) for o in range(len(self._home_ol))]
            index = np.indices([len(each) for each in options]).reshape(len(options), -1)
            found = np.stack([each[row] for each, row in zip(options, index, strict=True)], axis=1)
        return found[self._space.holds(self._job, found)]

    def _ways(self, o: int) -> int:
        """Number of options of an operator."""
        if self._pinned_o[o]:
            return 1
        sockets, parallelism = int(self._allowed_ol[o].sum()), int(self._home_ol[o].sum())
        return math.comb(parallelism + sockets - 1, parallelism) if self._spread else sockets

    def _options(self, o: int) -> np.ndarray:
        """[K, L] options of an operator."""
        if self._pinned_o[o]:
            return self._home_ol[o : o + 1]
        sockets, parallelism = np.flatnonzero(self._allowed_ol[o]), int(self._home_ol[o].sum())
        parts = (
            _parted(parallelism, len(sockets)) if self._spread else parallelism * np.eye(len(sockets), dtype=np.int64)
        )
        found = np.zeros((len(parts), len(self._host_l)), np.int64)
        found[:, sockets] = parts
        return found

    def _drawn(self, o: int, rng: np.random.Generator, size: int) -> np.ndarray:
        """[size, L] options of an operator, drawn uniformly."""
        found = np.zeros((size, len(self._host_l)), np.int64)
        if self._pinned_o[o]:
            found[:] = self._home_ol[o]
            return found
        sockets, parallelism = np.flatnonzero(self._allowed_ol[o]), int(self._home_ol[o].sum())
        if not self._spread or parallelism == 1:
            found[np.arange(size), sockets[rng.integers(len(sockets), size=size)]] = parallelism
        else:
            found[:, sockets] = _randomly_parted(parallelism, len(sockets), rng, size)
        return found


def _parted(parallelism: int, sockets: int) -> np.ndarray:
    """All ways to part subtasks [K, sockets]: bars among stars."""
    bars = list(combinations(range(parallelism + sockets - 1), sockets - 1))
    return _between(np.array(bars, np.int64).reshape(len(bars), sockets - 1), parallelism + sockets - 1)


def _randomly_parted(parallelism: int, sockets: int, rng: np.random.Generator, size: int) -> np.ndarray:
    """[size, sockets] random divisions of subtasks over sockets, each equally likely."""
    total = parallelism + sockets - 1
    bars = np.sort(rng.random((size, total)).argsort(axis=1)[:, : sockets - 1], axis=1)
    return _between(bars, total)


def _between(bars: np.ndarray, total: int) -> np.ndarray:
    """[K, sockets] numbers of stars between bars."""
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, total)))
    return np.diff(edges, axis=1) - 1
