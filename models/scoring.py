"""Scores many plans of one query by a network at once: the forward pass of models.gnn, each different state once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from models.features import CONTEXT, FEATURES, HOST, NODE_TYPES, encode, raw_rows
from models.gnn import Parameters
from models.job_columns import Columns, JobColumns, host_physics, operator_physics, plan_physics
from models.settings import NetworkConfig
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.plan import ExecutionPlan, Location
from twin.rates.model import RateAnswer
from twin.rates.seats import Placements

# layers --------------------------------------------------------------------------------------------------------------
# Linear layers over many rows of tables, in blocks that fit a core's cache: the MLPs of models.gnn in numpy.
#
# Axes: N rows, F inputs, D outputs.


BLOCK = 1024
"""Number of rows that go through a network's layers at a time."""
PRODUCTS = 2**18
"""Multiplications up to which linear algebra starts no threads of its own: here each network is a thread."""
LEAK = np.float32(0.01)
"""Slope of `flax.linen.leaky_relu` below 0."""

Layers = tuple[tuple[np.ndarray, np.ndarray], ...]
"""Kernel and bias of each linear layer of an MLP."""
Summands = list[tuple[np.ndarray, np.ndarray]]
"""Sums of table rows: tables [_, D], each with rows [N, R] to add for N results; one past the end is zero."""


def blocks(count: int) -> Iterator[slice]:
    """Slices of BLOCK rows that cover `count` rows; at least one."""
    return (slice(start, start + BLOCK) for start in range(0, max(1, count), BLOCK))


