"""Variants of a scenario beside the scenario itself: means, differences, and whether chance explains them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scenarios.executing.progress import Audience
from scenarios.questions.bench import Bench
from scenarios.questions.comparison import Change, adjusted, changed
from scenarios.questions.fullness import full
from scenarios.questions.intervals import of_mean
from scenarios.questions.replications import Samples, Wanted, replicate
from scenarios.questions.variants import Variant
from twin.errors import BadInput


def check(bench: Bench, variants: Sequence[Variant]) -> None:
    """Raises BadInput, with the variant's label, if one would not finish within hours."""
    for each in variants:
        try:
            bench.check(each.scenario)
        except BadInput as error:
            raise BadInput(f"{each.label}: {error}") from None


def compared(
    bench: Bench, variants: Sequence[Variant], metrics: Sequence[str], wanted: Wanted, seed: int, audience: Audience
) -> dict[str, Any]:
    """The answer, for JSON. The first variant is what the others are compared with; metrics: names in full.

    Raises BadInput as `replicate` does.
    """
    samples = replicate(bench, [each.scenario for each in variants], metrics, wanted, seed, audience)
    return answer(variants, metrics, wanted, seed, samples)


def answer(
    variants: Sequence[Variant], metrics: Sequence[str], wanted: Wanted, seed: int, samples: Samples
) -> dict[str, Any]:
    """What the runs of all variants say, for JSON."""
    changes = _changes(samples, metrics)
    return {
        "scenario": variants[0].scenario.name,
        "compared_with": variants[0].label,
        "metrics": list(metrics),
        "seed": seed,
        "replications": samples.runs,
        "precision": wanted.precision,
        "needed": samples.needed or None,
        "comparisons": (len(variants) - 1) * len(metrics),
        "variants": [_row(each, number, samples, metrics, changes) for number, each in enumerate(variants)],
    }


def _changes(samples: Samples, metrics: Sequence[str]) -> dict[tuple[int, str], Change]:
    """By variant (but the first) and metric."""
    cells = [(case, metric) for case in range(1, len(samples.outcomes)) for metric in metrics]
    found = [changed(samples.values(case, metric), samples.values(0, metric), metric) for case, metric in cells]
    return dict(zip(cells, adjusted(found), strict=True))


def _row(
    variant: Variant, case: int, samples: Samples, metrics: Sequence[str], changes: dict[tuple[int, str], Change]
) -> dict[str, Any]:
    return {
        "variant": variant.label,
        "settings": dict(variant.settings),
        "policy": variant.scenario.policy and variant.scenario.policy.name,
        "backpressured_runs": int(np.sum(samples.values(case, "backpressured"))),
        "success_runs": int(np.sum(samples.values(case, "success"))),
        "metrics": {
            metric: _cell(metric, samples.values(case, metric), changes.get((case, metric)), len(changes))
            for metric in metrics
        },
        "full": full(variant.scenario, samples.outcomes[case]),
        "warnings": list(samples.outcomes[case][0].warnings),
    }


def _cell(metric: str, values: np.ndarray, change: Change | None, comparisons: int) -> dict[str, Any]:
    known = of_mean(values, metric)
    cell: dict[str, Any] = {"mean": known.mean, "half_width95": known.half_width95, "values": values.tolist()}
    if change is None:
        return cell
    return cell | {
        "difference": change.difference,
        "difference95": change.half_width95,
        "share": change.share,
        "share95": change.share95,
        "p_value": change.p_value,
        "p_adjusted": change.adjusted,
        "significant": change.significant,
        "words": change.words(comparisons),
    }
