"""Notices a change of what exact simulation computes: short exact runs of small jobs, pinned in exact_laws.json.

Run `python -m benchmarks.validity --pin` after a change that is meant, having raised the numbers of the laws whose
distribution it changes (`benchmarks.validity.laws`). Where only the bits change, the order of random numbers say,
pinning is enough: the exact runs in the repository stay right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.validity.laws import LAWS, laws_of
from benchmarks.validity.pinned_jobs import jobs
from benchmarks.validity.runs import Job, run_job
from twin.deployment import Deployment
from twin.scenario import RunSettings

FILE = Path(__file__).with_name("exact_laws.json")
SETTINGS = RunSettings(horizon_s=4, warmup_s=0.5, period_s=0.5, fidelity="exact", seed=1)
LATENCIES = ("processing_latency_s", "e2e_latency_s")
TOLD = ("throughput_per_s", *LATENCIES, "backpressure_per_s", "tuples_in", "tuples_out", "crashed", "operators")
"""Of a result, what is pinned."""


def measure(job: Deployment) -> dict[str, Any]:
    """The digest of a short exact run of a job, and two of its metrics for people who look."""
    result = run_job(Job("", job, SETTINGS))
    if isinstance(result, str):
        return {"digest": result}
    told = {name: result[name] for name in TOLD}
    latency = result["e2e_latency_s"]
    return {
        "digest": hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16],
        "throughput_per_s": result["throughput_per_s"],
        "e2e_latency_s": latency and latency["mean"],
    }


def pin() -> str:
    """Measures all jobs anew and writes the file; in words, what is different now."""
    before = pinned() if FILE.exists() else {"laws": {}, "jobs": {}}
    now = {name: measure(job) for name, job in jobs().items()}
    laws = {name: law.number for name, law in LAWS.items()}
    FILE.write_text(json.dumps({"laws": laws, "jobs": now}, indent=1) + "\n", encoding="utf-8")
    other = [name for name, each in now.items() if before["jobs"].get(name) != each]
    raised = [name for name, number in laws.items() if before["laws"].get(name) != number]
    return f"{len(now)} jobs; other numbers: {', '.join(other) or 'none'}; laws raised: {', '.join(raised) or 'none'}"


def pinned() -> dict[str, Any]:
    """What the file holds: the numbers of the laws, and the measurements by job."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def complaint(now: Mapping[str, Mapping[str, Any]], before: Mapping[str, Any]) -> str:
    """What to do where exact runs give other numbers than they did when they were pinned; empty if they do not.

    now: measurements by job. before: what was pinned.
    """
    raised = {name for name, law in LAWS.items() if before["laws"].get(name) != law.number}
    other = [name for name, each in now.items() if before["jobs"].get(name, {}).get("digest") != each["digest"]]
    used = {name: set(laws_of(job)) for name, job in jobs().items()}
    unexplained = [name for name in other if not used[name] & raised]
    if unexplained:
        return (
            f"exact runs of {', '.join(unexplained)} give other numbers than before. What they have in common is the "
            f"law {' or '.join(map(repr, suspects(unexplained)))} (benchmarks/validity/laws.py). If no change was "
            "meant, this is a defect. If it was: raise the number of the law whose distribution is another now, so "
            "that the exact runs which use it are made again (none, if only the bits are others), then python -m "
            "benchmarks.validity --pin"
        )
    if raised or other:
        return f"laws raised: {', '.join(sorted(raised))}; pin them: python -m benchmarks.validity --pin"
    return ""


def suspects(other: list[str]) -> list[str]:
    """The laws that all of these jobs use and none of the other pinned ones does; if there is none, all in common."""
    used = {name: set(laws_of(job)) for name, job in jobs().items()}
    common = set.intersection(*(used[name] for name in other))
    alone = common.difference(*(each for name, each in used.items() if name not in other))
    return [name for name in LAWS if name in (alone or common)]
