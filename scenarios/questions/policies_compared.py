"""Compares policies on one load: the scenario and the random numbers are the same, only the policy differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from optimizers.policies import POLICIES
from scenarios.executing.progress import Audience
from scenarios.files.documents import CLOSED, Number
from scenarios.questions.bench import Bench
from scenarios.questions.control_measures import COURSE, MEANINGS, OF_SLO
from scenarios.questions.intervals import of_mean
from scenarios.questions.ranges import values
from scenarios.questions.replications import Samples, Wanted, replicate
from scenarios.questions.single_run import key
from scenarios.questions.variants import NO_POLICY, Variant
from scenarios.questions.whatif import VariantsCompared, answer
from twin.control import policy_spec
from twin.errors import BadInput, suggest
from twin.scenario import Scenario


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class PoliciesCompared(VariantsCompared):
    """The answer of `twin compare-policies`. slo_s: the end-to-end latency that 99 % of results should keep, in s."""

    slo_s: Number


def variants(given: Scenario, policies: Sequence[str]) -> list[Variant]:
    """Variants of the scenario, one for each policy or `none`; the others are compared with the first one.

    policies: names, or mappings of `name` and options, in YAML, separated by commas. Raises BadInput for fewer than
    two, unknown ones, options that are wrong, and a policy that cannot control this job.
    """
    asked = [item for text in policies for item in values(text, "--policies")]
    by_key: dict[str, Variant] = {}
    for policy in asked:
        scenario = _under(given, policy)
        by_key.setdefault(key(scenario), Variant(_label(policy), scenario, {"policy": policy}))
    if len(by_key) < 2:
        known = ", ".join([NO_POLICY, *POLICIES])
        raise BadInput(f"--policies: nothing to compare; give two or more of {known}, such as --policies none,ds2")
    return [*by_key.values()]


def compared(
    bench: Bench, variants: Sequence[Variant], slo_s: float | None, wanted: Wanted, seed: int, audience: Audience
) -> PoliciesCompared:
    """Compares the variants. The `course` of a policy is the mean over its runs, by period.

    bench: its runs are made by `judged`. Raises BadInput as `replicate` does.
    """
    metrics = [name for name in MEANINGS if slo_s is not None or name not in OF_SLO]
    samples = replicate(bench, [variant.scenario for variant in variants], metrics, wanted, seed, audience)
    comparison = answer(variants, metrics, wanted, seed, samples)
    rows = tuple(replace(row, course=_course(samples, case)) for case, row in enumerate(comparison.variants))
    parts = {field.name: getattr(comparison, field.name) for field in fields(comparison)}
    return PoliciesCompared(**parts | {"variants": rows}, slo_s=slo_s)


def _under(given: Scenario, policy: Any) -> Scenario:
    name = policy.get("name") if isinstance(policy, Mapping) else policy
    if name == NO_POLICY:
        return given.with_policy(None)
    if not isinstance(name, str) or name not in POLICIES:
        raise BadInput(f"--policies {_label(policy)}: unknown policy; {suggest(str(name), [NO_POLICY, *POLICIES])}")
    try:
        spec = policy_spec(policy)
        spec.start(given)
    except ValueError as error:
        raise BadInput(f"--policies {_label(policy)}: {error}") from None
    return given.with_policy(spec)


def _label(policy: Any) -> str:
    if not isinstance(policy, Mapping):
        return str(policy)
    options = (f"{name} {_text(value)}" for name, value in policy.items() if name != "name")
    return f"{policy.get('name')} ({', '.join(options)})" if len(policy) > 1 else str(policy.get("name"))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _course(samples: Samples, case: int) -> dict[str, tuple[float, ...]]:
    """Columns by period: its end, and the mean and half interval of each column of COURSE, over runs that have it."""
    runs = [outcome.course or {} for outcome in samples.outcomes[case]]
    columns = {"at_s": tuple(runs[0]["at_s"])}
    for name in COURSE:
        table = np.array([run[name] for run in runs], dtype=float)
        known = [
            of_mean(column[np.isfinite(column)], name) if np.isfinite(column).any() else None for column in table.T
        ]
        columns[name] = tuple(np.nan if mean is None else mean.mean for mean in known)
        columns[f"{name}_half_width95"] = tuple(
            np.nan if mean is None or mean.chance is None else mean.chance for mean in known
        )
    return columns
