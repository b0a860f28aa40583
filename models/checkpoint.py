"""Checkpoint of an ensemble in one file, with the coverage of the rows that it was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from flax import serialization
from flax.traverse_util import flatten_dict
from pydantic import ConfigDict, Field, TypeAdapter, model_validator

from models.features import (
    CONTEXT,
    FEATURE_VERSION,
    FEATURES,
    NODE_TYPES,
    Feature,
    Group,
    OneHot,
    encode,
    raw_rows,
    with_inputs,
)
from models.gnn import Parameters, shapes
from models.graph import GraphTable
from models.job_columns import LOADS, WORKING, Columns, JobColumns, composed
from models.labels import KINDS, Scaling
from models.scoring import Weights
from models.settings import NetworkConfig
from twin.errors import BadInput
from twin.files import signed, verified, write_bytes
from twin.kinds.registry import KINDS as KINDS_OF_OPERATORS
from twin.metrics import ESTIMATED
from twin.spec import Spec, parse

# coverage of the training rows ---------------------------------------------------------------------------------------
# Coverage of the training rows: kinds of operators, words of their categories, and ranges of numbers.
#
# A kind of node or a word that was never seen has weights that were never trained, so any answer would be arbitrary:
# it is refused. A number outside the range that was seen is extrapolated, and no search may follow a model there: it
# would find the model's errors, the plans that it underestimates most. Queries and hosts do not depend on the plan, so
# a job is inside or outside as a whole. Of a kind that is seen as another one (`models.features.node_type`), its name
# counts, and neither its words nor its numbers count for the other.


Coverage = Mapping[str, int]
"""Number of nodes by kind, category and flag: `filter`, `filter function <`, `join measured`, ...; 0 if absent."""
Ranges = Mapping[str, Sequence[float]]
"""Lowest and highest encoded input, by `kind feature`."""
PLAN = "plan"
"""Kind of the numbers of whole jobs."""
MARGIN = 0.1
"""Margin beyond the range, as a share of an encoded range from -1 to 1."""
DEMANDS: Mapping[str, tuple[str, float, Group]] = {
    "arrivals": ("peak", 1.0, "demand"),
    "few": ("peak", 1.0, "demand"),
    "several": ("peak", 1.0, "demand"),
    "drift": ("drifts_per_s", 0.0, "demand"),
    "pauses": ("pauses", 0.0, "composed"),
    "checkpoints": ("checkpoints", 0.0, "composed"),
}
"""Demands that models can learn, by name in `twin.unsupported`: the column of
`Dataset.about` that measures it, the column's value in a job without it, and the group of features that shows it."""
FEWEST = 30
"""Number of rows with a demand from which on it counts as learned."""


def _is_flag(feature: Feature) -> bool:
    """Whether a feature says yes or no about an operator as the query has it."""
    return feature.unit == "0 or 1" and feature.group in ("operator", "data")


def coverage_of(graphs: GraphTable, rows: np.ndarray | None = None) -> Coverage:
    """Coverage of some rows of a table (default: all)."""
    found: dict[str, int] = {}
    for kind, nodes_NxF, _ in _nodes(graphs, rows):
        found[kind] = len(nodes_NxF)
        for feature, inputs in with_inputs(FEATURES.get(kind, ()), nodes_NxF):
            if isinstance(feature.encoding, OneHot):
                names = [f"{kind} {feature.name} {word}" for word in feature.encoding.vocabulary]
                found |= dict(zip(names, inputs.sum(axis=0).astype(int).tolist(), strict=True))
            elif _is_flag(feature):
                found[f"{kind} {feature.name}"] = int((inputs > 0).sum())
    return {name: count for name, count in found.items() if count}


