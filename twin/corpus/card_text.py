"""Data card of a corpus as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from twin.corpus.card import FEW_RESULTS, QUANTILES
from twin.metrics import REGRESSION_METRICS

SPREAD = ("min", *QUANTILES, "max")


def card_text(card: Mapping[str, Any]) -> str:
    """Markdown text of a card that `twin.corpus.card.card` made."""
    recipe, runs = card["recipe"], card["runs"]
    lines = [
        "# Data card: a simulated corpus",
        "",
        "Every number is of simulated runs; nothing here was measured on a real cluster.",
        "",
        "```",
        str(recipe["command"]),
        "```",
        "",
        *_table(("recipe", ""), [(key, value) for key, value in recipe.items() if key != "command"]),
        "",
        "{total:,} runs, {failed:,} of which failed to simulate; {simulation_cpu_s:,.0f} s of CPU.".format(**runs),
        "",
        "## Failures",
        "",
        *_failures(card["failures"]),
        "",
        "## Labels",
        "",
        *_labels(card["labels"]),
        "",
        "## Drawn parameters",
        "",
        "Over all runs, as often as each occurs in one.",
        "",
        *_parameters(card["parameters"]),
    ]
    return "\n".join(lines) + "\n"


def _failures(failures: Sequence[Mapping[str, Any]]) -> list[str]:
    if not failures:
        return ["None."]
    return _table(
        ("error of the first", "runs", "first"),
        [(failure["error"], failure["runs"], failure["first"]) for failure in failures],
    )


def _labels(labels: Mapping[str, Any]) -> list[str]:
    if not labels:
        return ["No run was simulated."]
    few = [f"< {bound}" for bound in FEW_RESULTS]
    shares = _table(
        ("query type", "runs", "successful", "backpressured", *(f"{bound} results" for bound in few)),
        [
            (name, group["rows"], _share(group["successful"]), _share(group["backpressured"]),
             *(_share(group["few_results"][bound]) for bound in few))
            for name, group in labels.items()
        ],
    )  # fmt: skip
    values = _table(
        ("query type", "metric", *QUANTILES),
        [
            (name, metric, *(group[metric][quantile] for quantile in QUANTILES))
            for metric in REGRESSION_METRICS
            for name, group in labels.items()
            if metric in group
        ],
    )
    return [*shares, "", "Few results, and the metrics' quantiles, are over successful runs.", "", *values]


def _parameters(parameters: Mapping[str, Any]) -> list[str]:
    shares = [
        (
            name,
            parameter["unit"],
            ", ".join(f"{value}: {_share(share)}" for value, share in parameter["shares"].items()),
        )
        for name, parameter in parameters.items()
        if "shares" in parameter
    ]
    spreads = [
        (name, parameter["unit"], *(parameter[column] for column in SPREAD))
        for name, parameter in parameters.items()
        if "shares" not in parameter
    ]
    return [
        *_table(("parameter", "unit", "frequencies"), shares),
        "",
        *(_table(("parameter", "unit", *SPREAD), spreads) if spreads else []),
    ]


def _table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    listed = [headings, ["---"] * len(headings), *([_cell(value) for value in row] for row in rows)]
    return [f"| {' | '.join(row)} |" for row in listed]


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}" if value < 1e6 else str(value)
    return str(value).replace("|", "\\|").replace("\n", " ")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
