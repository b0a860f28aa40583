"""Which inputs matter, as a table; documents are those of `scenarios.questions.sensitivity`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamtwin.tables.comparison_tables import value
from streamtwin.tables.tables import of_rows
from streamtwin.tables.wide import Wide

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


def of_inputs(document: Mapping[str, Any]) -> Wide:
    """The most important first; inputs that were screened out have no share of the variance."""
    title = f"{document['scenario']}: {document['metric']}, simulated; {_given(document)} as given"
    return of_rows(title, COLUMNS, (_row(each, document["metric"]) for each in document["inputs"]))


def _given(document: Mapping[str, Any]) -> str:
    return value(document["metric"], document["given"], None)


def _row(each: Mapping[str, Any], metric: str) -> dict[str, str]:
    return {
        "input": ".".join(each["input"].split(".")[-2:]),
        "interval": f"{each['low']:,.6g} .. {each['high']:,.6g}",
        "at_low": value(metric, each["at_low"], None),
        "at_high": value(metric, each["at_high"], None),
        "effect": value(metric, each["mu_star"], each["mu_star95"]),
        "sigma": value(metric, each["sigma"], None),
        "first": _share(each["first"], each["first95"]),
        "total": _share(each["total"], each["total95"]),
    }


def _share(share: float | None, half: float | None) -> str:
    if share is None or half is None or share != share:
        return "-"
    return f"{100 * share:.0f} ± {100 * half:.0f} %"


def csv_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A line an input."""
    return [dict(row) for row in document["inputs"]]
