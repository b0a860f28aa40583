"""Words of others lead to ours, and what is said to write can be written."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from scenarios.files.scenario_file import dump, json_schema, parse_scenario, set_values
from tests.twin.worlds import chain, simulated
from twin.errors import BadInput
from twin.profiles import FLINK, PROFILES
from twin.scenario import Scenario
from twin.spec import parse
from twin.words import OURS, ours, remedy

FILE = """
query:
  operators:
    - {name: clicks, kind: source, OPERATOR}
    - {name: out, kind: SINK}
  streams: [{STREAM}]
cluster: {hosts: [{name: h, cpu_percent: 100, ram_mb: 2000, bandwidth_mbps: 100, latency_ms: 1}]}
workload: {arrivals: {clicks: {law: poisson, rate_per_s: 9}}}
engine: flink
"""


def mistakes(top: str = "", operator: str = "", stream: str = "producer: clicks, consumer: out", sink: str = "sink"):
    """Lines about a file with these words in it, without the heading of several."""
    text = FILE.replace("OPERATOR", operator).replace("STREAM", stream).replace("SINK", sink) + top
    with pytest.raises(BadInput) as refused:
        parse_scenario(text, "f.yaml")
    return refused.value.mistakes[1:] or (str(refused.value),)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"operator": "partitions: 8"}, "write kind: kafka-source"),
        ({"operator": "watermark_delay_s: 5"}, "write slack_s"),
        ({"operator": "watermarkDelay: 5"}, "write slack_s"),
        ({"sink": "kafka-sink"}, "write kind: sink, and checkpoints: {sinks: exactly-once}"),
        ({"sink": "sink, delivery: exactly-once"}, "write checkpoints: {sinks: exactly-once}"),
        ({"top": "checkpoints: {mode: exactly-once}"}, "'exactly-once'; write sinks: exactly-once"),
        ({"top": "checkpoints: {incremental: true}"}, "write state: incremental"),
        ({"top": "state_backend: rocksdb"}, "engine: {profile: flink, state_backend: rocksdb}"),
        ({"top": "parallelism.default: 4"}, "write parallelism: 4 in each operator"),
        ({"top": "taskmanager.memory.process.size: 4g"}, "write ram_mb"),
        ({"top": "taskmanager: {memory: {managed: {fraction: 0.4}}}"}, "managed_share"),
    ],
)
def test_a_word_of_others_is_told_in_our_words(given: dict[str, str], says: str) -> None:
    (line,) = mistakes(**given)
    assert says in line


def test_a_stream_by_other_names_is_one_mistake_a_name() -> None:
    assert [line.rpartition("; ")[2] for line in mistakes(stream="from: clicks, to: out")] == [
        "write producer",
        "write consumer",
    ]


def test_each_part_of_a_nested_configuration_is_told() -> None:
    (line,) = mistakes("execution: {checkpointing: {interval: 10 s, timeout: 1 min}}")
    assert "interval write checkpoints: {interval_s: 10}" in line
    assert "timeout write checkpoints: {timeout_s: 60}" in line


def test_set_is_told_the_same() -> None:
    scenario = Scenario.of(chain([], 9.0))
    told = {"execution.checkpointing.interval": r"write checkpoints\.interval_s=1$", "state_backend": "profile: flink"}
    for path, says in told.items():
        with pytest.raises(BadInput, match=says):
            set_values(scenario, [f"{path}=1 s"])


def test_what_can_be_said_is_not_in_the_table() -> None:
    """A known key never gets there, and the nearest key is named for a word that nobody else has."""
    schema = json_schema()
    assert not [word for word in schema["properties"] if ours(word)]
    assert remedy("intervall_s", ["interval_s"], "checkpoints") == "did you mean 'interval_s'?"
    assert ours("partitions", "hosts") == ""


WRITTEN = [re.search(r"write ((checkpoints|engine|policy): \{.*\})", text) for text in set(OURS.values())]


@pytest.mark.parametrize("text", sorted(found[1].replace("HOST", "h") for found in WRITTEN if found))
def test_what_is_said_to_write_can_be_written(text: str) -> None:
    (given,) = [yaml.safe_load(text.replace("{...}", "{}"))]
    data: dict[str, Any] = {**dict(chain([], 9.0)), **given}
    if given.get("checkpoints", {}).get("state") == "incremental":
        data["engine"] = {"profile": "flink", "state_backend": "rocksdb"}
    if given.get("checkpoints", {}).get("storage"):
        data["checkpoints"]["storage"] = data["cluster"].hosts[0].name
    parse(Scenario, data)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("cpu_percent", 4, "for 4 cores write cpu_percent: 400"),
        ("cpu_percent", 16, "for 16 cores write cpu_percent: 1600"),
        ("cpu_percent", 20, ""),
        ("ram_mb", 4, "for 4 GB write ram_mb: 4000"),
        ("ram_mb", 500, ""),
    ],
)
def test_hosts_in_cores_and_gigabytes_are_asked_about(key: str, value: float, says: str) -> None:
    """Only of hosts that the plan uses, each once."""
    job = chain([], 9.0)
    used = {*job.plan.hosts(*job.plan.placement)}
    hosts = tuple(each.model_copy(update={key: value}) if each.name in used else each for each in job.cluster.hosts)
    small = job.model_copy(update={"cluster": job.cluster.model_copy(update={"hosts": hosts})})
    told = [
        line
        for line in simulated(small, horizon_s=2.0).warnings
        if "write cpu_percent" in line or "write ram_mb" in line
    ]
    assert [line.rpartition("; ")[2] for line in told] == [says] * len(used) * bool(says)


def test_keys_that_are_said_to_be_written_exist() -> None:
    """A key of ours that was renamed is renamed in what others are told, too."""
    keys = set(re.findall(r'"([a-z][a-z0-9_]*)":', json.dumps(json_schema())))
    assert not {key for text in OURS.values() for key in re.findall(r"\b[a-z]+(?:_[a-z0-9]+)+\b", text)} - keys


def test_mistakes_beside_a_missing_tag_are_told_too() -> None:
    policy, *others = mistakes(sink="aggregate, window: {type: tumbling, time: event-time, size: 60}")
    assert policy.endswith("'policy' is missing; add it: one of count, time")
    said = sorted(line.rpartition("; ")[2] for line in others)
    assert said == ["did you mean 'size_s'?", "sessions are kind: session", "write event"]


# a profile with changes ----------------------------------------------------------------------------------------------


def engine(given: Any) -> Any:
    return parse(Scenario, {**dict(chain([], 9.0)), "engine": given})


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_changes_of_a_profile_are_those_that_set_makes(name: str) -> None:
    """A change in the file is one by --set, at any depth; what is written of it can be read, and is only the change."""
    changes = {"memory": {"onset": 0.45}, "record_us": {"map": 7}, "state_backend": {"kind": "rocksdb", "read_us": 8}}
    said = engine({"profile": name, **changes})
    paths = ["memory.onset=0.45", "record_us.map=7", "state_backend={kind: rocksdb, read_us: 8}"]
    assert said.engine == set_values(engine(name), [f"engine.{path}" for path in paths]).engine
    written = yaml.safe_load(dump(said))["engine"]
    assert written == {"profile": name, **changes}
    assert parse_scenario(dump(said), "written") == said
    assert engine({"profile": name}) == engine(name)


def test_a_part_that_is_given_as_a_word_or_null_replaces_the_whole() -> None:
    made = engine({"profile": "flink", "rescaling": "live", "channel_records": 9, "network_memory": None})
    assert made.engine.rescaling.how == "live" and made.engine.network_memory is None
    assert parse_scenario(dump(made), "written") == made
    own = engine({"profile": "flink", "name": "mine"})
    assert own.engine == FLINK.model_copy(update={"name": "mine"})
    assert parse_scenario(dump(own), "written") == own


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"profile": "flnk"}, "unknown engine profile 'flnk'; did you mean 'flink'"),
        ({"profile": 3}, "unknown engine profile 3"),
        ({"profile": "flink", "memory": {"onsett": 1}}, r"engine\.memory\.onsett: .*did you mean 'onset'"),
        ({"profile": "flink", "state_backendd": "rocksdb"}, "did you mean 'state_backend'"),
        ({"name": "storm", "state_backend": "rocksdb"}, "write profile: storm"),
        ({"base": "flink", "state_backend": "rocksdb"}, "write profile: flink"),
    ],
)
def test_a_wrong_change_is_one_line(given: Any, says: str) -> None:
    with pytest.raises(BadInput, match=says) as refused:
        engine(given)
    assert not refused.value.mistakes


def test_the_schema_takes_a_profile_with_changes() -> None:
    schema = json_schema()
    changed = schema["$defs"]["ChangedEngineProfile"]
    assert changed["required"] == ["profile"] and changed["properties"]["profile"]["enum"] == sorted(PROFILES)
    assert changed["properties"]["memory"]["$ref"] == "#/$defs/ChangedMemory"
    assert not schema["$defs"]["ChangedMemory"]["required"]
    assert {"$ref": "#/$defs/ChangedEngineProfile"} in schema["properties"]["engine"]["anyOf"]
