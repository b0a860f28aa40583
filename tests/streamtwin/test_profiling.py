"""Profiles: what they recover, how they are kept, and what is planned with them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from scenarios.files import registry, scenario_file
from scenarios.files.scenario_file import set_value
from streamtwin.connect import profiles
from streamtwin.connect.profiles import OperatorProfile, instantiate, profile
from tests.commands import twin
from twin.deployment import nominal_rates
from twin.errors import BadInput
from twin.query import Join

LR = scenario_file.load("briskstream-lr")
SAMPLES = 3000
ROUTED = """
name: routed
engine: flink
query:
  operators:
    - {{name: gen, kind: source, service_time_s: 1.0e-5}}
    - {{name: split, kind: router, service_time_s: 1.0e-4, shares: {{a: {}, b: {}}}}}
    - {{name: a, kind: map, service_time_s: 1.0e-4, record_bytes: 100}}
    - {{name: b, kind: map, service_time_s: 1.0e-4, record_bytes: 300}}
    - {{name: store, kind: sink, service_time_s: 1.0e-4}}
  streams:
    - {{producer: gen, consumer: split}}
    - {{producer: split, consumer: a}}
    - {{producer: split, consumer: b}}
    - {{producer: a, consumer: store}}
    - {{producer: b, consumer: store}}
cluster:
  hosts: [{{name: h, cpu_percent: 400, ram_mb: 4000, bandwidth_mbps: 100, latency_ms: 1}}]