def _nodes(graphs: GraphTable, rows: np.ndarray | None) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yields the inputs of all nodes of some rows, and the position of each node's row, by node type; and then, without
    inputs, by each other kind that there is."""
    wanted = np.arange(len(graphs)) if rows is None else rows
    (type_R, number_R, kind_R), row_R = graphs.others.take(wanted)[0].T, graphs.others.take(wanted)[1]
    for node, (kind, ragged) in enumerate(zip(NODE_TYPES, graphs.nodes, strict=True)):
        nodes_NxF, row_N = ragged.take(wanted)
        of_other = type_R == node
        own_N = np.ones(len(nodes_NxF), bool)
        own_N[np.searchsorted(row_N, row_R[of_other]) + number_R[of_other]] = False
        yield kind, nodes_NxF[own_N], row_N[own_N]
    for kind in np.unique(kind_R).tolist():
        row_N = row_R[kind_R == kind]
        yield KINDS_OF_OPERATORS[kind], np.zeros((len(row_N), 0)), row_N


def demands_of(about: Columns, rows: np.ndarray, config: NetworkConfig) -> list[str]:
    """Names of DEMANDS that a network sees, and at least FEWEST of these rows have. about: of all rows, as
    `Dataset.about`."""
    shown = {name: each for name, each in DEMANDS.items() if config.sees(each[2])}
    counts = {name: np.sum(about[column][rows] > without * (1 + 1e-9)) for name, (column, without, _) in shown.items()}
    return [name for name, count in counts.items() if count >= FEWEST]


def together(one: Coverage, other: Coverage) -> Coverage:
    """Coverage of two trainings, one after the other."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}


def kinds_of(graphs: GraphTable) -> set[str]:
    """Kinds of operators, and hosts, that occur in a table, without the words of their categories."""
    return {kind for kind, nodes_NxF, _ in _nodes(graphs, None) if len(nodes_NxF)}


def found_in(job: JobColumns) -> set[str]:
    """Keys of Coverage that the operators of a query need."""
    needed: set[str] = set(job.kinds)
    for o, kind in enumerate(job.kinds):
        for feature in FEATURES.get(kind, ()):
            if isinstance(feature.encoding, OneHot):
                needed.add(f"{kind} {feature.name} {job.operators[feature.name][o]}")
            elif _is_flag(feature) and job.operators[feature.name][o]:
                needed.add(f"{kind} {feature.name}")
    return needed


def unseen(seen: Coverage | None, needed: set[str]) -> list[str]:
    """Keys of Coverage that are needed but were not in the training rows, kinds first. seen: None if not known."""
    missing = () if seen is None else (name for name in needed if not seen.get(name))
    return sorted(missing, key=lambda name: (name.count(" "), name))


def refuse_unseen(model: str, seen: Coverage | None, needed: set[str]) -> None:
    """Raises BadInput if something was not in the training rows of that model."""
    if missing := unseen(seen, needed):
        others = f" (nor {', '.join(missing[1:])})" if len(missing) > 1 else ""
        raise BadInput(
            f"model {model!r} never saw '{missing[0]}'{others} in training, so it cannot judge such a query; train it "
            f"on runs that have it: 'twin corpus OUT --runs N --scenario SCENARIO'"
        )


def unseen_rows(seen: Coverage | None, graphs: GraphTable) -> dict[str, np.ndarray]:
    """Rows of a table that have something which was not in the training rows, by its key of Coverage: kinds, and words
    and flags of kinds that were. seen: None if not known."""
    found: dict[str, np.ndarray] = {}
    if seen is None:
        return found
    for kind, nodes_NxF, row_N in _nodes(graphs, None):
        if not seen.get(kind):
            found[kind] = np.unique(row_N)
            continue
        for feature, inputs in with_inputs(FEATURES.get(kind, ()), nodes_NxF):
            if isinstance(feature.encoding, OneHot):
                names = [f"{kind} {feature.name} {word}" for word in feature.encoding.vocabulary]
            elif _is_flag(feature):
                names = [f"{kind} {feature.name}"]
            else:
                continue
            missing = [(column, name) for column, name in enumerate(names) if not seen.get(name)]
            found |= {name: np.unique(row_N[inputs[:, column] > 0]) for column, name in missing}
    return {name: rows for name, rows in found.items() if len(rows)}


def ranges_of(graphs: GraphTable, rows: np.ndarray) -> dict[str, list[float]]:
    """Ranges of the numbers in some rows of a table, and of what works in whole jobs there."""
    whole = {
        f"{PLAN} {feature.name}": [float(inputs.min()), float(inputs.max())]
        for feature, inputs in with_inputs(CONTEXT, graphs.context_GxC[rows])
        if feature.name in WORKING
    }
    return whole | {
        f"{kind} {feature.name}": [float(inputs.min()), float(inputs.max())]
        for kind, nodes_NxF, _ in _nodes(graphs, rows)
        for feature, inputs in with_inputs(FEATURES.get(kind, ()), nodes_NxF)
        if len(nodes_NxF) and _has_range(feature)
    }


