"""Results of scenarios, which are kept: an interrupted report goes on where it stopped.

A result is found by its scenario and by a digest of the whole simulator's source, any change of which repeats the run.
"""

from __future__ import annotations

import hashlib
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from papers.running import kept
from papers.workspace import SMALL, Workspace
from scenarios.executing import Lines
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

SIMULATOR = Path(__file__).resolve().parents[2] / "twin"
Result = Mapping[str, Any]
"""Metrics of a run as plain values (latencies as mappings, or None), with `crashed` and, by operator, `operators` (the
shares of time busy and backpressured, and the rate in) and `queue_length`: the mean at the ends of the periods."""
DIGITS = 9
"""Significant digits of all numbers in a result."""


def result_of(scenario: Scenario) -> Result:
    """Simulates a scenario. Raises as `simulate`, with the scenario's name and seed."""
    try:
        run = simulate(scenario)
    except Exception as error:
        raise RuntimeError(f"{scenario.name} (seed {scenario.run.seed}): {type(error).__name__}: {error}") from error
    operators = {
        each.operator: {
            "busy": round(each.busy, 6),
            "backpressured": round(each.backpressured, 6),
            "in_per_s": each.rate_in_per_s,
        }
        for each in run.operators
    }
    about = {"crashed": run.crashed, "operators": operators, "queue_length": _lengths(run)}
    found: Result = rounded({**asdict(run.metrics), **about})
    return found


def _lengths(run: Run) -> dict[str, float]:
    lengths = defaultdict[str, list[float]](list)
    for row in run.operator_rows:
        if row["start_s"] >= run.manifest["warmup_s"]:
            lengths[row["operator"]].append(row["queueLength"])
    return {name: float(np.mean(each)) for name, each in lengths.items()}


def rounded(value: Any) -> Any:
    """Value with all numbers in it to `DIGITS` significant digits."""
    match value:
        case float():
            return float(f"{value:.{DIGITS}g}")
        case dict():
            return {name: rounded(each) for name, each in value.items()}
        case _:
            return value


def results_of(scenarios: Sequence[Scenario], folder: Path) -> list[Result]:
    """Results of all scenarios, in their order; those kept in the folder are not simulated again."""
    texts = [each.model_dump_json() for each in scenarios]
    distinct = list(dict.fromkeys(texts))
    workspace = Workspace(folder, SMALL, 0, Lines(lambda text: print(text, file=sys.stderr, flush=True)))
    results = kept(workspace, f"runs-{source_digest()}", _result, [{"scenario": text} for text in distinct])
    found = dict(zip(distinct, results, strict=True))
    return [found[text] for text in texts]


def _result(scenario: str, **_seed: int) -> Result:
    return result_of(Scenario.model_validate_json(scenario))


@cache
def source_digest() -> str:
    """Digest (16 hex digits) over the simulator's source files, names and contents."""
    digest = hashlib.sha256()
    for path in sorted(SIMULATOR.rglob("*.py")):
        digest.update(str(path.relative_to(SIMULATOR)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
