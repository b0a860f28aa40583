"""Shows the answer of `twin dry-run`: the effect of a change on a running job, and limits of the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from scenarios.questions.bench import MeanOfRuns
from scenarios.questions.dry_run import MEANINGS, DryRunAnswer
from streamtwin.answers import Presentation
from streamtwin.tables import rounding
from streamtwin.tables.tables import Wide, number, of_rows, seconds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = {"waiting": "waiting records", "latency": "latency, 99 % (s)"}
SERIES = {"without": "as it is", "with": "with the change"}
UNKNOWN = MeanOfRuns(None, None, ())


def told(answer: DryRunAnswer) -> Presentation:
    """Presentation of the answer, with a row for each run."""
    columns = {name: known.values for name, known in answer.measures.items()}
    return Presentation(
        heading=f"{answer.scenario}: a change tried",
        sentences=[_effect(answer), *_parts(answer), *_limits(answer)],
        notes=[f"warning: {warning}" for warning in answer.warnings],
        tables=[_table(answer)],
        rows=[
            {"run": run, **{name: values[run] for name, values in columns.items()}}
            for run in range(answer.replications)
        ],
        figure=partial(_figure, answer),
    )


def _effect(answer: DryRunAnswer) -> str:
    means = {name: _value(name, known.mean, None) for name, known in answer.measures.items()}
    twice = answer.measures["twice"].mean or 0.0
    again = f"{number(-twice)} fewer come twice" if twice < 0.0 else f"{means['twice']} come twice"
    caught_up, known = f"has caught up after {means['catch_up_s']}", answer.measures["catch_up_s"].values
    if None in known:
        caught_up = f"does not {'always ' if set(known) - {None} else ''}catch up within the run"
    return (
        f"{answer.change}: the longest pause is {means['pause_s']}; the backlog grows by up to {means['lag']} records, "
        f"and the job {caught_up}; {means['late']} results come later than any without the change, and {again}"
    )


def _parts(answer: DryRunAnswer) -> Iterator[str]:
    """What the pause after a failure is made of, by the engine's profile."""
    if (parts := answer.recovery) is None:
        return
    told = (("noticed after", parts.noticed_s), ("restart delay", parts.delay_s), ("deployed in", parts.redeploy_s))
    words = ", ".join(f"{what} {seconds(each_s)}" for what, each_s in told if each_s)
    yield (
        f"the job is deployed again {seconds(parts.sum_s)} after the failure ({words or 'at once'}), and then reads "
        "its state; --recover-after gives another time, engine.recovery and engine.rescaling its parts"
    )


def _limits(answer: DryRunAnswer) -> Iterator[str]:
    runs, behind = answer.replications, answer.measures["catch_up_s"].values.count(None)
    if answer.keeps_up_without < runs:
        yield (
            f"careful: in {runs - answer.keeps_up_without} of {runs} runs the job does not keep up even without the "
            "change, so its backlog grows anyway"
        )
    if behind:
        remedy = "lengthen the run (--set run.horizon_s=SECONDS); one that never does needs less load or more subtasks"
        yield f"in {behind} of {runs} runs the job has not caught up by the end of the run; {remedy}"
    yield f"the backlog is looked at every {seconds(answer.period_s)}"


def _table(answer: DryRunAnswer) -> Wide:
    """Table with a line for each quantity: its mean, and the lowest and highest run or both ways of failover."""
    title = f"{answer.scenario}: {answer.change}, simulated, {answer.replications} pairs of runs"
    if answer.full is None or answer.saved is None:
        columns = {"what": "what", "mean": "mean ± 95 %", "low": "lowest run", "high": "highest run"}
    else:
        columns = {"what": "what", "mean": "the region", "full": "the whole job", "saved": "more by ± 95 %"}
    told = {name: meaning for name, meaning in MEANINGS.items() if name in answer.measures}
    return of_rows(title, columns, ({"what": meaning, **_row(name, answer)} for name, meaning in told.items()))


def _row(name: str, answer: DryRunAnswer) -> dict[str, str]:
    values = [math.inf if value is None else value for value in answer.measures[name].values]
    parts = {"mean": answer.measures, "full": answer.full or {}, "saved": answer.saved or {}}
    means = {part: known.get(name, UNKNOWN) for part, known in parts.items()}
    return {
        **{part: _value(name, known.mean, known.half_width95, part == "saved") for part, known in means.items()},
        "low": _value(name, min(values), None),
        "high": _value(name, max(values), None),
    }


def _value(name: str, mean: float | None, half: float | None, difference: bool = False) -> str:
    if mean is None or not math.isfinite(mean):
        return "longer than the run" if name in ("catch_up_s", "pause_s") else "-"
    if name.endswith("_s"):
        return rounding.metric("latency_s", mean, half, difference) if mean else "0 s"
    return rounding.metric(name, mean, half, difference) if half else number(mean)


def _figure(answer: DryRunAnswer) -> Figure:
    """Figure over time. Periods without results are left out, so that the line joins the periods that have results."""
    from figures.answers import over_time

    table: dict[str, list[Any]] = {key: [] for key in ("panel", "series", "x", "mean", "half_width")}
    for name, panel in PANELS.items():
        for which, series in SERIES.items():
            course = answer.course[which]
            for at_s, mean in zip(course["at_s"], course[name], strict=True):
                if mean is not None:
                    for key, value in zip(table, (panel, series, at_s, mean, math.nan), strict=True):
                        table[key].append(value)
    return over_time(table)
