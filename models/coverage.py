"""What the training rows held: kinds of operators, and words of their categories. A model answers for nothing else.

A number outside the range that was seen is extrapolated; a kind of node or a word that was never seen has weights that
were never trained, so any answer would be arbitrary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from models.columns import Column, OneHot
from models.facts import OperatorFacts
from models.features import COLUMNS, NODE_TYPES, require_learned
from models.graph import GraphTable
from twin.errors import BadInput

Coverage = Mapping[str, int]
"""Nodes by what they are: `filter`, `filter function <`, `join measured`, ...; absent or 0 if there were none."""


def is_flag(column: Column) -> bool:
    """Whether a column says yes or no about an operator as the query has it."""
    return column.unit == "0 or 1" and column.group in ("operator", "data")


def coverage_of(graphs: GraphTable, rows: np.ndarray | None = None) -> Coverage:
    """What some rows of a table hold (default: all)."""
    wanted = np.arange(len(graphs)) if rows is None else rows
    found: dict[str, int] = {}
    for kind, ragged in zip(NODE_TYPES, graphs.nodes, strict=True):
        nodes, _ = ragged.take(wanted)
        found[kind] = len(nodes)
        start = 0
        for column in COLUMNS[kind]:
            inputs = nodes[:, start : start + column.encoding.width]
            start += column.encoding.width
            if isinstance(column.encoding, OneHot):
                counts = inputs.sum(axis=0).astype(int).tolist()
                found |= {
                    f"{kind} {column.name} {word}": n
                    for word, n in zip(column.encoding.vocabulary, counts, strict=True)
                }
            elif is_flag(column):
                found[f"{kind} {column.name}"] = int((inputs > 0).sum())
    return {name: count for name, count in found.items() if count}


def together(one: Coverage, other: Coverage) -> Coverage:
    """What two trainings, one after the other, held."""
    return {name: one.get(name, 0) + other.get(name, 0) for name in {*one, *other}}


def kinds_of(graphs: GraphTable) -> set[str]:
    """The node types that occur in a table, without the words of their categories."""
    return {kind for kind, nodes in zip(NODE_TYPES, graphs.nodes, strict=True) if len(nodes.rows)}


def found_in(operators: Sequence[OperatorFacts]) -> set[str]:
    """The keys of Coverage that the operators of a query need. Raises BadInput if models know none of a kind."""
    require_learned(operators)
    needed: set[str] = set()
    for facts in operators:
        kind: str = facts.spec.kind
        needed.add(kind)
        for column in COLUMNS[kind]:
            if isinstance(column.encoding, OneHot):
                needed.add(f"{kind} {column.name} {column.read(facts)}")
            elif is_flag(column) and column.read(facts):
                needed.add(f"{kind} {column.name}")
    return needed


def unseen(seen: Coverage | None, needed: set[str]) -> list[str]:
    """What is needed but was not in the training rows, kinds first. seen: None if nothing is known of them."""
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
