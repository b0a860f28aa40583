"""Compares variants of a scenario with the scenario itself: means, differences, and whether these are significant.

Differences are paired over common random numbers. Among many comparisons some look different by chance alone, so a
change is called *significant* only if the chance of even one wrong such claim in the whole table is at most 5 % (Holm,
Scandinavian Journal of Statistics 6, 1979). An interval, in contrast, has 95 % by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from scenarios.executing import Audience
from scenarios.files.documents import CLOSED, Number
from scenarios.measures import is_part, of
from scenarios.questions.bench import Bench, Samples, Wanted, of_difference, of_mean, p_value, replicate
from scenarios.questions.kept import RunOutcome
from scenarios.questions.resources import limits, resources, without_spare
from scenarios.questions.variants import Variant

LEVEL = 0.05
LEAST_SHARE = 0.0005
"""Least share of a significant change: a smaller one is 0.0 % in all tables, however well it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Change of a metric from the first case: the paired difference and half its 95 % interval, in the metric's unit.

    share, share95: both as shares of the first case's mean. p_value: of this comparison alone (Student's t), if there
    were no difference; p_adjusted: adjusted for all comparisons (Holm). All are None where a run had no results.
    """

    difference: Number = None
    difference95: Number = None
    share: Number = None
    share95: Number = None
    p_value: Number = None
    p_adjusted: Number = None

    def certain(self) -> bool:
        """Whether the change is significant, adjusted for all comparisons, and not too small to be shown."""
        return self.p_adjusted is not None and self.p_adjusted < LEVEL and not self._tiny()

    def _tiny(self) -> bool:
        return self.share is not None and abs(self.share) < LEAST_SHARE

    def in_words(self, comparisons: int) -> str:
        """Change as a part of a sentence."""
        if self.difference is None or self.difference95 is None or self.p_value is None:
            return "not comparable: runs without results"
        if self.difference == 0.0 and self.p_value == 1.0:
            return "the same"
        if self.certain():
            return f"significantly {'higher' if self.difference > 0 else 'lower'}"
        if self._tiny():
            return "less than 0.1 % apart"
        if self.p_value < LEVEL:
            return f"not significant among {comparisons} comparisons"
        return "not significant"


def changed(values: np.ndarray, first: np.ndarray, metric: str) -> Change:
    """Change from `first` to `values`, both [R] over the same runs; not adjusted yet."""
    if not (np.all(np.isfinite(values)) and np.all(np.isfinite(first))):
        return Change()
    apart, scale = of_difference(values, first, metric), abs(float(np.mean(first)))
    half = apart.half_width95
    return Change(
        difference=apart.mean,
        difference95=half,
        share=apart.mean / scale if scale else None,
        share95=half / scale if scale and half is not None else None,
        p_value=None if half is None else p_value(values - first, apart.grain),
    )


def adjusted(changes: Sequence[Change]) -> list[Change]:
    """Changes with `p_adjusted` filled in, for all of them together (Holm)."""
    p_values = [change.p_value for change in changes if change.p_value is not None]
    remaining = iter(holm(p_values))
    return [change if change.p_value is None else replace(change, p_adjusted=next(remaining)) for change in changes]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in order. Rejecting all below a level is wrong, even once, with at most that probability."""
    order = np.argsort(p_values, kind="stable")
    steps = [min(1.0, (len(p_values) - rank) * p_values[index]) for rank, index in enumerate(order)]
    adjusted_p = np.empty(len(p_values))
    adjusted_p[order] = np.maximum.accumulate(steps) if steps else []
    return [float(value) for value in adjusted_p]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedMetric(Change):
    """Metric of a variant, in its own unit: the mean, half its 95 % interval, and the values of the runs; and its
    change from the first variant, which itself has no change. words: the change as a part of a sentence."""

    mean: Number
    half_width95: Number
    values: tuple[Number, ...]
    significant: bool | None = None
    words: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVariant:
    """Results of a variant. settings: changed values of the scenario. backpressured_runs: those in which the job falls
    behind, as sources are held back or queues grow. full: operators and hosts at their limit. placement: number of
    subtasks by operator and place, before events and policies. binds: resources that bind, in words; fullest: the
    fullest one if none does. parts: by operator and way, such as `match.queue_s`, the mean seconds of the end-to-end
    latency that results spend there. course: columns by period, of policies only."""

    variant: str
    settings: Mapping[str, Any]
    policy: str | None
    backpressured_runs: int
    success_runs: int
    metrics: Mapping[str, ComparedMetric]
    full: tuple[str, ...]
    placement: Mapping[str, Mapping[str, int]]
    binds: tuple[str, ...]
    fullest: str
    parts: Mapping[str, Number]
    warnings: tuple[str, ...]
    course: Mapping[str, tuple[Number, ...]] | None = None


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsCompared:
    """The answer of `twin whatif` and `twin compare`. needed: number of runs of each variant that the precision takes;
    null if it is reached."""

    scenario: str
    compared_with: str
    metrics: tuple[str, ...]
    seed: int
    replications: int
    precision: Number
    needed: int | None
    comparisons: int
    variants: tuple[ComparedVariant, ...]


def compared(
    bench: Bench, variants: Sequence[Variant], metrics: Sequence[str], wanted: Wanted, seed: int, audience: Audience
) -> VariantsCompared:
    """Runs all variants, and compares them with the first one. metrics: full names. Raises BadInput as `replicate`."""
    for variant in variants:
        bench.label(variant.scenario, variant.label)
    samples = replicate(bench, [variant.scenario for variant in variants], metrics, wanted, seed, audience)
    return answer(variants, metrics, wanted, seed, samples)


def answer(
    variants: Sequence[Variant], metrics: Sequence[str], wanted: Wanted, seed: int, samples: Samples
) -> VariantsCompared:
    """Answer from the runs of all variants."""
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
    scenario, outcomes = variant.scenario, samples.outcomes[case]
    full = tuple(without_spare(scenario, outcomes))
    binds, fullest = limits(resources(scenario, outcomes), full, scenario)
    return ComparedVariant(
        variant=variant.label,
        settings=dict(variant.settings),
        policy=None if scenario.policy is None else scenario.policy.name,
        backpressured_runs=int(
            np.sum((samples.values(case, "backpressured") > 0) | (samples.values(case, "queue_growth_per_s") > 0))
        ),
        success_runs=int(np.sum(samples.values(case, "success"))),
        metrics={
            metric: _metric(metric, samples.values(case, metric), changes.get((case, metric)), len(changes))
            for metric in metrics
        },
        full=full,
        placement={name: Counter(places) for name, places in scenario.plan.placement.items()},
        binds=binds,
        fullest=fullest,
        parts=_parts(outcomes),
        warnings=outcomes[0].warnings,
    )


def _parts(outcomes: Sequence[RunOutcome]) -> dict[str, float]:
    """Mean parts of the latency over the runs of a variant, by operator and way."""
    names = dict.fromkeys(name for outcome in outcomes for name in outcome.measures if is_part(name))
    found = {name: sum(of(outcome.measures, name) for outcome in outcomes) / len(outcomes) for name in names}
    return {name.removeprefix("operators.").replace(".part.", "."): mean_s for name, mean_s in found.items()}


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
