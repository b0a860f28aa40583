"""Jobs of the paper, small jobs by hand, and Algorithm 1 as it is printed."""

from __future__ import annotations

from typing import Any

from optimizers.fusion.components import Fusion, Splits, fused
from optimizers.fusion.job import FusionJob
from twin.spec import parse

LOANS = ("user", "area", "date", "approval", "amount", "return", "lendingTime", "income")
"""Input attributes of the motivating job, Section 2."""


def job(operators: dict[str, dict[str, Any]], transfers: dict[str, float], **others: Any) -> FusionJob:
    """Fusion job. operators: by name. transfers: 'a>b' -> rate."""
    given = [
        {"producer": one, "consumer": two, "rate_per_s": rate}
        for key, rate in transfers.items()
        for one, two in [key.split(">")]
    ]
    listed = [{"name": name, **each} for name, each in operators.items()]
    return parse(FusionJob, {"operators": listed, "transfers": given, **others})


def plain(keys: dict[str, str], transfers: dict[str, float], **others: Any) -> FusionJob:
    """Fusion job of maps over attributes of one letter each, all of which they pass; keys: 'xy' is split by x and y."""
    schema = sorted(set("".join(keys.values())) | {"z"})
    made = {
        name: {"kind": "map", "schema_in": schema, "schema_out": schema, "partition_by": list(by)}
        for name, by in keys.items()
    }
    return job(made, transfers, **others)


def motivating(**others: Any) -> FusionJob:
    """Motivating job of Figure 1: op1 -> op2 -> op4 and op1 -> op3 -> op5."""
    rated = [*LOANS, "rate"]
    return job(
        {
            "op1": {"kind": "map", "schema_in": LOANS, "schema_out": rated},
            "op2": {"kind": "compute", "schema_in": rated, "schema_out": ["area", "rate"], "partition_by": ["area"]},
            "op3": {
                "kind": "compute",
                "schema_in": rated,
                "schema_out": ["area", "approval"],
                "partition_by": ["area"],
            },
            "op4": {"kind": "compute", "schema_in": ["area", "rate"], "schema_out": ["rate"], "partition_by": []},
            "op5": {
                "kind": "compute",
                "schema_in": ["area", "approval"],
                "schema_out": ["approval"],
                "partition_by": [],
            },
        },
        {"op1>op2": 100.0, "op1>op3": 100.0, "op2>op4": 10.0, "op3>op5": 10.0},
        distinct={"area": 98},
        **others,
    )


def algorithm_1(given: FusionJob, score: str) -> Fusion:
    """Fusion by Algorithm 1, line by line: after each merge, all transfers are looked at again."""
    splits, component = Splits(given), {name: {name} for name in given.by_name}
    while True:
        best, chosen = 0.0, None
        for i in given.by_name:
            for transfer in given.transfers:
                j = transfer.consumer
                if transfer.producer != i or j in component[i]:
                    continue
                common = splits.common(component[i] | component[j])
                value = transfer.rate_per_s if score == "COMM" else float(len(common))
                if common and value > best:
                    best, chosen = value, (i, j)
        if chosen is None:
            return fused(given, {tuple(sorted(group)) for group in component.values()})
        both = component[chosen[0]] | component[chosen[1]]
        for name in both:
            component[name] = both


def by_rate_between_literally(given: FusionJob) -> Fusion:
    """Fusion that merges the two components with the largest rate between them, all pairs compared after each merge."""
    splits, parts = Splits(given), [{name} for name in given.by_name]
    while True:
        rates = {
            (one, other): sum(
                each.rate_per_s
                for each in given.transfers
                if {each.producer, each.consumer} <= parts[one] | parts[other]
                and (each.producer in parts[one]) != (each.consumer in parts[one])
            )
            for other in range(len(parts))
            for one in range(other)
            if splits.common(parts[one] | parts[other])
        }
        if not rates or not max(rates.values()):
            return fused(given, map(tuple, parts))
        one, other = max(rates, key=rates.__getitem__)
        parts[one] |= parts.pop(other)


def groups(fusion: Fusion) -> set[frozenset[str]]:
    return {frozenset(each.operators) for each in fusion.components}


def wanting(given: FusionJob, **parallelism: int) -> FusionJob:
    """Job with more subtasks of some operators."""
    document = given.model_dump(mode="json")
    for operator in document["operators"]:
        operator["parallelism"] = parallelism.get(operator["name"], 1)
    return parse(FusionJob, document)