def outside(ranges: Ranges, job: JobColumns) -> list[str]:
    """Names `kind feature` of all numbers of a job, unused hosts included, that are beyond the ranges."""
    rows = [(kind, job.operators, [o]) for o, kind in enumerate(job.kinds) if kind in FEATURES]
    rows.append(("host", job.hardware, list(range(len(job.deployment.cluster.hosts)))))
    rows.append((PLAN, {name: np.array([value]) for name, value in composed(job).items()}, [0]))
    return sorted({name for row in rows for name in _beyond(ranges, *row)})


def _beyond(ranges: Ranges, kind: str, columns: Columns, rows: Sequence[int]) -> Iterator[str]:
    if kind == PLAN:
        features = [feature for feature in CONTEXT if feature.name in WORKING]
    else:
        features = [feature for feature in FEATURES[kind] if _has_range(feature)]
    for feature, inputs in with_inputs(features, encode(features, raw_rows(features, columns, rows))):
        low, high = ranges.get(f"{kind} {feature.name}", (-np.inf, np.inf))
        if inputs.min() < low - 2 * MARGIN or inputs.max() > high + 2 * MARGIN:
            yield f"{kind} {feature.name}"


def _has_range(feature: Feature) -> bool:
    """Whether a feature is a number that does not depend on where operators are."""
    return (
        feature.group not in ("plan", "physics")
        and feature.name not in LOADS
        and not isinstance(feature.encoding, OneHot)
    )


# the file ------------------------------------------------------------------------------------------------------------
# Checkpoint of an ensemble in one file: msgpack of weights, network config, label scaling, features and manifest.
#
# The first line is a checksum over the rest.


class CurveBody(Spec):
    """Learning curve of one network: step, training loss, validation loss."""

    model_config = ConfigDict(extra="allow")

    seed: int
    curve: tuple[tuple[float, float, float], ...]


