"""Encodings: the same in pieces and by other processes, kept in a file of today's code only, descriptions as drawn."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from models import encoding
from models.encoding import Encoded, Text, encode, encode_texts, join
from tests.models.deployments import random_deployment
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.metrics import METRICS
from twin.plan import ExecutionPlan
from twin.query import Columns, Filter, Query, Sink, Source, Stream
from twin.rates.channels import MeasuredSpan
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.workload import Poisson, Workload

MINUTES = MeasuredSpan(0.0, 240.0)


def deployments(count: int = 6) -> list[Deployment]:
    return [random_deployment(seed) for seed in range(count)]


def assert_equal(one: Encoded, other: Encoded) -> None:
    for mine, theirs in zip(one.graphs.nodes, other.graphs.nodes, strict=True):
        np.testing.assert_array_equal(mine.rows, theirs.rows)
        np.testing.assert_array_equal(mine.start, theirs.start)
    np.testing.assert_array_equal(one.graphs.context_GxC, other.graphs.context_GxC)
    np.testing.assert_array_equal(one.graphs.rates_GxA, other.graphs.rates_GxA)
    np.testing.assert_array_equal(one.flat_GxF, other.flat_GxF)
    np.testing.assert_array_equal(one.about_GxA, other.about_GxA)


def test_pieces_processes_and_text_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = deployments()
    whole = encode(jobs, [MINUTES] * len(jobs))
    assert_equal(join([encode(jobs[:2], [MINUTES] * 2), encode(jobs[2:], [MINUTES] * 4)]), whole)
    monkeypatch.setattr(encoding, "CHUNK", 4)
    monkeypatch.setattr(encoding, "PARALLEL_FROM", 1)
    texts = [Text("run", job.model_dump_json(), MINUTES) for job in jobs]
    seen: list[tuple[int, int]] = []
    assert_equal(encode_texts(texts, lambda *done: seen.append(done), workers=2), whole)
    assert seen == [(4, 6), (6, 6)]


def test_rows_hold_what_the_rate_model_says_of_what_was_measured_of_a_run() -> None:
    job = random_deployment(1)
    said = []
    for span in (MeasuredSpan(0.0, 10.0), MeasuredSpan(0.0, 1000.0), MeasuredSpan(5.0, 10.0)):
        run = RunSettings(horizon_s=span.end_s, warmup_s=span.start_s)
        answer = RateModel().predict(Scenario.of(job, run), [job.plan])
        said.append([answer[metric][0] for metric in METRICS])
        np.testing.assert_array_equal(encode([job], [span]).graphs.rates_GxA[0, : len(METRICS)], said[-1])
    assert said[2] != said[0]


def test_file_gives_back_what_was_written_and_only_for_the_same_rows_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = np.array(list("abcdef"))
    encoded = encode(deployments(), [MINUTES] * 6)
    assert encoding.read(tmp_path, hashes) is None
    encoding.write(tmp_path, encoded, hashes)
    again = encoding.read(tmp_path, hashes)
    assert again is not None
    assert_equal(again, encoded)
    assert encoding.read(tmp_path, hashes[::-1]) is None
    path = encoding.path_in(tmp_path)
    content, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(100):
        bit = int(rng.integers(8 * len(content)))
        path.write_bytes(content[: bit // 8] + bytes([content[bit // 8] ^ 1 << bit % 8]) + content[bit // 8 + 1 :])
        damaged = encoding.read(tmp_path, hashes)
        if damaged is not None:  # a bit may be in a part that decides nothing
            assert_equal(damaged, encoded)
    behind = content.index(b"%r, }" % (encoded.derived_GxD.shape,)) + 16  # a bracket after the header of a large array
    path.write_bytes(content[:behind] + b"(" + content[behind + 1 :])
    assert encoding.read(tmp_path, hashes) is None
    path.write_bytes(content[:1000])
    assert encoding.read(tmp_path, hashes) is None
    monkeypatch.setattr(encoding, "code_version", lambda: "other")
    assert encoding.read(tmp_path, hashes) is None


def test_what_decides_an_encoding_is_in_its_version() -> None:
    """A source file that moves must take its place in the version along."""
    names = {path.relative_to(Path(encoding.__file__).parents[1]).as_posix() for path in encoding.sources()}
    assert {"models/graph.py", "twin/profiles.py", "twin/profile_costs.py", "twin/deployment.py"} <= names
    assert {"twin/kinds/flow.py", "twin/rates/model.py"} <= names


def test_a_deployment_that_is_none_is_bad_input_with_the_run_s_name() -> None:
    with pytest.raises(BadInput, match="deployment of run 'run-7' is not valid"):
        encode_texts([Text("run-7", "{}", MINUTES)])


def test_filter_chain_counts_filters_in_a_row() -> None:
    names = ["a", "f", "g", "h", "out"]
    operators = [Source(name="a", columns=Columns(ints=3)), *(_filter(name) for name in "fgh"), Sink(name="out")]
    streams = [Stream(producer=one, consumer=other) for one, other in itertools.pairwise(names)]
    query = Query(operators=tuple(operators), streams=tuple(streams))
    hosts = random_deployment(0).cluster
    plan = ExecutionPlan(placement=dict.fromkeys(names, (hosts.hosts[0].name,)))
    arrivals = Workload(arrivals={"a": Poisson(rate_per_s=10.0)})
    job = Deployment(query=query, cluster=hosts, plan=plan, workload=arrivals)
    assert encode([job], [MINUTES]).about["filter_chain"].tolist() == [3.0]


def test_description_is_over_the_hosts_in_use() -> None:
    for job in deployments():
        about = encode([job], [MINUTES]).about
        used = {text for places in job.plan.placement.values() for text in places}
        cpus = [host.cpu_percent for host in job.cluster.hosts if host.name in used]
        assert about["hosts"] == len(used)
        assert about["cpu_percent_min"] == min(cpus)
        assert about["cpu_percent_max"] == max(cpus)
        assert about["cpu_percent_mean"] == pytest.approx(np.mean(cpus))
        assert about["operators"] == len(job.query.operators)


def _filter(name: str) -> Filter:
    return Filter(name=name, selectivity=0.5, function="!=", literal_type="int")
