"""Program for a house with additions: prints the result of each, as one line of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from optimizers.policies import POLICIES
from scenarios.files import scenario_file
from streamtwin.cli.app import app
from twin.rates.model import RateModel
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

HOST = {"cpu_percent": 100, "ram_mb": 4000, "bandwidth_mbps": 1000, "latency_ms": 1}
JOB: dict[str, Any] = {
    "name": "additions",
    "query": {
        "operators": [
            {"kind": "source", "name": "source"},
            {"kind": "map", "name": "map"},
            {"kind": "sink", "name": "sink"},
        ],
        "streams": [{"producer": "source", "consumer": "map"}, {"producer": "map", "consumer": "sink"}],
    },
    "cluster": {"hosts": [{"name": "a", **HOST}, {"name": "b", **HOST}]},
    "plan": {"placement": {"source": "a", "map": "a", "sink": "a"}},
    "workload": {"arrivals": {"source": {"law": "sawtooth", "low_per_s": 100, "high_per_s": 300, "poisson": False}}},
    "policy": {"name": "once"},
    "run": {"horizon_s": 20, "warmup_s": 2, "period_s": 2},
}

DEALT: dict[str, Any] = JOB | {
    "query": {
        "operators": [
            {"kind": "source", "name": "source"},
            {"kind": "map", "name": "map", "service_time_s": 0.008},
            {"kind": "sink", "name": "sink"},
        ],
        "streams": [
            {"producer": "source", "consumer": "map", "partitioning": "a-third"},
            {"producer": "map", "consumer": "sink"},
        ],
    },
    "cluster": {"hosts": [{"name": "a", **HOST, "cpu_percent": 800}]},
    "plan": {"placement": {"source": "a", "map": {"a": 4}, "sink": "a"}},
    "workload": {"arrivals": {"source": {"law": "poisson", "rate_per_s": 500}}},
    "policy": None,
    "run": {"horizon_s": 120, "warmup_s": 60, "period_s": 5},
}

dealt = parse(Scenario, DEALT)
borne = simulate(dealt)
parts = [each.records_in for each in next(each for each in borne.operators if each.operator == "map").subtasks]
predicted = RateModel().predict(dealt.deployment, [dealt.plan])["throughput_per_s"][0]
run = simulate(parse(Scenario, JOB))
source = next(each for each in run.operators if each.operator == "source")
Path("rate.txt").write_text("70")
made = CliRunner().invoke(app, ["import", "rate", "rate.txt", "--out", "job.yaml"])
assert made.exit_code == 0, made.output
law = scenario_file.load("job.yaml").workload.arrivals["source"]
print(
    json.dumps(
        {
            "first of four": parts[0] / sum(parts),
            "borne_per_s": [borne.metrics.throughput_per_s, float(predicted)],
            "arrived": source.rate_out_per_s,
            "seconds": 1.0,
            "law in the schema": "sawtooth" in json.dumps(Scenario.model_json_schema()),
            "reasons": [row["detail"].get("reason") for row in run.event_rows if row["kind"] == "decision"],
            "policies": list(POLICIES),
            "imported": law.mean_rate_per_s,
        }
    )
)
