"""Shows the answer of `twin capacity`: the limit with its interval, its cause, and the utilisation of resources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from scenarios.questions.capacity import BY_CHANCE, LONGER, CapacityAnswer, ResourceAtLimit
from scenarios.questions.variants import short
from streamtwin.answers import Presentation
from streamtwin.tables import rounding
from streamtwin.tables.tables import Wide, cell, number, of_rows
from twin.quantities import written

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_RESOURCES = 12
_LAST = {"max": 0, "min": -1}
"""Position, among the values tried, of the one at which the condition most likely holds."""


def told(answer: CapacityAnswer) -> Presentation:
    """Presentation of the answer, with a row for each repetition and each value that was tried in it."""
    return Presentation(
        heading=f"{answer.scenario}: capacity",
        sentences=[*_limit(answer), *_shape(answer), *_why(answer)],
        notes=[f"warning: {warning}" for warning in answer.warnings],
        tables=[_resources(answer)] if answer.resources else [],
        rows=_rows(answer),
        figure=partial(_figure, answer) if answer.values else None,
    )


def predicted(answer: CapacityAnswer) -> str:
    """Prediction of the rate model in a sentence, with what it ignores first."""
    limit = answer.predicted
    binds = f"; what binds: {limit.binds}" if limit.binds else ""
    binds += f"; beyond it the scenario is not valid: {limit.not_valid}" if limit.not_valid else ""
    by = f"predicted by rates{_ignored(answer)}"
    if limit.status == "unknown":
        ignores = "; ".join(limit.ignores)
        return f"not predicted: {answer.while_} is of what the rate model ignores ({ignores}), so only runs can tell"
    if limit.value is None and limit.in_long_runs is None:
        always = limit.status == "always"
        if always and answer.find == "min":
            return f"{by}: {_of(answer)} {_value(limit.tried[0])} is enough, in runs of a day too: {answer.while_}"
        where = f"holds at {'every' if always else 'no'} value tried, {_for(answer, *limit.tried)}"
        short_runs = answer.beside is not None and answer.beside.agrees and answer.status == "found"
        too = ", in runs of a day too" if always else ", in runs of a day" * short_runs
        too += f": {limit.nearest}" if limit.nearest else ""
        return f"{by}: {answer.while_} {where}{too}{binds}"
    value = f"{_of(answer)} {_predicted_value(answer)}"
    return f"{by}: {value}, the {_end(answer)} while {answer.while_}{binds}"


def _of(answer: CapacityAnswer) -> str:
    """Name of the varied knob, with the operators that follow it."""
    return f"{answer.of} (and of {', '.join(answer.as_many)} alike)" if answer.as_many else answer.of


def _for(answer: CapacityAnswer, low: float, high: float) -> str:
    """Words for the range of values that were tried."""
    return (
        f"for {_of(answer)} from {number(low)} to {number(high)}" if low != high else f"for {_of(answer)} {number(low)}"
    )


def _ignored(answer: CapacityAnswer) -> str:
    """Words on what the rate model ignores; empty where the sentence on a contradiction says it."""
    ignores = answer.predicted.ignores if answer.beside is None or answer.beside.agrees else ()
    return f" (which ignore {'; '.join(ignores)})" if ignores else ""


def _predicted_value(answer: CapacityAnswer) -> str:
    """Predicted limit; first the one of long runs, if short ones end while channels fill or state grows."""
    value, far = answer.predicted.value, answer.predicted.in_long_runs
    if not _differs(answer):
        return _value(answer.predicted.lasting or 0.0)
    short_runs = "all values" if value is None else _value(value)
    while_ = "while channels fill or state grows"
    return f"{_value(far or 0.0)} in runs of a day ({short_runs} in runs of {answer.run_s:g} s, {while_})"


def _differs(answer: CapacityAnswer) -> bool:
    """Whether another limit is predicted for runs of a day than for runs as long as these."""
    value, far = answer.predicted.value, answer.predicted.in_long_runs
    return far is not None and (value is None or abs(far - value) > answer.precision * abs(value))


def _value(value: float) -> str:
    return written(value, 4)


def _limit(answer: CapacityAnswer) -> Iterator[str]:
    of, runs, end = _of(answer), answer.replications, _end(answer)
    length, not_longer = f" of {answer.run_s:g} s", ", not in longer ones" * _too_short(answer)
    only = f" in runs{length}{not_longer}" * _too_short(answer)
    yield from _lasting(answer)
    if answer.status == "predicted":
        yield predicted(answer)
    elif answer.status == "always" and answer.value is not None:
        enough = f"is enough in all {runs} runs{length}{not_longer}, and less is not possible"
        yield f"{of}: {answer.value} {enough}: {answer.while_}"
    elif answer.value is None or answer.interval95 is None or answer.borders is None:
        yield _nothing_found(answer)
    elif answer.share_that_holds95 is not None:
        yield f"{of}: {answer.value:,}{only}, the {end} at which it holds in all {runs} runs: {answer.while_}"
        counts = {value: answer.borders.count(value) for value in sorted(set(answer.borders))}
        by_run = ", ".join(f"{value:,} in {count}" for value, count in counts.items())
        share = f"{answer.share_that_holds95:.0%}"
        yield f"by run: {by_run}; so, with 95 % confidence, it holds in at least {share} of all runs"
    else:
        low, high = answer.interval95
        value = rounding.number(answer.value, (high - low) / 2) or number(answer.value)
        yield f"{of}: {value}{only} (95 % interval of the mean over {runs} runs), the {end} while {answer.while_}"
        side = "up to" if answer.find == "max" else "from"
        yield f"in every one of the {runs} runs{length} it holds {side} {cell(answer.holds_in_all)}"
    yield from _beside(answer)


def _lasting(answer: CapacityAnswer) -> Iterator[str]:
    """Limit of long runs, as predicted, with its reason. It comes first where the runs are too short to show it."""
    limit = answer.predicted
    binds = f"; what binds: {limit.binds}" * bool(limit.binds)
    unchecked = answer.longer_runs is None and answer.status in ("found", "always") and not limit.ignores
    if not (_too_short(answer) or unchecked):
        return
    if answer.lasts_in_runs is not None:
        runs = f"runs of {LONGER * answer.run_s:g} s"
        yield f"{_of(answer)}: {answer.lasts_in_runs} lasts in {runs}; shorter ones show another limit"
    elif limit.in_long_runs is not None and _differs(answer) and _trusted_in_long_runs(answer):
        lasts = f"{_value(limit.in_long_runs)} lasts, as predicted by rates for runs of a day{binds}"
        yield f"{_of(answer)}: {lasts}; shorter runs show another limit"
    elif limit.status == "never" and not limit.ignores:
        yield f"none lasts: in runs of a day, {answer.while_} is predicted to hold at no value{binds}"


def _trusted_in_long_runs(answer: CapacityAnswer) -> bool:
    """Whether the limit that is predicted for runs of a day is told as that of the job: it is not refuted, and the
    prediction agrees with the runs, or longer runs hold there and fail at the limit of the shorter ones."""
    agrees = answer.beside is None or answer.beside.agrees
    return (agrees or answer.predicted_fails is not None) and not _refuted(answer)


def _refuted(answer: CapacityAnswer) -> bool:
    """Whether longer runs fail where the condition is predicted to hold in runs of a day."""
    return (answer.predicted_fails or 0) > BY_CHANCE


def _beside(answer: CapacityAnswer) -> Iterator[str]:
    """Prediction beside the runs: with its error, or as a contradiction."""
    beside, limit = answer.beside, answer.predicted
    if beside is None or _else_predicted(answer) or (limit.value is None and limit.in_long_runs is None):
        if answer.status not in ("predicted", limit.status) or _else_predicted(answer):
            yield predicted(answer)
        yield from filter(None, [beside.careful if beside is not None else ""])
    elif beside.predicted is not None:
        as_long = _value(limit.value) if limit.value is not None else _predicted_value(answer)
        day = f"; in runs of a day {_value(limit.in_long_runs)}" if _differs(answer) and limit.in_long_runs else ""
        first, *others = beside.told(as_long)
        shorter = f" (all of this is of runs of {answer.run_s:g} s)" * any(_lasting(answer))
        yield from (f"{first}{day}", *(f"{each}{shorter}" for each in others))


def _end(answer: CapacityAnswer) -> str:
    return "largest" if answer.find == "max" else "smallest"


def _nothing_found(answer: CapacityAnswer) -> str:
    looked_at = answer.looked_at or answer.values
    where = _for(answer, looked_at[0], looked_at[-1])
    if answer.status == "always" and (_too_short(answer) or _else_predicted(answer)):
        only = ", not in longer ones" * _too_short(answer)
        return f"the condition holds at every value tried in runs of {answer.run_s:g} s{only}, {where}"
    if answer.status == "always":
        return (
            f"the condition holds at every value tried, {where}: there is no limit to find; make the condition "
            "stricter, or look elsewhere with --between"
        )
    if answer.status == "never":
        remedy = "" if answer.binds else "; relax the condition, or look elsewhere with --between"
        remedy = f"; by rates, {answer.predicted.nearest}{remedy}" if answer.predicted.nearest else remedy
        return f"none found: {answer.while_} holds at no value tried, {where}{remedy}"
    if answer.predicted.status == "never":  # channels take longer to fill than these runs last
        return (
            f"none for sure: {answer.while_} holds {where} in some runs, and in others at no value tried. In long runs "
            f"it is predicted to hold at none; what binds: {answer.predicted.binds}. Run longer with "
            "--set run.horizon_s=SECONDS"
        )
    return f"in some runs there is no limit {where}; look further with --between"


def _shape(answer: CapacityAnswer) -> Iterator[str]:
    if answer.contradiction is not None:
        fails, holds = number(answer.contradiction.fails_at), number(answer.contradiction.holds_at)
        yield f"careful: there is more than one limit: the condition fails at {fails} and holds again at {holds}"
    elif answer.status == "found":
        length = f" for runs of {answer.run_s:g} s" * _differs(answer)
        other = "" if answer.one_limit_by == "runs" else f", and no other is predicted{length}"
        yield f"runs at {len(answer.values)} values show one limit{other}"
    if _too_short(answer):
        last = number((answer.looked_at or answer.values)[-1 if answer.find == "max" else 0])
        where = "just inside the limit" if answer.status == "found" else f"at {last}"
        if _refuted(answer):
            where += f", and at {_value(answer.predicted.in_long_runs or 0.0)}, which is predicted to last,"
        fails = f"{where} the condition fails, or queues grow to the end, in runs four times as long"
        yield f"careful: the runs are too short: {fails}{_longer(answer)}"
    elif _else_predicted(answer) and (answer.beside is None or answer.beside.agrees):
        yield f"careful: the runs may be too short{_longer(answer)}"


def _longer(answer: CapacityAnswer) -> str:
    """Words on why longer runs may give another answer, and the remedy."""
    known = (
        _differs(answer)
        and _trusted_in_long_runs(answer)
        and not any(name in answer.while_ for name in answer.predicted.ignores)
    )
    trust = "take the limit predicted for runs of a day, or " if known else ""
    return f"; channels may still fill, or state grow: {trust}lengthen them (--set run.horizon_s=SECONDS)"


def _too_short(answer: CapacityAnswer) -> bool:
    """Whether the condition fails in longer runs where it holds in these, and not by chance."""
    return (answer.longer_runs_fail or 0) > BY_CHANCE


def _else_predicted(answer: CapacityAnswer) -> bool:
    """Whether the condition held in all runs, but is not predicted to hold at all values in runs of a day."""
    if answer.predicted.status == "unknown":
        return False
    return answer.status == "always" and (answer.predicted.status != "always" or _differs(answer))


def _why(answer: CapacityAnswer) -> Iterator[str]:
    """Reason for the limit of the runs, which says so where the answer begins with another limit."""
    shorter = f" in runs of {answer.run_s:g} s" * any(_lasting(answer))
    if answer.fails_first:
        failing = ", ".join(f"{text} (in {runs} runs)" for text, runs in answer.fails_first.items())
        yield f"{'beyond it' if answer.status == 'found' else 'what'} fails{shorter}: {failing}"
    if answer.not_valid:
        yield f"beyond it the scenario is not valid: {answer.not_valid}"
    if answer.binds:
        at = (
            "" if answer.status == "found" else f" at {number((answer.looked_at or answer.values)[_LAST[answer.find]])}"
        )
        yield f"what binds{at}{shorter}: {answer.binds}"
    elif answer.resources and answer.status == "found":
        top = answer.resources[0]
        busiest = f"the busiest is {top.kind} {top.name}, {top.used:.0%}"
        if any("backpressured" in text for text in answer.fails_first):
            yield f"nothing is full all the time ({busiest} in the mean), but for a part of the run, as after an event"
        else:
            yield (
                f"nothing is full ({busiest}): the limit comes from the time that windows, networks and queues take, "
                "not from capacity"
            )


def _resources(answer: CapacityAnswer) -> Wide:
    """Table of utilisations just before the limit and just beyond it: at most a dozen resources, the fullest first."""
    columns = {"what": "what", "used": "used", "head_room": "head room", "beyond": "used beyond"}
    rows = [_row(resource) for resource in answer.resources[:MOST_RESOURCES]]
    return of_rows(f"{answer.scenario}: resources at the limit, simulated", columns, rows)


def _row(resource: ResourceAtLimit) -> dict[str, Any]:
    room, beyond = resource.head_room, resource.used_beyond
    return {
        "what": f"{resource.kind} {resource.name}",
        "used": f"{resource.used:.1%}",
        "head_room": "-" if room is None else f"x {room:,.2f}" if room < 100 else "plenty",
        "beyond": "-" if beyond is None else f"{beyond:.1%}",
    }


def _rows(answer: CapacityAnswer) -> list[dict[str, Any]]:
    return [
        {"repetition": index, "value": float(value), "holds": holds}
        for index, tried in enumerate(answer.holds)
        for value, holds in tried.items()
    ]


def _figure(answer: CapacityAnswer) -> Figure:
    from figures.answers import border

    table = {key: [float(row[key]) for row in _rows(answer)] for key in ("value", "holds")}
    return border(table, short(answer.of), answer.interval95)
