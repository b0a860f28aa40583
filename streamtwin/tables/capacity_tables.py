"""An answer about capacity in words and tables; documents are those of `scenarios.questions.capacity`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamtwin.tables import rounding
from streamtwin.tables.tables import number, of_rows
from streamtwin.tables.wide import Wide

MOST_RESOURCES = 12
MOST_BY_CHANCE = 1
"""Of three longer runs."""


def sentences(answer: Mapping[str, Any]) -> list[str]:
    """The answer, how sure it is, and why it ends there; a line each."""
    return [*_answer(answer), *_shape(answer), *_why(answer)]


def _answer(answer: Mapping[str, Any]) -> Iterator[str]:
    of, runs, how = answer["of"], answer["replications"], answer["while"]
    if answer["status"] != "found":
        yield _nothing_found(answer)
        return
    if "share_that_holds95" in answer:
        yield f"{of}: {answer['value']:,}, the {_end(answer)} at which it holds in all {runs} runs: {how}"
        counts = {each: answer["borders"].count(each) for each in sorted(set(answer["borders"]))}
        told = ", ".join(f"{value:,} in {count}" for value, count in counts.items())
        share = f"{answer['share_that_holds95']:.0%}"
        yield f"by run: {told}; so, with 95 % confidence, it holds in at least {share} of all runs"
        return
    low, high = answer["interval95"]
    value = rounding.number(answer["value"], (high - low) / 2) or number(answer["value"])
    side = "up to" if answer["find"] == "max" else "from"
    yield f"{of}: {value} (95 % interval of the mean over {runs} runs), the {_end(answer)} while {how}"
    yield f"in every one of the {runs} runs it holds {side} {number(answer['holds_in_all'])}"


def _end(answer: Mapping[str, Any]) -> str:
    return "largest" if answer["find"] == "max" else "smallest"


def _nothing_found(answer: Mapping[str, Any]) -> str:
    low, high = (number(each) for each in (answer["looked_at"][0], answer["looked_at"][-1]))
    where = f"for {answer['of']} from {low} to {high}"
    if answer["status"] == "always":
        return (
            f"the condition holds at every value tried, {where}: there is no limit to find; make the condition "
            "stricter, or look elsewhere with --between"
        )
    if answer["status"] == "never":
        return f"the condition holds at no value tried, {where}; relax it, or look elsewhere with --between"
    return f"in some runs there is no limit {where}; look further with --between"


def _shape(answer: Mapping[str, Any]) -> Iterator[str]:
    if not answer["monotone"]:
        fails, holds = (number(answer["contradiction"][key]) for key in ("fails_at", "holds_at"))
        yield f"careful: there is more than one limit: the condition fails at {fails} and holds again at {holds}"
    elif answer["status"] == "found":
        yield f"consistent at all {len(answer['values'])} values tried: there is one limit"
    if (answer.get("longer_runs_fail") or 0) > MOST_BY_CHANCE:
        yield (
            "careful: the runs are too short: just inside the limit the condition fails in runs four times as long, "
            "because a backlog first fills the channels; lengthen them (--set run.horizon_s=SECONDS)"
        )


def _why(answer: Mapping[str, Any]) -> Iterator[str]:
    if answer["fails_first"]:
        failing = ", ".join(f"{text} (in {runs} runs)" for text, runs in answer["fails_first"].items())
        yield f"{'beyond it' if answer['status'] == 'found' else 'what'} fails: {failing}"
    if answer["not_valid"]:
        yield f"beyond it the scenario is not valid: {answer['not_valid']}"
    if answer["binds"]:
        yield f"what binds: {answer['binds']}"
    elif answer["resources"]:
        top = answer["resources"][0]
        yield (
            f"nothing is full (the busiest is {top['kind']} {top['name']}, {top['used']:.0%}): the limit comes from "
            "the time that windows, networks and queues take, not from capacity"
        )


def of_resources(answer: Mapping[str, Any]) -> Wide:
    """How full everything is just before the limit and just beyond; at most a dozen, the fullest first."""
    columns = {"what": "what", "used": "used", "head_room": "head room", "beyond": "used beyond"}
    rows = [_row(each) for each in answer["resources"][:MOST_RESOURCES]]
    return of_rows(f"{answer['scenario']}: resources at the limit, simulated", columns, rows)


def _row(resource: Mapping[str, Any]) -> dict[str, Any]:
    room, beyond = resource["head_room"], resource["used_beyond"]
    return {
        "what": f"{resource['kind']} {resource['name']}",
        "used": f"{resource['used']:.1%}",
        "head_room": "-" if room is None else f"x {room:,.2f}" if room < 100 else "plenty",
        "beyond": "-" if beyond is None else f"{beyond:.1%}",
    }


def csv_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A line a repetition and value that was tried."""
    return [
        {"repetition": index, "value": float(value), "holds": holds}
        for index, seen in enumerate(answer["holds"])
        for value, holds in seen.items()
    ]
