"""A configuration of Flink, in any of its forms, sets what means the same here; all else is listed."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.files import scenario_file
from streamtwin.connect.importers.flink_config import settings_in, with_settings
from tests.commands import answer, refused, twin
from twin.errors import BadInput

FLAT = """
# a cluster of ours
jobmanager.rpc.address: jobmanager    # where it is
taskmanager.memory.process.size: 4g
taskmanager.numberOfTaskSlots: 4
env.java.opts.all: -XX:+UseG1GC -Dlog: verbose
execution.checkpointing.interval: 30 s
execution.checkpointing.unaligned: true
execution.checkpointing.aligned-checkpoint-timeout: "5 s"
execution.buffer-timeout: 50 ms
state.backend: rocksdb
"""
NESTED = """
jobmanager: {rpc: {address: jobmanager}}
taskmanager:
  memory: {process: {size: 4g}}
  numberOfTaskSlots: 4
env.java.opts.all: "-XX:+UseG1GC -Dlog: verbose"
execution:
  checkpointing:
    interval: 30 s
    unaligned: true
    aligned-checkpoint-timeout: 5 s
  buffer-timeout: 50 ms
state: {backend: rocksdb}
"""
RESOURCE = "apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nspec:\n  flinkConfiguration:\n" + "".join(
    f"    {line}\n" for line in FLAT.strip().splitlines() if "env.java" not in line
)
SET = {
    "checkpoints.interval_s": 30.0,
    "checkpoints.mode": "unaligned",
    "checkpoints.aligned_timeout_s": 5.0,
    "engine.flush_s": 0.05,
    "engine.state_backend.kind": "rocksdb",
}


def test_all_forms_hold_the_same() -> None:
    flat, nested, resource = (settings_in(text, "file") for text in (FLAT, NESTED, RESOURCE))
    assert flat == nested == resource | {"env.java.opts.all": "-XX:+UseG1GC -Dlog: verbose"}
    assert flat["jobmanager.rpc.address"] == "jobmanager" and flat["execution.checkpointing.unaligned"] == "true"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "holds no settings of Flink"),
        ("# nothing\n", "holds no settings of Flink"),
        ("- a\n- b\n", "holds no settings of Flink"),
        ("query: {}\n", "holds no settings of Flink"),
        ("name: mine\n", "name is no key of Flink's configuration"),
        ("execution.checkpointing.interval: [10\n", "line"),
    ],
)
def test_what_is_no_configuration_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        settings_in(text, "file")


def test_what_means_the_same_is_set_and_all_else_is_a_note() -> None:
    job = scenario_file.load("clicks")
    found = with_settings(job, settings_in(FLAT, "conf"), "conf")
    assert found.values == SET
    checkpoints, engine = found.scenario.checkpoints, found.scenario.engine
    assert checkpoints is not None and (checkpoints.interval_s, checkpoints.mode) == (30.0, "unaligned")
    assert (engine.flush_s, engine.stores) == (0.05, True)
    assert found.scenario.query == job.query and found.scenario.plan == job.plan
    told = "\n".join(found.notes)
    assert "execution.buffer-timeout: 50 ms is engine.flush_s=0.05" in told
    assert "not set: taskmanager.memory.process.size: write ram_mb: 3103 in each of cluster.hosts" in told
    assert "not simulated: jobmanager.rpc.address, env.java.opts.all" in told
    assert scenario_file.parse_scenario(scenario_file.dump(found.scenario), "text") == found.scenario


def test_without_an_interval_there_are_no_checkpoints() -> None:
    job = scenario_file.load("clicks").model_copy(update={"checkpoints": None})
    found = with_settings(job, {"execution.checkpointing.timeout": "1 min"}, "conf")
    assert found.scenario == job and not found.values
    assert "without execution.checkpointing.interval there are no checkpoints" in found.notes[0]


def test_the_command_writes_a_scenario_and_lists_the_rest(tmp_path: Path) -> None:
    conf, out = tmp_path / "flink-conf.yaml", tmp_path / "tuned.yaml"
    conf.write_text(FLAT)
    document = answer("import", "flink-config", "clicks", conf, "--out", out)
    assert document["values"] == SET and len(document["notes"]) == 5 + 2 + 1
    assert scenario_file.load(str(out)).checkpoints is not None
    printed = twin("import", "flink-config", "clicks", conf)
    assert "checkpoints:" in printed.stdout and "note: not set: taskmanager.numberOfTaskSlots" in printed.stderr
    assert "add --set engine=flink" in refused("import", "flink-config", "edge-filter", conf)
    conf.write_text("execution.checkpointing.interval: soon\n")
    assert "execution.checkpointing.interval: Flink's" in refused("import", "flink-config", "clicks", conf)
