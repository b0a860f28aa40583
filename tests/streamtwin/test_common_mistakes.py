"""Mistakes that people make in files, options, units and names: one line each, that says how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import refused

FILE = """name: two
query:
  operators:
    - {name: clicks, kind: source}
    - {name: per-page, kind: aggregate, function: count, group_by: int, groups: 100, window: {policy: time, size_s: 5}}
    - {name: out, kind: sink}
  streams:
    - {producer: clicks, consumer: per-page}
    - {producer: per-page, consumer: out}
cluster:
  hosts:
    - {name: tm-1, cpu_percent: 400, ram_mb: 4000, bandwidth_mbps: 1000, latency_ms: 0.5}
plan:
  placement: {clicks: tm-1, per-page: tm-1, out: tm-1}
workload:
  arrivals:
    clicks: {law: poisson, rate_per_s: 100}
engine: flink
run: {horizon_s: 30}
"""
IN_THE_FILE = {
    # what stands there, by what should: words of the line
    ("rate: 100", "rate_per_s: 100"): "write rate_per_s",
    ("rate_per_s: 100/s", "rate_per_s: 100"): "should be a number, alone or with k, M, G or %, got '100/s'",
    ("rate_per_s: -5", "rate_per_s: 100"): "greater than or equal to 0.000000001, got -5 (records a second)",
    ("law: possion", "law: poisson"): "did you mean 'poisson'?",
    ("kind: source, service_time_ms: 5}", "kind: source}"): "write service_time_s: 5ms",
    ("kind: kafka}", "kind: source}"): "write kind: kafka-source, or kind: sink",
    ("kind: source, parallelism: 4}", "kind: source}"): "leave one of the two out",
    ("kind: window", "kind: aggregate"): "write kind: aggregate, with a window",
    ("policy: session", "policy: time"): "write kind: session, with gap_s, instead of a window",
    ("size_s: 0", "size_s: 5"): "greater than or equal to 0.000001, got 0",
    ("cores: 4", "cpu_percent: 400"): "write cpu_percent: 100 for each core",
    ("ram_gb: 4", "ram_mb: 4000"): "write ram_mb: 4000 for 4 GB",
    ("ram_mb: 4g", "ram_mb: 4000"): "got '4g'",
    ("bandwidth_gbps: 1", "bandwidth_mbps: 1000"): "write bandwidth_mbps: 1000 for 1 Gbit/s",
    ("latency_s: 0.0005", "latency_ms: 0.5"): "write latency_ms: 0.0005s",
    ("out: tm1}", "out: tm-1}"): "did you mean 'tm-1'?",
    ("per-page: tm-1}", "per-page: tm-1, out: tm-1}"): "out",
    ("consumer: outt}", "consumer: out}"): "did you mean 'out'?",
    ("from: per-page", "producer: per-page"): "write producer",
    ("consumer: per-page, partitioning: keyBy}", "consumer: per-page}"): "write hash",
    ("engine: spark", "engine: flink"): "unknown engine profile 'spark'",
    ("engine: {profile: flink, buffer_timeout_ms: 100}", "engine: flink"): "write flush_s",
    ("engine: {profile: flink, flush_s: 0}", "engine: flink"): "1e-6: at once",
    ("engine: {profile: flink, gc_pause_s: 2}", "engine: flink"): "write noise: {gc_pause_s: ...}",
    ("execution.checkpointing.interval: 10 s\nengine: flink", "engine: flink"): "write checkpoints: {interval_s: 10}",
    ("checkpoints: {mode: exactly-once}\nengine: flink", "engine: flink"): "write sinks: exactly-once",
    ("warmup_s: 40, horizon_s: 30", "horizon_s: 30"): "warmup_s must be < horizon_s",
    ("duration_s: 30", "horizon_s: 30"): "write horizon_s",
    ("engine: storm\nengine: flink", "engine: flink"): "key 'engine' is given twice; remove one",
}
"""Mistakes in a file, each with what should stand there: words of the line."""
ASKED = {
    ("run", "jobb.yaml"): "did you mean",
    ("run", "job.yaml", "--duration", 60): "--horizon",
    ("run", "job.yaml", "--set", "horizon_s=60"): "write run.horizon_s",
    ("run", "job.yaml", "--set", "per-page.groups=60"): "write query.operators.per-page.groups",
    ("run", "job.yaml", "--set", "execution.checkpointing.interval=10 s"): "write checkpoints.interval_s=10",
    ("run", "job.yaml", "--plot", "new/run.png"): "there is no folder new; make it",
    ("report", "job.yaml", "--out", "new/page.html"): "there is no folder new; make it",
    ("capacity", "job.yaml"): "--find-max",
    ("capacity", "job.yaml", "--find-max", "load", "--between", "1-10"): "LOW..HIGH",
    ("whatif", "job.yaml", "--vary", "load=1-3"): "1..3",
    ("compare", "job.yaml"): "two",
    ("optimize", "job.yaml", "--objective", "latency"): "e2e_latency_s",
    ("optimize", "job.yaml", "--budget", "20", "--at-most", "price=-1"): "no plan has less than 0",
    ("optimize", "job.yaml", "--pin", "click"): "did you mean 'clicks'?",
    ("dry-run", "job.yaml"): "--fail",
    ("import", "flink", "localhost:8081"): "http://localhost:8081",
    ("import", "flink-config", "job.yaml", "job.yaml"): "is no key of Flink's configuration",
}
"""Mistakes in a command: words of the line."""


def named(value: object) -> str:
    parts = value if isinstance(value, tuple) else (value,)
    return " ".join(map(str, parts)).replace("\n", " ")[:50]


@pytest.mark.parametrize(("edit", "words"), IN_THE_FILE.items(), ids=named)
def test_a_mistake_in_a_file(
    edit: tuple[str, str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, right = edit
    assert FILE.count(right) >= 1
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(FILE.replace(right, wrong, 1))
    line = refused("run", "job.yaml")
    assert words in line and "job.yaml" in line


@pytest.mark.parametrize(("asked", "words"), ASKED.items(), ids=named)
def test_a_mistake_in_a_command(
    asked: tuple[object, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.yaml").write_text(FILE)
    assert words in refused(*asked)
    assert [each.name for each in tmp_path.iterdir()] == ["job.yaml"]