class ManifestBody(Spec):
    """Entries of a manifest that are read; some are missing if an ensemble was not made by training.

    yes: by binary metric, the share of the training rows that are yes, if its probabilities are for such rows.
    """

    model_config = ConfigDict(extra="allow")

    seen: dict[str, int]
    demands: tuple[str, ...] = ()
    seed: int = 0
    horizon_s: Annotated[float, Field(gt=0)] = 1.0
    horizons_s: tuple[Annotated[float, Field(gt=0)], ...] = ()
    ranges: Mapping[str, tuple[float, float]] = Field(default_factory=dict)
    interval: Mapping[str, float | tuple[tuple[float, float], ...]] = Field(default_factory=dict)
    rows: Mapping[str, int] = Field(default_factory=dict)
    yes: Mapping[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    members: tuple[CurveBody, ...] = ()


class Body(Spec):
    """Content of a whole checkpoint. members: parameters by number."""

    format: str
    feature_version: str
    metrics: Annotated[tuple[str, ...], Field(min_length=1)]
    config: NetworkConfig
    scaling: Scaling
    members: Annotated[dict[str, dict[str, Any]], Field(min_length=1)]
    manifest: ManifestBody

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if unknown := set(self.metrics) - set(ESTIMATED):
            raise ValueError(f"metrics: {min(unknown)!r} is no metric")
        sizes = {len(self.metrics), self.config.outputs, len(self.scaling.mean), len(self.scaling.deviation)}
        sizes |= {len(each) for each in self.scaling.gate}
        if len(self.scaling.gate) not in (0, len(KINDS)):
            raise ValueError(f"scaling.gate is not of {len(KINDS)} kinds of plans")
        if len(sizes) > 1 or len(set(self.metrics)) < len(self.metrics):
            raise ValueError("metrics, scaling and config.outputs are not of the same number")
        if set(self.members) != {str(index) for index in range(len(self.members))}:
            raise ValueError("members are not numbered from 0")
        for index, parameters in self.members.items():
            _require_weights(self.config, parameters, f"members.{index}")
        return self


def _require_weights(config: NetworkConfig, parameters: Parameters, where: str) -> None:
    """Raises ValueError if these are not finite parameters of a network of that configuration."""
    wanted = _shapes(config)
    found = _leaves(parameters)
    for name in sorted(wanted.keys() ^ found.keys()):
        raise ValueError(f"{where}: the weights {name} {'are missing' if name in wanted else 'are of no layer'}")
    for name, leaf in found.items():
        if not isinstance(leaf, np.ndarray) or leaf.shape != wanted[name] or leaf.dtype != np.float32:
            raise ValueError(f"{where}: the weights {name} are not {wanted[name]} numbers")
        if not np.isfinite(leaf).all():
            raise ValueError(f"{where}: the weights {name} are not all finite")


@cache
def _shapes(config: NetworkConfig) -> dict[str, tuple[int, ...]]:
    return {name: leaf.shape for name, leaf in _leaves(shapes(config)).items()}


def _leaves(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves by path, each empty mapping among them, which JAX does not count as a leaf."""
    return {".".join(map(str, path)): leaf for path, leaf in flatten_dict(parameters, keep_empty_nodes=True).items()}


SUFFIX = ".msgpack"
_FORMAT = "streamtwin cost model 2"
_WHAT = b"streamtwin cost model"


@dataclass(frozen=True)
class Ensemble:
    """Networks of one config for the same metrics, trained with different seeds. manifest: about their training."""

    metrics: tuple[str, ...]
    config: NetworkConfig
    scaling: Scaling
    members: tuple[Parameters, ...]
    manifest: Mapping[str, Any]

    @property
    def seen(self) -> Coverage | None:
        """Coverage of the training rows; None if the ensemble was not made by training."""
        return self.manifest.get("seen")

    @property
    def name(self) -> str:
        """Name of the ensemble and its file: its one metric, or `all`."""
        return self.metrics[0] if len(self.metrics) == 1 else "all"

    @cached_property
    def weights(self) -> tuple[Weights, ...]:
        """Weights of the members, for `models.scoring.score`."""
        return tuple(Weights.of(self.config, member) for member in self.members)


def save(ensemble: Ensemble, folder: Path) -> None:
    """Writes FOLDER/NAME.msgpack; it appears whole or not at all, and replaces an older one."""
    body = {
        "format": _FORMAT,
        "feature_version": FEATURE_VERSION,
        "metrics": list(ensemble.metrics),
        "config": ensemble.config.model_dump(mode="json"),
        "scaling": TypeAdapter(Scaling).dump_python(ensemble.scaling, mode="json"),
        "members": {str(index): member for index, member in enumerate(ensemble.members)},
        "manifest": dict(ensemble.manifest),
    }
    write_bytes(folder / f"{ensemble.name}{SUFFIX}", signed(serialization.msgpack_serialize(body), _WHAT))


def read(path: Path) -> Ensemble:
    """Reads one ensemble. Raises BadInput if the file is damaged, or made for other features than today's."""
    raw = _raw(path)
    if raw.get("feature_version") not in (None, FEATURE_VERSION):
        raise BadInput(
            f"{path} was trained on features {raw['feature_version']}, this version computes {FEATURE_VERSION}; "
            f"train again with 'twin train'"
        )
    try:
        body = parse(Body, raw, "checkpoint")
    except BadInput as error:
        raise BadInput(f"{path} is damaged ({error}); train again with 'twin train'") from None
    return Ensemble(
        metrics=body.metrics,
        config=body.config,
        scaling=body.scaling,
        members=tuple(body.members[str(index)] for index in range(len(body.members))),
        manifest=raw["manifest"],
    )


def _raw(path: Path) -> dict[str, Any]:
    corrupt = f"{path} is not a cost model, or damaged; train again with 'twin train'"
    try:
        body = serialization.msgpack_restore(verified(path.read_bytes(), _WHAT))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInput(f"{corrupt} ({type(error).__name__})") from None
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise BadInput(corrupt)
    return body


def read_all(folder: Path) -> tuple[Ensemble, ...]:
    """Reads every ensemble of a model directory, a metric at most once. Raises BadInput if there is none."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        raise BadInput(f"{folder} holds no cost model (*{SUFFIX}); make one with 'twin train DATASET {folder}'")
    ensembles = tuple(read(path) for path in paths)
    for metric in ESTIMATED:
        holders = [path.name for path, ensemble in zip(paths, ensembles, strict=True) if metric in ensemble.metrics]
        if len(holders) > 1:
            raise BadInput(f"{folder}: {' and '.join(holders)} both predict {metric}; remove one")
    return ensembles
