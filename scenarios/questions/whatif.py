"""Compares variants of a scenario with the scenario itself: means, differences, and whether these are significant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scenarios.executing.progress import Audience
from scenarios.files.documents import CLOSED, Number
from scenarios.questions.bench import Bench
from scenarios.questions.comparison import Change, adjusted, changed
from scenarios.questions.intervals import of_mean
from scenarios.questions.replications import Samples, Wanted, replicate
from scenarios.questions.resources import without_spare
from scenarios.questions.variants import Variant
from twin.errors import BadInput


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMetric(Change):
    """A metric of a variant, in its own unit: the mean, half its 95 % interval, and the values of the runs; and its
    change from the first variant, which itself has no change. words: the change as a part of a sentence."""

    mean: Number
    half_width95: Number
    values: tuple[Number, ...]
    significant: bool | None = None
    words: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVariant:
    """settings: what was changed in the scenario. full: operators and hosts with nothing to spare. course: columns by
    period, of policies only."""

    variant: str
    settings: Mapping[str, Any]
    policy: str | None
    backpressured_runs: int
    success_runs: int
    metrics: Mapping[str, ComparedMetric]
    full: tuple[str, ...]
    warnings: tuple[str, ...]
    course: Mapping[str, tuple[Number, ...]] | None = None


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsCompared:
    """The answer of `twin whatif` and `twin compare`. needed: runs of each for the precision; null if it is reached."""

    scenario: str
    compared_with: str
    metrics: tuple[str, ...]
    seed: int
    replications: int
    precision: Number
    needed: int | None
    comparisons: int
    variants: tuple[ComparedVariant, ...]


def check(bench: Bench, variants: Sequence[Variant]) -> None:
    """Raises BadInput, with the variant's label, if a variant would take hours."""
    for variant in variants:
        try:
            bench.check(variant.scenario)
        except BadInput as error:
            raise BadInput(f"{variant.label}: {error}") from None


def compared(
    bench: Bench, variants: Sequence[Variant], metrics: Sequence[str], wanted: Wanted, seed: int, audience: Audience
) -> VariantsCompared:
    """Runs all variants, and compares them with the first one. metrics: full names. Raises BadInput as `replicate`."""
    samples = replicate(bench, [variant.scenario for variant in variants], metrics, wanted, seed, audience)
    return answer(variants, metrics, wanted, seed, samples)


def answer(
    variants: Sequence[Variant], metrics: Sequence[str], wanted: Wanted, seed: int, samples: Samples
) -> VariantsCompared:
    """The answer that the runs of all variants give."""
    cells = [(case, metric) for case in range(1, len(variants)) for metric in metrics]
    changes_alone = [changed(samples.values(case, metric), samples.values(0, metric), metric) for case, metric in cells]
    changes = dict(zip(cells, adjusted(changes_alone), strict=True))
    return VariantsCompared(
        scenario=variants[0].scenario.name,
        compared_with=variants[0].label,
        metrics=tuple(metrics),
        seed=seed,
        replications=samples.runs,
        precision=wanted.precision,
        needed=samples.needed or None,
        comparisons=len(changes),
        variants=tuple(_variant(variant, case, samples, metrics, changes) for case, variant in enumerate(variants)),
    )


def _variant(
    variant: Variant, case: int, samples: Samples, metrics: Sequence[str], changes: Mapping[tuple[int, str], Change]
) -> ComparedVariant:
    return ComparedVariant(
        variant=variant.label,
        settings=dict(variant.settings),
        policy=None if variant.scenario.policy is None else variant.scenario.policy.name,
        backpressured_runs=int(np.sum(samples.values(case, "backpressured"))),
        success_runs=int(np.sum(samples.values(case, "success"))),
        metrics={
            metric: _metric(metric, samples.values(case, metric), changes.get((case, metric)), len(changes))
            for metric in metrics
        },
        full=tuple(without_spare(variant.scenario, samples.outcomes[case])),
        warnings=samples.outcomes[case][0].warnings,
    )


def _metric(metric: str, values: np.ndarray, change: Change | None, comparisons: int) -> ComparedMetric:
    known = of_mean(values, metric)
    return ComparedMetric(
        mean=known.mean,
        half_width95=known.half_width95,
        values=tuple(values.tolist()),
        **asdict(change or Change()),
        significant=None if change is None else change.certain(),
        words=None if change is None else change.in_words(comparisons),
    )
