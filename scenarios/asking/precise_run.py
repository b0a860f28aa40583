"""A run as precise as was asked for: the runs that it took as a table, the extrapolated metrics with their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from scenarios.telling import rounding
from scenarios.telling.tables import of_rows
from scenarios.telling.wide import Wide
from twin.errors import BadInput
from twin.precision.search import Answer, Step

FINEST, COARSEST = 1e-4, 0.5
NAMES = {
    "throughput_per_s": "throughput (results/s)",
    "processing_latency_s": "processing latency",
    "e2e_latency_s": "end-to-end latency",
}


def share(text: str) -> float:
    """An error as a share, from `2%` or `0.02`. Raises BadInput for anything else, and out of 0.01 % to 50 %."""
    try:
        value = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        value = math.nan
    if not FINEST <= value <= COARSEST:
        raise BadInput(f"--precision {text}: give an error from 0.01% to 50%, such as 2% or 0.02")
    return value


def document(answer: Answer, precision: float) -> dict[str, Any]:
    """For JSON, beside the finest run's own: the ladder, the estimates with their errors by cause, what was taken."""
    return {
        "asked": precision,
        "runs": [_step(each) for each in answer.steps],
        "estimates": {
            name: {
                "value": each.value,
                "error": each.error,
                "discretisation": each.discretisation,
                "statistical": each.statistical,
                "model": each.model,
            }
            for name, each in answer.estimates.items()
        },
        "taken": answer.why,
        "needed": answer.needed,
    }


def _step(step: Step) -> dict[str, Any]:
    metrics, settings = step.run.metrics, step.settings
    processing, e2e = metrics.processing_latency_s, metrics.e2e_latency_s
    return {
        "fidelity": settings.fidelity,
        "segments": settings.segments,
        "horizon_s": settings.horizon_s,
        "seed": settings.seed,
        "throughput_per_s": metrics.throughput_per_s,
        "processing_latency_s": processing.mean if processing else None,
        "e2e_latency_s": e2e.mean if e2e else None,
        "cpu_s": step.run.cpu_s,
    }


def tables(name: str, found: Mapping[str, Any]) -> list[Wide]:
    """The runs, then the answer; `found` is `document`."""
    columns = {
        "how": "run",
        "horizon_s": "horizon (s)",
        "throughput_per_s": "results/s",
        "processing_latency_s": "processing (s)",
        "e2e_latency_s": "end to end (s)",
        "cpu_s": "CPU (s)",
    }
    runs = [{**each, "how": _how(each)} for each in found["runs"]]
    answers = [{"metric": NAMES[key], **_answer(key, each)} for key, each in found["estimates"].items()]
    heads = {"metric": "metric", "value": "value ± error", "by": "by segments / chance / model"}
    return [of_rows(f"{name}: runs", columns, runs), of_rows(f"{name}: {found['taken']}", heads, answers)]


def _how(run: Mapping[str, Any]) -> str:
    fineness = "as fine as chosen" if run["segments"] is None else f"{run['segments']:,} segments"
    return f"exact, seed {run['seed']}" if run["fidelity"] == "exact" else f"{fineness}, seed {run['seed']}"


def _answer(key: str, each: Mapping[str, Any]) -> dict[str, str]:
    known = each["error"] is not None and math.isfinite(each["error"])
    show = rounding.seconds if key.endswith("_s") and key != "throughput_per_s" else rounding.number
    text = show(each["value"], each["error"]) if known else ""
    causes = (each["discretisation"], each["statistical"], each["model"])
    return {
        "value": text or f"{each['value']:.3g}",
        "by": " / ".join(_percent(cause, each["value"]) for cause in causes),
    }


def _percent(error: float | None, value: float) -> str:
    return "?" if error is None or not value else f"{100 * error / abs(value):.1f} %"


def reached(found: Mapping[str, Any]) -> Sequence[str]:
    """A line that says what is missing, if anything is."""
    return [f"not reached; it would take {found['needed']}"] if found["needed"] else []