def terms(summands: Summands) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a table and, for each of N results, the one row of it [N] to add."""
    return [
        (_with_zero(table) if rows_NxR.max(initial=0) == len(table) else table, row_N)
        for table, rows_NxR in summands
        for row_N in rows_NxR.T
    ]


def summed(of: list[tuple[np.ndarray, np.ndarray]], rows: slice) -> np.ndarray:
    """[N, D] sums for these results."""
    total, *others = (table.take(row_N[rows], axis=0) for table, row_N in of)
    for each in others:
        total += each
    return total


def _with_zero(table: np.ndarray) -> np.ndarray:
    return np.vstack([table, np.zeros_like(table[:1])])


def mlp(layers: Layers, x_NxF: np.ndarray, *, linear_end: bool) -> np.ndarray:
    """Output of an MLP, as models.gnn.MLP computes it."""
    for index, (kernel, bias) in enumerate(layers):
        x_NxF = product(x_NxF, kernel)
        x_NxF += bias
        if index < len(layers) - 1 or not linear_end:
            x_NxF = leaky(x_NxF)
    return x_NxF


def leaky(x_NxD: np.ndarray) -> np.ndarray:
    """Computes a leaky ReLU in place."""
    return np.maximum(x_NxD, x_NxD * LEAK, out=x_NxD)


def product(x_NxF: np.ndarray, kernel_FxD: np.ndarray) -> np.ndarray:
    """[N, D] matrix product, computed some rows at a time."""
    size = max(1, PRODUCTS // kernel_FxD.size)
    whole, product = len(x_NxF) // size * size, np.empty((len(x_NxF), kernel_FxD.shape[1]), np.float32)
    tiles = np.ascontiguousarray(x_NxF[:whole]).reshape(-1, size, x_NxF.shape[1])
    np.matmul(tiles, kernel_FxD, out=product[:whole].reshape(-1, size, product.shape[1]))
    np.matmul(x_NxF[whole:], kernel_FxD, out=product[whole:])
    return product


# states in common ----------------------------------------------------------------------------------------------------
# States of nodes that many plans of one job have in common, so that they are computed once.
#
# A plan changes only where operators sit. The state of a host depends on which subtasks are on it, that of an operator
# on its host's and on those upstream of it: among 10,000 plans of a query there are a few hundred different hosts, and
# different operators only where the streams come together. Sharing is a matter of whole numbers, the same for all
# networks.
#
# Axes: P plans, O operators in data-flow order, H hosts, U different hosts, R hosts of one operator, N rows.


CHUNK = 16_384
"""Number of plans scored at a time: the more, the more they have in common, but their states must fit in memory."""
SPARSE = 8
"""Possible keys a row up to which equal rows are found by counting instead of sorting."""


@dataclass(frozen=True)
class Flowing:
    """N different states of one operator after the messages from upstream.

    producers: the operators that it reads. rows_SxN: for each of these, rows of its states. own_N: rows of this
    operator's `SharedStates.hosts_NxR`. kind_P: index of its state under each plan.
    """

    producers: tuple[int, ...]
    rows_SxN: np.ndarray
    own_N: np.ndarray
    kind_P: np.ndarray


@dataclass(frozen=True)
class SharedStates:
    """Different states under many plans. plan_U, host_U, counts_UxO: the different hosts, a plan that has each, and the
    subtasks on it. hosts_NxR: by operator, the different sets of hosts that it is on, and plan_N a plan of each.
    used_PxK: the hosts in use under each plan. Rows with fewer hosts than columns are filled up with U."""

    plan_U: np.ndarray
    host_U: np.ndarray
    counts_UxO: np.ndarray
    hosts_NxR: tuple[np.ndarray, ...]
    plan_N: tuple[np.ndarray, ...]
    used_PxK: np.ndarray
    flowing: tuple[Flowing, ...]

    @property
    def plans(self) -> int:
        """Number P of plans."""
        return len(self.used_PxK)


def share(counts_PxOxH: np.ndarray, streams: Sequence[tuple[int, int]], inputs_P: np.ndarray) -> SharedStates:
    """Different states, from the subtasks of each operator on each host. streams: (producer, consumer). inputs_P: equal
    for plans under which all nodes have the same inputs, apart from those that follow from these subtasks."""
    plans, operators, hosts = counts_PxOxH.shape
    on_OxPxH = np.ascontiguousarray((counts_PxOxH > 0).swapaxes(0, 1))
    plan_N, host_N = np.nonzero(on_OxPxH.any(axis=0))
    counts_NxO = counts_PxOxH[plan_N, :, host_N].astype(np.int64)
    first_U, kind_N = distinct([inputs_P[plan_N], host_N, *counts_NxO.T])
    nothing = len(first_U)
    kind_PxH = np.full((plans, hosts), nothing)
    kind_PxH[plan_N, host_N] = kind_N
    placed, placed_plan, flowing = [], [], list[Flowing]()
    for operator in range(operators):
        owner_N, where_N = np.nonzero(on_OxPxH[operator])
        hosts_PxR = in_rows(owner_N, kind_PxH[owner_N, where_N], plans, nothing)
        first_N, placed_P = distinct(hosts_PxR.T)
        placed.append(hosts_PxR[first_N])
        placed_plan.append(first_N)
        producers = tuple(producer for producer, consumer in streams if consumer == operator)
        rows_SxP = np.array([*(flowing[producer].kind_P for producer in producers), placed_P])
        first_N, kind_P = distinct(rows_SxP)
        flowing.append(Flowing(producers, rows_SxP[:-1, first_N], placed_P[first_N], kind_P))
    used_PxK = in_rows(plan_N, kind_N, plans, nothing)
    kinds = (plan_N[first_U], host_N[first_U], counts_NxO[first_U])
    return SharedStates(*kinds, tuple(placed), tuple(placed_plan), used_PxK, tuple(flowing))


def in_rows(owner_N: np.ndarray, value_N: np.ndarray, owners: int, nothing: int) -> np.ndarray:
    """[owners, most values of one] each owner's values in a row, filled up with `nothing`. `owner_N` ascends."""
    count = np.bincount(owner_N, minlength=owners)
    place_N = np.arange(len(owner_N)) - np.repeat(np.cumsum(count) - count, count)
    rows = np.full((owners, int(count.max(initial=0))), nothing)
    rows[owner_N, place_N] = value_N
    return rows


