"""Scores many plans of one query by a network at once: the forward pass of models.gnn, each different state once.

`models.sharing` finds the states that differ. The first layer of an update is linear, so it is applied to the
states of producers and of the operator itself before they are combined, when they are fewer. Rows go through the
other layers in blocks that fit a core's cache; nothing is compiled, so that the first plans are scored as fast as the
last. A test checks equality with the flat network. Only the head needs the rate model's answers, which may be computed
at the same time as the rest.

Axes: N rows, P plans, U different hosts, O operators in data-flow order, F inputs, D hidden features, M metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from models.blockwise import Layers, Summands, blocks, leaky, mlp, product, summed, terms
from models.feature import encode, raw_rows
from models.features import CONTEXT, FEATURES, HOST, NODE_TYPES
from models.gnn import Parameters
from models.job_columns import Columns, JobColumns, host_physics, operator_physics, plan_physics
from models.settings import NetworkConfig
from models.sharing import SharedStates, in_rows, share
from twin.rates.answer import RateAnswer


@dataclass(frozen=True)
class PlanSide:
    """Plans with equal numbers of replicas of each operator, before they are features. job: under one of them. answer:
    returns the rate model's answer, for networks that see it, and may take its time; horizon_s: length of the predicted
    run."""

    job: JobColumns
    replicas_PxOxH: np.ndarray
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
    job, replicas_PxOxH = side.job, side.replicas_PxOxH
    plans, answer = len(replicas_PxOxH), side.answer() if config.features == "physics" else None
    if not config.hosts:  # then all plans look the same
        replicas_PxOxH = replicas_PxOxH.sum(axis=2, keepdims=True)
    inputs_P = np.zeros(plans, np.int64) if answer is None else np.arange(plans)
    sharing = share(replicas_PxOxH, job.streams, inputs_P)
    hosts = dict(job.hosts(sharing.host_U, sharing.counts_UxO))
    if answer is not None:
        hosts |= {name: of_PxH[sharing.plan_U, sharing.host_U] for name, of_PxH in host_physics(answer).items()}
    kinds = [NODE_TYPES.index(kind) for kind in job.kinds]
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
    columns, plans = plan_physics(side.answer(), side.job, side.horizon_s), range(len(side.replicas_PxOxH))
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
    head = [_output(config, weights, job, summed(all_states, rows), rows) for rows in blocks(sharing.plans)]
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
