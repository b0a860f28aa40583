"""Jobs of the YAML files beside this as scenarios: what a job leaves open is a plain engine on hosts with ample
resources.

Costs and sizes of records are computed from the job alone, as `docs/profiles.md` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from scenarios.files.scenario_file import parse_scenario
from twin.profiles import PROFILES
from twin.scenario import Scenario

BESIDES = ("run", "hosts", "links", "engine", "keys", "events", "checkpoints")
FOLDER = Path(__file__).parent
FILES = "jobs.yaml", "event_time.yaml", "checkpoints.yaml"
HOST = {"cpu_percent": 3200, "ram_mb": 1_000_000, "bandwidth_mbps": 100_000, "latency_ms": 1}
LINK_LATENCY_MS = 2
RUN = {"horizon_s": 60, "warmup_s": 10, "period_s": 5}
NOTHING = {"source": 0, "filter": 0, "map": 0, "aggregate": 0, "join": 0, "sink": 0}
PLAIN = {
    "name": "plain",
    "record_us": NOTHING,
    "value_us": {"ints": 0, "strings": 0, "doubles": 0},
    "result_us": 0,
    "scan_us": 0,
    "serialise_ns_per_byte": 0,
    "deserialise_ns_per_byte": 0,
    "service_scv": 1,
    "value_bytes": {"ints": 8, "strings": 24, "doubles": 8},
    "record_bytes": 40,
    "channel_records": 100_000,
    "memory": {"base_mb": 0, "object_overhead": 1, "onset": 0.9, "crash": 1, "slowdown_at_crash": 2},
}
"""Engine without costs except those of the operators, with channels that nothing fills."""


def load() -> dict[str, dict[str, Any]]:
    """Jobs by name, with every part filled in."""
    found: dict[str, dict[str, Any]] = {}
    for file in FILES:
        found |= yaml.safe_load((FOLDER / file).read_text())
    return {name: filled_in(job) for name, job in found.items()}


def filled_in(job: Mapping[str, Any]) -> dict[str, Any]:
    """Job with the kinds of sources and sinks, `from` as {producer: partitioning} and `at` as {host: number}."""
    operators = {name: dict(each) for name, each in job.items() if name not in BESIDES}
    for each in operators.values():
        inputs, hosts = each.get("from", []), each.get("at", "a")
        inputs = [inputs] if isinstance(inputs, str) else inputs
        each["from"] = inputs if isinstance(inputs, dict) else dict.fromkeys(inputs)
        each["at"] = hosts if isinstance(hosts, dict) else {hosts: 1}
        if "path" in each.get("arrivals", {}):
            each["arrivals"] = each["arrivals"] | {"path": str(FOLDER / each["arrivals"]["path"])}
        each.setdefault("kind", "sink" if each["from"] else "source")
    more = {key: job.get(key, {}) for key in BESIDES}
    engine = PROFILES[more["engine"]].model_dump() if isinstance(more["engine"], str) else PLAIN | more["engine"]
    engine["record_us"] = NOTHING | engine["record_us"]
    return more | {"operators": operators, "run": RUN | more["run"], "engine": engine, "events": job.get("events", [])}


def hosts_of(job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Hosts of the operators, with their resources."""
    names = {host for each in job["operators"].values() for host in each["at"]} | set(job["hosts"])
    return {name: HOST | job["hosts"].get(name, {}) for name in sorted(names)}


def scenario(name: str, job: Mapping[str, Any], seed: int) -> Scenario:
    """Scenario of a job, as `twin run` takes it."""
    operators, streams, laws = [], [], {}
    for operator, each in job["operators"].items():
        more = {key: value for key, value in each.items() if key not in ("from", "at", "rate", "arrivals", "ms")}
        if "ms" in each:
            more["service_time_s"] = each["ms"] / 1e3
        operators.append({"name": operator} | more)
        streams += [{"producer": p, "consumer": operator, "partitioning": how} for p, how in each["from"].items()]
        if not each["from"]:
            laws[operator] = each.get("arrivals") or {"law": "poisson", "rate_per_s": each["rate"]}
    cluster: dict[str, Any] = {"hosts": [{"name": host} | has for host, has in hosts_of(job).items()]}
    if job["links"]:
        ends = {end for link in job["links"] for end in link.split("-")}
        cluster["switches"] = sorted(ends - set(hosts_of(job)))
        cluster["links"] = [
            {"between": link.split("-"), "bandwidth_mbps": mbps, "latency_ms": LINK_LATENCY_MS}
            for link, mbps in job["links"].items()
        ]
    document = {
        "name": name,
        "query": {"operators": operators, "streams": streams},
        "cluster": cluster,
        "plan": {"placement": {operator: each["at"] for operator, each in job["operators"].items()}},
        "workload": {"arrivals": laws, "keys": job["keys"]},
        "engine": job["engine"],
        "run": job["run"] | {"seed": seed},
        "events": job["events"],
    }
    if job["checkpoints"]:
        document["checkpoints"] = job["checkpoints"]
    return parse_scenario(yaml.safe_dump(document), name)


class Costs:
    """Costs and sizes of records of a job's operators, which are on one host each."""

    def __init__(self, operators: Mapping[str, Mapping[str, Any]], engine: Mapping[str, Any]) -> None:
        self.operators, self.engine = operators, engine

    def bytes_of(self, producer: str) -> float:
        """Size of a record that the producer emits [bytes]."""
        given = self.operators[producer].get("record_bytes")
        if given is not None:
            return float(given)
        values = self.engine["value_bytes"]
        return float(self.engine["record_bytes"] + sum(values[k] * n for k, n in self._columns(producer).items()))

    def _columns(self, producer: str) -> dict[str, int]:
        each = self.operators[producer]
        if each["kind"] == "aggregate":
            return {"ints": int(each.get("group_by") == "int"), "strings": 0, "doubles": 1}
        if each["kind"] in ("filter", "map"):
            return self._columns(next(iter(each["from"])))
        return {"ints": 1, "strings": 1, "doubles": 1}

    def service_s(self, name: str) -> float:
        """Mean service time [s], as given or by the profile, with the costs of records that cross hosts."""
        each, engine = self.operators[name], self.engine
        columns = self._columns(next(iter(each["from"]), name))
        us = engine["record_us"].get(each["kind"], 0) + sum(engine["value_us"][k] * n for k, n in columns.items())
        us = 1e3 * each["ms"] if "ms" in each else us
        for producer in each["from"]:
            if self._host(producer) != self._host(name):
                us += engine["deserialise_ns_per_byte"] * self.bytes_of(producer) / 1e3
        for other, their in self.operators.items():
            if name in their["from"] and self._host(other) != self._host(name) and each["kind"] != "aggregate":
                us += engine["serialise_ns_per_byte"] * self.bytes_of(name) * each.get("selectivity", 1) / 1e3
        return us / 1e6

    def _host(self, name: str) -> str:
        return str(next(iter(self.operators[name]["at"])))
