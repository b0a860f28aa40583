"""Notices a change of what simulation computes: short runs of small jobs, pinned in pinned.json.

Run `python -m benchmarks.validity --pin` after a change that is meant.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.validity.pinned_jobs import jobs
from benchmarks.validity.runs import Job, run_job
from twin.deployment import Deployment
from twin.scenario import RunSettings

FILE = Path(__file__).with_name("pinned.json")
SETTINGS = RunSettings(horizon_s=4, warmup_s=0.5, period_s=0.5, seed=1)
LATENCIES = ("processing_latency_s", "e2e_latency_s")
TOLD = ("throughput_per_s", *LATENCIES, "backpressure_per_s", "tuples_in", "tuples_out", "crashed", "operators")
"""Of a result, what is pinned."""


def measure(job: Deployment) -> dict[str, Any]:
    """The digest of a short run of a job, and two of its metrics for people who look."""
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
    before = pinned() if FILE.exists() else {}
    now = {name: measure(job) for name, job in jobs().items()}
    FILE.write_text(json.dumps(now, indent=1) + "\n", encoding="utf-8")
    other = [name for name, each in now.items() if before.get(name) != each]
    return f"{len(now)} jobs; other numbers: {', '.join(other) or 'none'}"


def pinned() -> dict[str, Any]:
    """Measurements by job, as the file holds them."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def complaint(now: Mapping[str, Mapping[str, Any]], before: Mapping[str, Any]) -> str:
    """What to do where runs give other numbers than they did when they were pinned; empty if they do not."""
    other = [name for name, each in now.items() if before.get(name, {}).get("digest") != each["digest"]]
    if not other:
        return ""
    return (
        f"runs of {', '.join(other)} give other numbers than before. If no change was meant, this is a defect. If it "
        "was: python -m benchmarks.validity --pin"
    )
