"""Profiles of operators: measures the costs that an optimizer plans with, and keeps them in files.

After BriskStream (SIGMOD 2019, Section 3.1, "Model instantiation"): each operator runs alone on sampled input of its
own; the execution time Te, the memory traffic M and the input size N of a record are measured, and the model is given a
percentile of Te, by default the 50th. A lower percentile is more optimistic. Sizes and traffic of an operator's records
do not vary in the simulator; times and numbers of results do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from scenarios.executing import Progress
from scenarios.files.scenario_file import read_text
from twin import VERSION
from twin.deployment import Deployment
from twin.errors import BadInput, suggest
from twin.files import KEY, ChecksumError, of_json, parse_json
from twin.query import AnyOperator, Query
from twin.scenario import Scenario, config_hash
from twin.simulation import MeasuredTimes, measure
from twin.spec import Spec, parse

D = TypeVar("D", bound=Deployment)

PERCENTILES = np.arange(101)
MEDIAN = 50.0
SAMPLES = 10_000


class OperatorProfile(Spec):
    """Profile of one operator, measured alone."""

    samples: Annotated[int, Field(ge=1, description="records measured")]
    times_s: Annotated[
        tuple[Annotated[float, Field(ge=0)], ...],
        Field(
            min_length=len(PERCENTILES),
            max_length=len(PERCENTILES),
            description="Te, CPU seconds a record on one reference core: its percentiles from 0 to 100",
        ),
    ]
    mean_s: Annotated[float, Field(ge=0, description="the mean of Te")]
    memory_bytes: Annotated[float, Field(ge=0, description="M, local memory traffic an input record")]
    input_bytes: Annotated[float, Field(ge=0, description="N, size of an input record; of a source, of what it reads")]
    output_bytes: Annotated[float | None, Field(gt=0, description="size of an emitted record; absent: a sink")] = None
    selectivity: Annotated[float, Field(ge=0, description="results an input record")]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if list(self.times_s) != sorted(self.times_s):
            raise ValueError("times_s must not fall from a percentile to the next")
        return self

    def time_s(self, percentile: float) -> float:
        """Te (s) at a percentile from 0 to 100, linear between whole ones. Raises BadInput outside of these."""
        return float(np.interp(check_percentile(percentile), PERCENTILES, self.times_s))


def check_percentile(percentile: float) -> float:
    """Returns the percentile. Raises BadInput unless it is from 0 to 100."""
    if not 0.0 <= percentile <= 100.0:
        raise BadInput(f"percentile must be from 0 to 100, got {percentile:g}")
    return percentile


def profile(
    deployment: Deployment, samples: int = SAMPLES, seed: int = 0, progress: Progress | None = None
) -> dict[str, OperatorProfile]:
    """Measures a profile of each operator, alone, in data-flow order, over `samples` records each.

    An operator's input is a mixture of its producers' results, in the proportions that their own profiles found.
    Raises BadInput if an operator gets no input, costs nothing, or cannot be measured alone.
    """
    query = deployment.query
    found: dict[str, OperatorProfile] = {}
    emitted_per_s: dict[str, float] = {}
    for done, operator in enumerate(query.topological):
        if progress is not None:
            progress(done, len(query.operators))
        inputs_per_s = _inputs_per_s(deployment, operator, emitted_per_s)
        measured = measure(deployment, operator.name, inputs_per_s, samples, seed)
        found[operator.name] = _profile(deployment, operator, measured)
        emitted_per_s[operator.name] = measured.results_per_input * sum(inputs_per_s.values())
    if progress is not None:
        progress(len(found), len(found))
    return found


def instantiate(deployment: D, profiles: Mapping[str, OperatorProfile], percentile: float = MEDIAN) -> D:
    """Job (or scenario) with the costs of its profiles, as an optimizer plans with it.

    An operator has the profiled time at that percentile, memory traffic, sizes, and results an input (of a join its
    amplification; an aggregate keeps its window and groups). Raises BadInput if the profiles are of other operators,
    if an operator costs nothing at that percentile, or if there is no such percentile.
    """
    query = deployment.query
    names = [operator.name for operator in query.operators]
    for name in profiles:
        if name not in names:
            raise BadInput(f"the profile names {name!r}, which is no operator of the job; {suggest(name, names)}")
    for name in names:
        if name not in profiles:
            raise BadInput(f"the profile has nothing of operator {name!r}; profile this job again")
    operators = tuple(_as_profiled(each, profiles[each.name], percentile) for each in query.operators)
    described = Query(operators=operators, streams=query.streams)
    return deployment.__class__(**{**dict(deployment), "query": described})


def _as_profiled(operator: AnyOperator, found: OperatorProfile, percentile: float) -> AnyOperator:
    time_s = found.time_s(percentile)
    if time_s <= 0.0:
        raise BadInput(
            f"operator {operator.name!r} has a profile with zero cost at percentile {percentile:g}: no plan would "
            "matter to it; take a higher percentile, or give the operator a service_time_s above 0 and profile again"
        )
    known = {"service_time_s": time_s, "memory_bytes": found.memory_bytes, **operator.measured_as(found.selectivity)}
    if found.output_bytes is not None:
        known["record_bytes"] = found.output_bytes
    return operator.__class__(**{**dict(operator), **known})


def _inputs_per_s(
    deployment: Deployment, operator: AnyOperator, emitted_per_s: Mapping[str, float]
) -> dict[str, float]:
    """Input rates of an operator, by producer that emits anything; of a source, the rate at its broker, by its name."""
    name = operator.name
    if operator.is_source:
        return {name: deployment.workload.arrivals[name].mean_rate_per_s}
    producers = [stream.producer for stream in deployment.query.inputs(name)]
    sent_per_s = {each: emitted_per_s[each] * deployment.query.operator(each).share_to(name) for each in producers}
    idle = [each for each, rate in sent_per_s.items() if rate <= 0.0]
    if len(idle) == len(producers) or (idle and operator.joins):
        raise BadInput(
            f"operator {name!r} cannot be profiled: {' and '.join(idle)} emitted nothing for it; "
            "give --samples more records, or what comes before it a selectivity above 0"
        )
    return {each: rate for each, rate in sent_per_s.items() if each not in idle}


def _profile(deployment: Deployment, operator: AnyOperator, measured: MeasuredTimes) -> OperatorProfile:
    query, engine = deployment.query, deployment.engine
    records = sum(measured.inputs.values())
    sizes = {name: engine.output_bytes(query, name) for name in measured.inputs}
    return OperatorProfile(
        samples=len(measured.times_s),
        times_s=tuple(np.quantile(measured.times_s, PERCENTILES / 100).tolist()),
        mean_s=float(measured.times_s.mean()),
        memory_bytes=engine.memory_bytes(query, operator, measured.inputs),
        input_bytes=sum(count * sizes[name] for name, count in measured.inputs.items()) / records,
        output_bytes=None if operator.is_sink else engine.output_bytes(query, operator.name),
        selectivity=measured.results_per_input,
    )


class Profiles(Spec):
    """Profiles of a job's operators, with a manifest of all that is needed to measure them again."""

    manifest: dict[str, str | int | float]
    operators: dict[str, OperatorProfile]


