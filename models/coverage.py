"""Coverage of the training rows: kinds of operators, words of their categories, and ranges of numbers.

A kind of node or a word that was never seen has weights that were never trained, so any answer would be arbitrary: it
is refused. A number outside the range that was seen is extrapolated, and no search may follow a model there: it would
find the model's errors, the plans that it underestimates most. Queries and hosts do not depend on the plan, so a job is
inside or outside as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from models.feature import Feature, OneHot, encode, raw_rows, with_inputs
from models.features import FEATURES, NODE_TYPES, require_learned
from models.graph import GraphTable
from models.job_columns import LOADS, Columns, JobColumns
from twin.errors import BadInput

Coverage = Mapping[str, int]
"""Number of nodes by kind, category and flag: `filter`, `filter function <`, `join measured`, ...; 0 if absent."""
Ranges = Mapping[str, Sequence[float]]
"""Lowest and highest encoded input, by `kind feature`."""
MARGIN = 0.1
"""Margin beyond the range, as a share of an encoded range from -1 to 1."""
DEMANDS: Mapping[str, tuple[str, float]] = {"arrivals": ("peak", 1.0), "drift": ("drifts_per_s", 0.0)}
"""Demands that steady rates leave out and models can learn, by name in `twin.unsupported`: the column of
`Dataset.about` that measures it, and the column's value in a job without it."""
FEWEST = 30
"""Number of rows with a demand from which on it counts as learned."""


def _is_flag(feature: Feature) -> bool:
    """Whether a feature says yes or no about an operator as the query has it."""
    return feature.unit == "0 or 1" and feature.group in ("operator", "data")


def coverage_of(graphs: GraphTable, rows: np.ndarray | None = None) -> Coverage:
    """Coverage of some rows of a table (default: all)."""
    found: dict[str, int] = {}
    for kind, nodes_NxF in _nodes(graphs, rows):
        found[kind] = len(nodes_NxF)
        for feature, inputs in with_inputs(FEATURES[kind], nodes_NxF):
            if isinstance(feature.encoding, OneHot):
                names = [f"{kind} {feature.name} {word}" for word in feature.encoding.vocabulary]
                found |= dict(zip(names, inputs.sum(axis=0).astype(int).tolist(), strict=True))
            elif _is_flag(feature):
                found[f"{kind} {feature.name}"] = int((inputs > 0).sum())
    return {name: count for name, count in found.items() if count}


def _nodes(graphs: GraphTable, rows: np.ndarray | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the inputs of all nodes of some rows, by node type."""
    wanted = np.arange(len(graphs)) if rows is None else rows
    for kind, ragged in zip(NODE_TYPES, graphs.nodes, strict=True):
        yield kind, ragged.take(wanted)[0]


def demands_of(about: Columns, rows: np.ndarray) -> list[str]:
    """Names of DEMANDS that at least FEWEST of these rows have. about: of all rows, as `Dataset.about`."""
    counts = {name: np.sum(about[column][rows] > without * (1 + 1e-9)) for name, (column, without) in DEMANDS.items()}
    return [name for name, count in counts.items() if count >= FEWEST]


def together(one: Coverage, other: Coverage) -> Coverage:
    """Coverage of two trainings, one after the other."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}


def kinds_of(graphs: GraphTable) -> set[str]:
    """Node types that occur in a table, without the words of their categories."""
    return {kind for kind, nodes in zip(NODE_TYPES, graphs.nodes, strict=True) if len(nodes.rows)}


def found_in(job: JobColumns) -> set[str]:
    """Keys of Coverage that the operators of a query need. Raises BadInput for a kind that models cannot learn."""
    require_learned(job.kinds)
    needed: set[str] = set(job.kinds)
    for o, kind in enumerate(job.kinds):
        for feature in FEATURES[kind]:
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


def ranges_of(graphs: GraphTable, rows: np.ndarray) -> dict[str, list[float]]:
    """Ranges of the numbers in some rows of a table."""
    return {
        f"{kind} {feature.name}": [float(inputs.min()), float(inputs.max())]
        for kind, nodes_NxF in _nodes(graphs, rows)
        for feature, inputs in with_inputs(FEATURES[kind], nodes_NxF)
        if len(nodes_NxF) and _has_range(feature)
    }


def outside(ranges: Ranges, job: JobColumns) -> list[str]:
    """Names `kind feature` of all numbers of a job, unused hosts included, that are beyond the ranges."""
    require_learned(job.kinds)
    rows = [(kind, job.operators, [o]) for o, kind in enumerate(job.kinds)]
    rows.append(("host", job.hardware, list(range(len(job.deployment.cluster.hosts)))))
    return sorted({name for row in rows for name in _beyond(ranges, *row)})


def _beyond(ranges: Ranges, kind: str, columns: Columns, rows: Sequence[int]) -> Iterator[str]:
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
