"""Which attributes of two operators are the same, so that splitting by them sends the same tuples to the same place.

Two operators that name an attribute alike may mean different values: a map between them may compute it anew. So an
attribute is followed from where it comes in. It keeps its name as long as every operator on the way passes it on;
what an operator makes, also for want of it in some of its inputs, is `word of splitter`; where inputs disagree it is
`word into join`.
"""

from __future__ import annotations

from optimizers.fusion.job import Job
from optimizers.fusion.operators import FusionOperator

Lineage = str


def attribute_of(lineage: Lineage) -> str:
    """The name that operators give it; names have no spaces."""
    return lineage.partition(" ")[0]


def origins(job: Job) -> dict[str, dict[str, Lineage]]:
    """By operator, the lineage of each attribute of its input."""
    taken: dict[str, dict[str, Lineage]] = {}
    given: dict[str, dict[str, Lineage]] = {}
    for operator in job.topological:
        inputs = _different([given[name] for name in job.producers[operator.name]])
        taken[operator.name] = {name: _merged(operator, name, inputs) for name in operator.schema_in}
        passed = {name for name in operator.passed if all(name in each for each in inputs)}
        given[operator.name] = {
            name: taken[operator.name][name] if name in passed else _made(operator, name)
            for name in operator.schema_out
        }
    return taken


def _different(inputs: list[dict[str, Lineage]]) -> list[dict[str, Lineage]]:
    """Mostly all producers give the same."""
    found: list[dict[str, Lineage]] = []
    for each in inputs:
        if each not in found:
            found.append(each)
    return found


def _merged(operator: FusionOperator, attribute: str, inputs: list[dict[str, Lineage]]) -> Lineage:
    found = {each[attribute] for each in inputs if attribute in each}
    if not inputs:
        return attribute
    return found.pop() if len(found) == 1 else f"{attribute} into {operator.name}"


def _made(operator: FusionOperator, attribute: str) -> Lineage:
    return attribute if operator.kind == "source" else f"{attribute} of {operator.name}"


def partition_attributes(job: Job) -> dict[str, frozenset[Lineage]]:
    """PA of every operator, as lineages: two operators can be fused if they have one in common.

    An operator that takes its tuples however they are split may also stay with any of its producers, so that it has
    what these have, and can be fused with them even where it keeps none of their attributes. A source has none: what
    each of its replicas reads, the broker has decided.
    """
    taken, found = origins(job), dict[str, frozenset[Lineage]]()
    for operator in job.topological:
        own = {taken[operator.name][name] for name in operator.attributes}
        if operator.free:
            own |= {each for producer in job.producers[operator.name] for each in found[producer]}
        found[operator.name] = frozenset(own)
    return found
