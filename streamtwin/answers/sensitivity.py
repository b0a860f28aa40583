"""Shows the answer of `twin sensitivity`: the inputs that matter, in order, and their effects."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from scenarios.questions.sensitivity import ENOUGH, InputEffect, SensitivityAnswer
from scenarios.questions.variants import short
from streamtwin.answers import Presentation
from streamtwin.tables.rounding import metric as value
from streamtwin.tables.tables import Wide, of_rows
from twin.quantities import written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = {
    "input": "input",
    "interval": "from .. to",
    "at_low": "at low",
    "at_high": "at high",
    "effect": "effect (mu*) ± 95 %",
    "sigma": "sigma",
    "first": "explains alone",
    "total": "with others",
}


def told(answer: SensitivityAnswer) -> Presentation:
    """Presentation of the answer, with a row for each input."""
    first = answer.inputs[0]
    which = f"{first.input} matters most" if first.matters else "no input matters"
    return Presentation(
        heading=f"{answer.scenario}: sensitivity",
        sentences=[f"{which} for {answer.metric}.", *_careful(answer)],
        notes=[f"warning: {warning}" for warning in answer.warnings],
        tables=[_inputs(answer)],
        rows=[asdict(effect) for effect in answer.inputs],
        figure=partial(_figure, answer),
    )


def _careful(answer: SensitivityAnswer) -> list[str]:
    few = f"careful: of intervals from {answer.samples} samples, fewer than 95 % hold the share that is explained"
    return [f"{few}; give --samples {ENOUGH} or more"] if answer.samples < ENOUGH else []


def _inputs(answer: SensitivityAnswer) -> Wide:
    """Table with a line for each input. Inputs that were screened out show no share of the variance."""
    given = value(answer.metric, answer.given, None)
    title = f"{answer.scenario}: {answer.metric}, simulated; {given} as given"
    return of_rows(title, COLUMNS, (_row(effect, answer.metric) for effect in answer.inputs))


def _row(effect: InputEffect, metric: str) -> dict[str, str]:
    return {
        "input": short(effect.input),
        "interval": f"{written(effect.low, 6)} .. {written(effect.high, 6)}",
        "at_low": value(metric, effect.at_low, None),
        "at_high": value(metric, effect.at_high, None),
        "effect": value(metric, effect.mu_star, effect.mu_star95),
        "sigma": value(metric, effect.sigma, None),
        "first": _share(effect.first, effect.first95),
        "total": _share(effect.total, effect.total95),
    }


def _share(share: float | None, half: float | None) -> str:
    if share is None or half is None or share != share:
        return "-"
    return f"{100 * share:.0f} ± {100 * half:.0f} %"


def _figure(answer: SensitivityAnswer) -> Figure:
    from figures.answers import tornado

    inputs = answer.inputs
    table: dict[str, list[Any]] = {"input": [short(effect.input) for effect in inputs]}
    table |= {
        "low": [written(effect.low, 4) for effect in inputs],
        "high": [written(effect.high, 4) for effect in inputs],
    }
    table |= {"at_low": [effect.at_low for effect in inputs], "at_high": [effect.at_high for effect in inputs]}
    return tornado(table, answer.given, answer.metric)