plan: {{placement: {{gen: h, split: h, a: h, b: h, store: h}}}}
workload: {{arrivals: {{gen: {{law: poisson, rate_per_s: 1000}}}}}}
"""


@pytest.fixture(scope="module")
def found() -> dict[str, OperatorProfile]:
    return profile(LR.deployment, SAMPLES, seed=3)


def test_profiles_recover_what_the_scenario_says(found: dict[str, OperatorProfile]) -> None:
    """Profiles recover times (service_scv 0.1) and numbers of results within sampling error, sizes exactly."""
    for operator in LR.query.operators:
        each = found[operator.name]
        assert each.samples == SAMPLES
        assert each.mean_s == pytest.approx(operator.service_time_s, rel=5 * np.sqrt(0.1 / SAMPLES))
        # the median of a Gamma law of shape 10 is 0.9669 of its mean
        assert each.time_s(50) == pytest.approx(0.9669 * operator.service_time_s, rel=0.04)
        assert each.output_bytes == operator.record_bytes
        if operator.kind == "map":
            assert each.selectivity == pytest.approx(operator.selectivity, abs=0.01)
    sizes = {operator.name: operator.record_bytes for operator in LR.query.operators}
    reports, average, count = (sizes[name] for name in ("dispatcher", "last-average-speed", "count-vehicles"))
    assert found["average-speed"].input_bytes == reports
    assert found["toll-notification"].input_bytes == pytest.approx((reports + average + count) / 3, rel=0.01)
    assert found["accident-notification"].input_bytes == reports, "accident-detection emits nothing"


def test_the_instantiated_job_is_the_job_up_to_its_profiles(found: dict[str, OperatorProfile]) -> None:
    known = instantiate(LR, found, 90)
    assert known.query.streams == LR.query.streams and known.plan == LR.plan and known.run == LR.run
    true, told = (nominal_rates(each.query, each.workload.arrivals) for each in (LR, known))
    for operator in known.query.operators:
        assert operator.service_time_s == found[operator.name].time_s(90)
        assert told[operator.name].in_per_s == pytest.approx(true[operator.name].in_per_s, rel=0.01)


def test_percentiles_order_how_optimistic_a_job_looks(found: dict[str, OperatorProfile]) -> None:
    times = [
        [each.service_time_s for each in instantiate(LR, found, percentile).query.operators]
        for percentile in (0, 5, 50, 50.5, 95, 100)
    ]
    assert all(low < high for a, b in pairwise(times) for low, high in zip(a, b, strict=True))


@pytest.mark.parametrize("name", ["spike-detection", "advertisement"])
def test_jobs_with_windows_and_joins_keep_their_rates(name: str) -> None:
    scenario = scenario_file.load(name)
    known = instantiate(scenario, profile(scenario.deployment, 4000, seed=0))
    true, told = (nominal_rates(each.query, each.workload.arrivals) for each in (scenario, known))
    for operator in known.query.operators:
        assert told[operator.name].in_per_s == pytest.approx(true[operator.name].in_per_s, rel=0.25)
        if isinstance(operator, Join):
            assert operator.amplification is not None and operator.selectivity is None


def test_a_file_loads_back_equal_and_is_read_strictly(found: dict[str, OperatorProfile], tmp_path: Path) -> None:
    path = tmp_path / "lr.json"
    kept = profiles.profiles_of(LR, found, SAMPLES, 3)
    path.write_text(profiles.dump(kept))
    loaded = profiles.load(path)
    assert loaded == kept
    assert instantiate(LR, loaded.operators) == instantiate(LR, found)

    def mistaken(old: str, new: str, expected: str) -> None:
        path.write_text(profiles.dump(kept).replace(old, new, 1).replace('"sha256"', '"by hand"'))
        with pytest.raises(BadInput, match=expected):
            instantiate(LR, profiles.load(path).operators)

    mistaken('"mean_s"', '"mean"', "unknown key 'mean'; did you mean 'mean_s'")
    mistaken('"spout"', '"spot"', "names 'spot'.*did you mean 'spout'")
    mistaken('"samples": 3000, "times_s": [', '"samples": 3000, "times_s": [1, ', "at most 101")
    mistaken("{", "", "is not JSON.*twin profile")


def test_what_cannot_be_profiled_or_planned_with_is_refused(found: dict[str, OperatorProfile]) -> None:
    free = found["sink"].model_copy(update={"times_s": (0.0,) * 101})
    with pytest.raises(BadInput, match=r"'sink' has a profile with zero cost at percentile 50.*take a higher"):
        instantiate(LR, found | {"sink": free})
    with pytest.raises(BadInput, match="nothing of operator 'sink'"):
        instantiate(LR, {name: each for name, each in found.items() if name != "sink"})
    with pytest.raises(BadInput, match="percentile must be from 0 to 100, got 101"):
        instantiate(LR, found, 101)
    dead = set_value(LR, "query.operators.parser.selectivity=0")
    with pytest.raises(BadInput, match="'dispatcher' cannot be profiled: parser emitted nothing for it"):
        profile(dead.deployment, 10)


@pytest.mark.parametrize("name", registry.names())
def test_any_job_is_profiled_or_refused_in_one_line(name: str) -> None:
    """Every job of the library is profiled or refused in one line, also with network buffers or routers."""
    job, why_not = scenario_file.load(name), ""
    try:
        instantiate(job, profile(job.deployment, 300))
    except BadInput as error:
        why_not = str(error)
    told = ("cannot be profiled", "has a profile with zero cost")
    assert not why_not or (any(words in why_not for words in told) and "\n" not in why_not)
    assert name != "page-views" or "forms windows of partial results together with others" in why_not


@pytest.mark.parametrize("shares", [(0.7, 0.2), (0.7, 0.6)], ids=["to-one-consumer", "to-several"])
def test_consumers_of_a_router_are_profiled_at_their_shares(shares: tuple[float, float]) -> None:
    """Consumers of a router get its shares, and the mixture of sizes by how much each of two sources sends."""
    job = scenario_file.parse_scenario(ROUTED.format(*shares), "routed")
    found = profile(job.deployment, SAMPLES)
    assert found["split"].selectivity == pytest.approx(min(1.0, sum(shares)), abs=0.03)
    of_a, of_b = (share * size for share, size in zip(shares, (100, 300), strict=True))
    assert found["store"].input_bytes == pytest.approx((of_a + of_b) / sum(shares), rel=0.05)
    true, told = (nominal_rates(each.query, each.workload.arrivals) for each in (job, instantiate(job, found)))
    assert told["store"].in_per_s == pytest.approx(true["store"].in_per_s, rel=0.05)


def test_same_seed_same_profile_and_other_seed_another() -> None:
    quick = scenario_file.load("edge-filter").deployment
    assert profile(quick, 50, seed=1) == profile(quick, 50, seed=1) != profile(quick, 50, seed=2)


@pytest.mark.slow
def test_profile_model_plan_and_simulate_in_one_command(tmp_path: Path) -> None:
    """A job profiled at once or from a file gets the same plan, and the true job is written."""
    out, plan, figure = tmp_path / "profiles.json", tmp_path / "plan.yaml", tmp_path / "times.png"
    done = twin("profile", "smart-grid", "--out", out, "--figure", figure, "--json", "--percentile", 75)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    scenario = scenario_file.load("smart-grid")
    assert set(document["operators"]) == {each.name for each in scenario.query.operators}
    assert document["percentile"] == 75 and document["manifest"]["scenario"] == "smart-grid"
    assert figure.read_bytes().startswith(b"\x89PNG")
    options = ("--estimates", 40, "--json", "--percentile", 75)
    once = json.loads(twin("optimize", "smart-grid", "--profiled", *options).stdout)
    again = json.loads(twin("optimize", "smart-grid", "--profile", out, *options, "--out", plan).stdout)
    assert once["placement"] == again["placement"] and once["predicted"] == again["predicted"]
    written = scenario_file.load(str(plan))
    assert written.query == scenario.query
    run = json.loads(twin("run", plan, "--json").stdout)
    assert again["simulated"] == pytest.approx(run["processing_latency_s"]["mean"])


def test_profiles_are_read_as_tables_with_progress_on_stderr() -> None:
    done = twin("profile", "edge-filter", "--samples", 100)
    assert done.returncode == 0, done.stderr
    assert "sensors" in done.stdout and "95 %" in done.stdout
    assert "operators profiled" in done.stderr