def distinct(columns: Iterable[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Row of each different kind [U], and each row's kind [N]. columns: at least one, each [N] integers >= 0."""
    first_N, *others = columns
    key_N, span = first_N.astype(np.int64), int(first_N.max(initial=0)) + 1
    for column_N in others:
        size = int(column_N.max(initial=0)) + 1
        if span > 2**62 // size:
            row_U, key_N = _by_sorting(key_N)
            span = len(row_U)
        key_N = key_N * size + column_N
        span *= size
    return _by_counting(key_N, span) if span <= SPARSE * len(key_N) else _by_sorting(key_N)


def _by_counting(key_N: np.ndarray, span: int) -> tuple[np.ndarray, np.ndarray]:
    row_K = np.full(span, -1)
    row_K[key_N] = np.arange(len(key_N))
    there_K = row_K >= 0
    return row_K[there_K], (np.cumsum(there_K) - 1)[key_N]


def _by_sorting(key_N: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order_N = np.argsort(key_N)
    new_N = np.diff(key_N[order_N], prepend=-1) > 0
    kind_N = np.empty(len(key_N), np.int64)
    kind_N[order_N] = np.cumsum(new_N) - 1
    return order_N[new_N], kind_N


def groups(
    deployment: Deployment, plans: Sequence[ExecutionPlan]
) -> Iterator[tuple[np.ndarray, Sequence[ExecutionPlan]]]:
    """Yields rows and plans with the same subtasks, `CHUNK` at most. Raises BadInput for a plan that does not fit."""
    for rows in [np.arange(len(plans))] if isinstance(plans, Placements) else _same_subtasks(deployment, plans):
        for part in np.split(rows, range(CHUNK, len(rows), CHUNK)):
            if len(part):
                yield part, plans.take(part) if isinstance(plans, Placements) else [plans[row] for row in part]


def _same_subtasks(deployment: Deployment, plans: Sequence[ExecutionPlan]) -> list[np.ndarray]:
    names = [operator.name for operator in deployment.query.operators]
    hosts = {host.name for host in deployment.cluster.hosts}
    groups: dict[tuple[int, ...], list[int]] = {}
    for row, plan in enumerate(plans):
        try:
            places = [plan.placement[name] for name in names]
        except KeyError as error:
            raise BadInput(f"plan {row} places nothing for operator {error}; add it") from None
        for text in {text for place in places for text in place}:
            host = Location.parse(text).host
            if host not in hosts:
                raise BadInput(f"plan {row} uses the unknown host {host!r}; {suggest(host, hosts)}")
        groups.setdefault(tuple(map(len, places)), []).append(row)
    return [np.array(rows) for rows in groups.values()]


# scores --------------------------------------------------------------------------------------------------------------
# `distinct` finds the states that differ. The first layer of an update is linear, so it is applied to the states
# of producers and of the operator itself before they are combined, when they are fewer. Rows go through the other
# layers in blocks that fit a core's cache; nothing is compiled, so that the first plans are scored as fast as the
# last. A test checks equality with the flat network. Only the head needs the rate model's answers, which may be
# computed at the same time as the rest.
#
# Axes: N rows, P plans, U different hosts, O operators in data-flow order, F inputs, D hidden features, M metrics.


@dataclass(frozen=True)
class PlanSide:
    """Plans with equal numbers of subtasks of each operator, before they are features. job: under one of them. answer:
    returns the rate model's answer, for networks that see it, and may take its time; horizon_s: length of the predicted
    run."""

    job: JobColumns
    subtasks_PxOxH: np.ndarray
    answer: Callable[[], RateAnswer]
    horizon_s: float


@dataclass(frozen=True)
class ScoringJob:
    """Inputs of `score`. kinds: type of each operator. operators: inputs [C, F] of each, under C kinds of plans.
    inputs_P: kind of each plan. hosts_UxF: inputs of each different host. context_PxF: returns those of the plans as a
    whole, which are asked for last."""

    kinds: Sequence[int]
    operators: Sequence[np.ndarray]
    inputs_P: np.ndarray
    hosts_UxF: np.ndarray
    context_PxF: Callable[[], np.ndarray]
    sharing: SharedStates


def scoring_job(config: NetworkConfig, side: PlanSide) -> ScoringJob:
    """Inputs that a network sees. With the rate model's answers at every node no two plans look the same."""
    job, subtasks_PxOxH = side.job, side.subtasks_PxOxH
    plans, answer = len(subtasks_PxOxH), side.answer() if config.features == "physics" else None
    if not config.hosts:  # then all plans look the same
        subtasks_PxOxH = subtasks_PxOxH.sum(axis=2, keepdims=True)
    inputs_P = np.zeros(plans, np.int64) if answer is None else np.arange(plans)
    sharing = share(subtasks_PxOxH, job.streams, inputs_P)
    hosts = dict(job.hosts(sharing.host_U, sharing.counts_UxO))
    if answer is not None:
        hosts |= {name: of_PxH[sharing.plan_U, sharing.host_U] for name, of_PxH in host_physics(answer).items()}
    kinds = [NODE_TYPES.index(kind) for kind in job.node_types]
    return ScoringJob(
        kinds=kinds,
        operators=[_operator(config, job, o, kind, answer) for o, kind in enumerate(kinds)],
        inputs_P=inputs_P,
        hosts_UxF=_inputs(config, HOST, hosts, range(len(sharing.host_U))),
        context_PxF=cache(partial(_context, config, side)),
        sharing=sharing,
    )


def _operator(config: NetworkConfig, job: JobColumns, o: int, kind: int, answer: RateAnswer | None) -> np.ndarray:
    """Inputs of one operator: the same under all plans, but for the rate model's answers."""
    if answer is None:
        return _inputs(config, kind, job.operators, [o])
    plans = len(answer.in_per_s)
    alike = {name: np.repeat(of_O[[o]], plans) for name, of_O in job.operators.items()}
    physics = {name: of_PxO[:, o] for name, of_PxO in operator_physics(answer).items()}
    return _inputs(config, kind, {**alike, **physics}, range(plans))


def _inputs(config: NetworkConfig, kind: int, columns: Columns, rows: Sequence[int]) -> np.ndarray:
    features = FEATURES[NODE_TYPES[kind]]
    return encode(features, raw_rows(features, columns, rows))[:, config.columns(kind)]


def _context(config: NetworkConfig, side: PlanSide) -> np.ndarray:
    columns, plans = plan_physics(side.answer(), side.job, side.horizon_s), range(len(side.subtasks_PxOxH))
    return np.asarray(encode(CONTEXT, raw_rows(CONTEXT, columns, plans))[:, config.context])


@dataclass(frozen=True)
class Weights:
    """Weights of one network, by node type where there is one MLP each; empty where a configuration has none."""

    encoders: tuple[Layers, ...]
    placed: tuple[Layers, ...]
    flow: tuple[Layers, ...]
    host_update: Layers
    context: Layers
    head: Layers

    @classmethod
    def of(cls, config: NetworkConfig, parameters: Parameters) -> Weights:
        """Weights from the parameters of `models.gnn.CostNetwork`."""
        kinds = NODE_TYPES if config.hosts else NODE_TYPES[:HOST]
        placed = "flow" if config.phase_weights == "shared" else "placed"
        return cls(
            encoders=tuple(_layers(parameters[f"encoders_{kind}"]) for kind in kinds),
            placed=tuple(_layers(parameters[f"updates_{placed}_{kind}"]) for kind in NODE_TYPES[:HOST])
            if config.hosts
            else (),
            flow=tuple(_layers(parameters[f"updates_flow_{kind}"]) for kind in NODE_TYPES[:HOST]),
            host_update=_layers(parameters["host_update"]) if config.hosts else (),
            context=_layers(parameters["encoders_context"]) if config.context.size else (),
            head=_layers(parameters["head"]),
        )


def _layers(parameters: Parameters) -> Layers:
    layers = (parameters[f"layer_{index}"] for index in range(len(parameters)))
    return tuple((np.ascontiguousarray(layer["kernel"]), np.asarray(layer["bias"])) for layer in layers)


def score(config: NetworkConfig, weights: Weights, job: ScoringJob) -> np.ndarray:
    """[P, M] network outputs."""
    sharing = job.sharing
    own = [_encoded(weights.encoders[kind], inputs) for kind, inputs in zip(job.kinds, job.operators, strict=True)]
    readout: Summands = []
    if config.hosts:
        host_N, operator_N = np.nonzero(sharing.counts_UxO)
        row_N = operator_N * len(own[0]) + job.inputs_P[sharing.plan_U][host_N]
        inbox = [(np.concatenate(own), in_rows(host_N, row_N, len(job.hosts_UxF), len(own) * len(own[0])))]
        hosts_UxD = _encoded(weights.encoders[HOST], job.hosts_UxF)
        hosts_UxD = _update(config, weights.host_update, inbox, hosts_UxD, np.arange(len(hosts_UxD)))
        readout = [(hosts_UxD, sharing.used_PxK)]
        own = [
            _update(config, weights.placed[kind], [(hosts_UxD, hosts_NxR)], own_CxD, job.inputs_P[plan_N])
            for kind, hosts_NxR, plan_N, own_CxD in zip(job.kinds, sharing.hosts_NxR, sharing.plan_N, own, strict=True)
        ]
    states: list[np.ndarray] = []
    for kind, placed, flowing in zip(job.kinds, own, sharing.flowing, strict=True):
        inbox = [(states[u], row_N[:, None]) for u, row_N in zip(flowing.producers, flowing.rows_SxN, strict=True)]
        states.append(_update(config, weights.flow[kind], inbox, placed, flowing.own_N) if inbox else placed)
    all_states = terms([*readout, *_collected(sharing, states)])
    nodes_P = len(states) + ((sharing.used_PxK < len(sharing.host_U)).sum(axis=1) if config.hosts else 0)
    scale_P = 1.0 / np.broadcast_to(nodes_P if config.readout == "mean" else 1, sharing.plans).astype(np.float32)
    head = [
        _output(config, weights, job, summed(all_states, rows) * scale_P[rows, None], rows)
        for rows in blocks(sharing.plans)
    ]
    return np.concatenate(head)


def _collected(sharing: SharedStates, states: Sequence[np.ndarray]) -> Summands:
    """Terms of the sum of all operators' states: each operator adds to its own the states that only it reads, once for
    all plans under which it is in one state."""
    sums: list[np.ndarray] = []
    unread: set[int] = set()
    for operator, (state, flowing) in enumerate(zip(states, sharing.flowing, strict=True)):
        taken = [
            (sums[u], row_N)
            for u, row_N in dict(zip(flowing.producers, flowing.rows_SxN, strict=True)).items()
            if u in unread
        ]
        unread = (unread - {*flowing.producers}) | {operator}
        parts = [state[rows] + summed(taken, rows) for rows in blocks(len(state))] if taken else [state]
        sums.append(np.concatenate(parts))
    return [(sums[operator], sharing.flowing[operator].kind_P[:, None]) for operator in sorted(unread)]


def _output(
    config: NetworkConfig, weights: Weights, job: ScoringJob, summed_NxD: np.ndarray, rows: slice
) -> np.ndarray:
    """[N, M] output of the head for these plans."""
    if config.context.size:
        context_NxD = mlp(weights.context, job.context_PxF()[rows], linear_end=False)
        summed_NxD = np.hstack([summed_NxD, context_NxD])
    return mlp(weights.head, summed_NxD, linear_end=True)


def _encoded(layers: Layers, inputs_NxF: np.ndarray) -> np.ndarray:
    return np.concatenate([mlp(layers, inputs_NxF[rows], linear_end=False) for rows in blocks(len(inputs_NxF))])


def _update(
    config: NetworkConfig, layers: Layers, inbox: Summands, own_MxD: np.ndarray, own_N: np.ndarray
) -> np.ndarray:
    """[N, D] new states after an update. inbox: states to sum up. own_N: rows of `own_MxD`, the states before."""
    kernel, bias = layers[0]
    halves = (kernel, kernel) if config.combine == "sum" else np.split(kernel, 2)
    sent = terms([(product(table, halves[0]), rows_NxR) for table, rows_NxR in inbox])
    first = [*sent, (product(own_MxD, halves[1]) + bias, own_N)]
    return np.concatenate(
        [_changed(config, layers[1:], summed(first, rows), own_MxD, own_N[rows]) for rows in blocks(len(own_N))]
    )


def _changed(
    config: NetworkConfig, layers: Layers, first_NxD: np.ndarray, own_MxD: np.ndarray, own_N: np.ndarray
) -> np.ndarray:
    """[N, D] new states after an MLP' whose first layer is done."""
    if layers or not config.residual:
        first_NxD = leaky(first_NxD)
    new_NxD = mlp(layers, first_NxD, linear_end=config.residual)
    return own_MxD.take(own_N, axis=0) + new_NxD if config.residual else new_NxD