def profiles_of(scenario: Scenario, operators: Mapping[str, OperatorProfile], samples: int, seed: int) -> Profiles:
    """Profiles with their manifest, ready to be written."""
    manifest: dict[str, str | int | float] = {
        "version": VERSION,
        "scenario": scenario.name,
        "config_hash": config_hash(scenario),
        "samples": samples,
        "seed": seed,
    }
    return Profiles(manifest=manifest, operators=dict(operators))


def dump(profiles: Profiles) -> str:
    """Text of profiles, which loads back equal, with a line an operator. The manifest has its checksum."""
    document: dict[str, Any] = profiles.model_dump(mode="json", exclude_none=True)
    document["manifest"] |= {KEY: of_json(document)}
    lines = [f"    {json.dumps(name)}: {json.dumps(each)}" for name, each in document["operators"].items()]
    operators = ",\n".join(lines)
    return f'{{\n  "manifest": {json.dumps(document["manifest"])},\n  "operators": {{\n{operators}\n  }}\n}}\n'


def load(path: Path) -> Profiles:
    """Reads the profiles in a file. Raises BadInput, in one line, if it is missing, damaged or something else."""
    text = read_text(path)
    try:
        data = parse_json(text)
        manifest = data.get("manifest") if isinstance(data, dict) else None
        if isinstance(manifest, dict) and manifest.pop(KEY, None) not in (None, of_json(data)):
            raise ChecksumError("its checksum does not match its content")
    except ChecksumError as error:
        raise BadInput(f"{path} is damaged ({error}); remove '{KEY}' from it if it was changed on purpose") from None
    except ValueError as error:
        raise BadInput(f"{path} is not JSON ({error}); write it with 'twin profile SCENARIO --out FILE'") from None
    return parse(Profiles, data, where=str(path))
