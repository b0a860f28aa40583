"""Each key of Flink's configuration leads to a place of a scenario that takes its value, or says why there is none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scenarios.files.scenario_file import json_schema, set_values
from scenarios.files.yaml_text import parse_text
from tests.twin.flink_settings_page import PAGE, page
from tests.twin.worlds import chain
from twin.errors import BadInput
from twin.flink_settings import SETTINGS, Setting, configured, setting_of, told
from twin.flink_values import ram_mb, size_bytes, time_s
from twin.profiles import FLINK
from twin.scenario import Scenario
from twin.spec import parse

WITH_PLACE = [each for each in SETTINGS if each.path]
KEYS = [key for each in SETTINGS for key in each.keys]


def scenario(**parts: Any) -> Scenario:
    return parse(Scenario, {**dict(chain([], 9.0)), "engine": FLINK, **parts})


def test_the_table_has_each_key_once() -> None:
    assert len(WITH_PLACE) > 50 and len(KEYS) == len({key.lower() for key in KEYS})
    assert not [key for key in KEYS if not key.replace("*", "").isascii() or " " in key]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.keys[0])
def test_a_line_says_what_to_write_or_why_nothing(setting: Setting) -> None:
    for key in setting.keys:
        line = told(key.replace("*", "x"))
        assert line.startswith(("write ", "leave it out: ", "count it in ", "see docs/"))
        assert "\n" not in line and len(line) < 160


@pytest.mark.parametrize("setting", WITH_PLACE, ids=lambda setting: setting.keys[0])
def test_what_is_said_can_be_written_in_a_file_and_set(setting: Setting) -> None:
    """A place that is one takes the converted value, with what it needs beside it."""
    key, text = setting.keys[0], setting.example
    if "*" in setting.path:
        name = setting.path.rpartition(".")[2]
        assert f'"{name}":' in json.dumps(json_schema()) and told(key, text).startswith(f"write {name}: ")
        return
    said = f", {setting.says}" if setting.says else ""
    by_file = scenario(**parse_text(told(key, text).removeprefix("write ").removesuffix(said), key))  # type: ignore[arg-type]
    ours: Any = by_file
    for part in setting.path.split("."):
        ours = getattr(ours, part)
    assert ours == setting.read(text) or isinstance(setting.read(text), dict)
    by_set = told(key, text, in_file=False).removeprefix("write ").removesuffix(said)
    changed = set_values(scenario(), [each.strip("'") for each in by_set.split(" and ")])
    assert changed == by_file


@pytest.mark.parametrize(
    ("key", "given", "line"),
    [
        ("execution.checkpointing.interval", "10 s", "write checkpoints: {interval_s: 10}"),
        ("execution.checkpointing.interval", 10_000, "write checkpoints: {interval_s: 10}"),
        ("execution.checkpointing.interval", "soon", "write checkpoints: {interval_s: 10}"),
        ("execution.checkpointing.aligned-checkpoint-timeout", "1 min",
         "write checkpoints: {mode: unaligned, aligned_timeout_s: 60}"),
        ("execution.checkpointing.unaligned", True, "write checkpoints: {mode: unaligned}"),
        ("execution.buffer-timeout", "0 ms", "write engine: {profile: flink, flush_s: 1e-06}"),
        ("execution.buffer-timeout", -1, "write engine: {profile: flink, flush_s: 10000000}"),
        ("taskmanager.memory.segment-size", "64 kb", "write engine: {profile: flink, buffer_bytes: 65536}"),
        ("taskmanager.memory.process.size", "4g", "write ram_mb: 3103 in each of cluster.hosts"),
        ("TASKMANAGER.CPU.CORES", 2.5, "write cpu_percent: 250 in each of cluster.hosts"),
        ("table.exec.state.ttl", "36 h", "write ttl_s: 129600 in each operator of SQL"),
        ("job.autoscaler.utilization.target", 0.8,
         "write policy: {name: flink-autoscaler, utilization_target: 0.8}"),
        ("state.backend", "com.example.Own", "leave it out: com.example.Own changes nothing here"),
        ("s3.access-key", "secret", "leave it out: it is not simulated"),
        ("taskmanager.memory.network.max", "1g", "leave it out: engine.network_memory counts buffers, not bytes"),
    ],
)  # fmt: skip
def test_a_key_is_told_with_its_value(key: str, given: object, line: str) -> None:
    assert told(key, given).startswith(line)
    assert "secret" not in told(key, given)


def test_what_is_none_of_flinks_is_left_to_others() -> None:
    others = ("restarts", "clusters", "metrics", "environment", "slots", "checkpointing")
    for word in (*others, *json_schema()["properties"]):
        assert setting_of(word) is None and told(word) == ""


def test_a_configuration_is_read_whole() -> None:
    settings = {
        "execution.checkpointing.interval": "10 s",
        "execution.checkpointing.aligned-checkpoint-timeout": "30 s",
        "taskmanager.network.memory.buffer-debloat.enabled": "true",
        "taskmanager.network.memory.buffer-debloat.target": "500 ms",
        "execution.buffer-timeout.interval": "50 ms",
        "execution.buffer-timeout.enabled": "false",
        "parallelism.default": "8",
        "rest.port": "8081",
        "my.own.key": "x",
    }
    found = configured(settings)
    assert found.values == {
        "checkpoints.interval_s": 10.0,
        "engine.flush_s": 1e7,
        "engine.network_memory.buffer_debloat": {},
        "engine.network_memory.buffer_debloat.target_s": 0.5,
    }
    assert {*found.others} | {*found.keys.values()} == {*settings} - {"execution.buffer-timeout.interval"}
    assert "no effect" in found.others["execution.checkpointing.aligned-checkpoint-timeout"]
    assert found.others["my.own.key"] == "it is none of the keys that are known here"
    with pytest.raises(BadInput, match=r"^execution\.checkpointing\.timeout: .*'soon'"):
        configured({"execution.checkpointing.timeout": "soon"})


def test_set_begins_a_part_that_is_not_given() -> None:
    """`checkpoints.interval_s` needs no checkpoints before; what needs more to be known is refused as before."""
    changed = set_values(scenario(), ["checkpoints.interval_s=20", "engine.network_memory.buffer_debloat.target_s=2"])
    assert changed.checkpoints is not None and changed.checkpoints.interval_s == 20.0
    assert changed.engine.network_memory is not None
    assert changed.engine.network_memory.buffer_debloat.target_s == 2.0  # type: ignore[union-attr]
    with pytest.raises(BadInput, match="did you mean 'interval_s'"):
        set_values(scenario(), ["checkpoints.intervall_s=20"])
    with pytest.raises(BadInput, match="policy is not given"):
        set_values(scenario(), ["policy.margin=0.1"])


# values --------------------------------------------------------------------------------------------------------------


def test_sizes_and_times_are_flinks() -> None:
    assert [size_bytes(text) for text in ("1024", "32kb", "1 m", "2 Gb", "3 mebibytes")] == [
        1024, 32 * 1024, 1024**2, 2 * 1024**3, 3 * 1024**2]  # fmt: skip
    assert [time_s(text) for text in ("500", "10 s", "1 min", "1 h 30 min", "PT1M")] == [0.5, 10, 60, 5400, 60]
    for text in ("", "10 parsecs", "1.5 gb"):
        with pytest.raises(BadInput, match="is expected"):
            size_bytes(text)


def test_memory_of_a_task_manager_is_flinks_model() -> None:
    """The example of Flink's documentation: a process of 1728 MiB has 512 MiB of managed memory, 384 of task heap and
    128 of framework heap."""
    m = "taskmanager.memory."
    assert ram_mb({f"{m}process.size": "1728m"}) == pytest.approx((512 + 384 + 128) * 1.048576, rel=2e-3)
    assert ram_mb({f"{m}flink.size": "1280m"}) == ram_mb({f"{m}process.size": "1728m"})
    assert ram_mb({f"{m}task.heap.size": "1g", f"{m}managed.size": "1g"}) == pytest.approx(
        (2048 + 128) * 1.048576, rel=1e-3
    )
    less = ram_mb({f"{m}process.size": "4g", f"{m}network.fraction": "0.3"})
    assert less is not None and less < ram_mb({f"{m}process.size": "4g"})  # type: ignore[operator]
    assert ram_mb({}) is None
    with pytest.raises(BadInput, match="so small that no heap is left"):
        ram_mb({f"{m}process.size": "400m"})


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == page(text), "write it anew: python -m tests.twin.flink_settings_page"


def test_set_opens_a_part_that_has_its_default() -> None:
    changed = set_values(scenario(), ["engine.recovery.delay_s=3"])
    assert changed.engine.recovery.delay_s == 3.0
