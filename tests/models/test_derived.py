"""Tests of the derived and the flat vector: documented, finite where they apply, independent of the order of hosts."""

from __future__ import annotations

import numpy as np
import pytest

from models.dataset import RowSplit, of_deployments
from models.job_columns import job_columns
from models.predictors import BoostedTrees, FittedTrees, FlatCosts
from models.trees import TreeSettings
from models.vectors import DERIVED, FLAT, derived_vector, flat_vector
from papers.costream.judging import cells
from tests.models.deployments import random_deployment
from twin.cluster import Cluster
from twin.deployment import Deployment, nominal_rates
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.scenario import Scenario

HORIZON_S = 120.0


def vector(deployment: Deployment) -> dict[str, float]:
    answer = RateModel(horizon_s=HORIZON_S).answer(deployment, [deployment.plan])
    values = derived_vector(job_columns(deployment), answer, HORIZON_S)
    return dict(zip([feature.name for feature in DERIVED], values, strict=True))


def test_every_entry_has_a_name_of_its_own_and_says_what_it_is() -> None:
    assert len({feature.name for feature in DERIVED}) == len(DERIVED)
    assert all(feature.unit and feature.meaning for feature in DERIVED)


@pytest.mark.parametrize("seed", range(8))
def test_only_what_does_not_apply_is_missing(seed: int) -> None:
    deployment = random_deployment(seed)
    kinds = {operator.kind for operator in deployment.query.operators}
    for name, value in vector(deployment).items():
        absent = [
            kind for kind in ("filter", "map", "aggregate", "join", "async") if kind in name and kind not in kinds
        ]
        windowless = name == "evaluations" and not kinds & {"aggregate", "join"}
        counted = name in {f"{kind}s" for kind in absent}
        assert np.isnan(value) == ((bool(absent) and not counted) or windowless), name


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_hosts_and_those_not_in_use_do_not_matter(seed: int) -> None:
    one = random_deployment(seed)
    unused = one.cluster.hosts[0].model_copy(update={"name": "unused", "cpu_percent": 123.0})
    other = one.model_copy(update={"cluster": Cluster(hosts=(unused, *one.cluster.hosts[::-1]))})
    first, second = vector(one), vector(other)
    for name, value in first.items():
        assert value == pytest.approx(second[name], rel=1e-6, nan_ok=True), name


@pytest.mark.parametrize("seed", range(8))
def test_flows_are_those_of_the_rates(seed: int) -> None:
    deployment = random_deployment(seed)
    rates, found = nominal_rates(deployment.query, deployment.workload.arrivals), vector(deployment)
    sinks = [rates[sink.name].in_per_s for sink in deployment.query.sinks]
    assert found["sink_in"] == pytest.approx(sum(sinks))
    assert found["source_in_sum"] == pytest.approx(
        sum(law.mean_rate_per_s for law in deployment.workload.arrivals.values())
    )
    assert found["sources"] == len(deployment.query.sources)
    together = deployment.with_plan(deployment.plan.model_copy(
        update={"placement": dict.fromkeys(deployment.plan.placement, ("h0",))}
    ))  # fmt: skip
    alone = vector(together)
    assert (alone["hosts"], alone["remote_streams"], alone["remote_traffic"]) == (1, 0, 0)
    assert alone["traffic"] == pytest.approx(found["traffic"])


def flat(deployment) -> dict[str, float]:
    return dict(zip(FLAT, flat_vector(job_columns(deployment)), strict=True))


def on_one_host(deployment, host: str):
    names = [operator.name for operator in deployment.query.operators]
    return deployment.with_plan(deployment.plan.with_placement(dict.fromkeys(names, (host,))))


def test_it_sees_which_hosts_are_used_and_what_leaves_them() -> None:
    job = random_deployment(5)
    hosts = job.cluster.hosts
    seen = [flat(on_one_host(job, host.name)) for host in hosts]
    for each, host in zip(seen, hosts, strict=True):
        assert each["hosts_used"] == 1 and each["share_of_streams_between_hosts"] == 0
        assert each["operators_on_the_fullest_host"] == len(job.query.operators)
        assert each["cpu_percent_min"] == each["cpu_percent_mean"] == each["cpu_percent_max"] == host.cpu_percent
    first = job.query.operators[0].name
    moved = on_one_host(job, hosts[0].name)
    moved = moved.with_plan(moved.plan.with_placement({**moved.plan.placement, first: (hosts[1].name,)}))
    apart = flat(moved)
    assert apart["hosts_used"] == 2 and 0 < apart["share_of_streams_between_hosts"] <= 1
    query = [name for name in FLAT if name.endswith("s") and name[:-1] in ("source", "filter", "join", "sink")]
    assert query and all(apart[name] == seen[0][name] for name in query)


@pytest.fixture(scope="module")
def trees() -> FittedTrees:
    jobs = [random_deployment(seed) for seed in range(40)]
    labels = np.array(
        [[1.0 + job.cluster.hosts[0].cpu_percent, 1.0, 1.0, i // 4 % 2, i // 4 % 2] for i, job in enumerate(jobs)]
    )
    few = TreeSettings(rounds=5, leaf_rows=2)
    parts = RowSplit(*(np.arange(start, 40, 4) for start in (0, 1, 2)))
    return BoostedTrees("flat", "flat", "raw", few).fit(of_deployments(jobs, labels), parts, 0)


def test_its_trees_judge_plans_as_they_judge_rows(trees: FittedTrees) -> None:
    jobs = [random_deployment(seed) for seed in (3, 7)]
    as_rows = trees.predict(of_deployments(jobs, np.ones((2, 5))))
    for row, job in enumerate(jobs):
        found = FlatCosts(trees).predict(Scenario.of(job), [job.plan, job.plan])
        for metric, values in as_rows.items():
            assert found[metric].tolist() == [values[row]] * 2


def test_trees_over_another_vector_are_refused(trees: FittedTrees) -> None:
    other = FittedTrees("derived", "derived", trees.by_metric, trees.seen)
    with pytest.raises(BadInput, match="does not rest on the flat vector"):
        FlatCosts(other)


def test_standard_errors_stand_beside_what_they_are_of() -> None:
    assert cells("success", [0.9, None], [0.012, None])["success"] == "90.0% ± 1.2%"
    assert cells("throughput_per_s", [1.5, 9.0], [0.02, 1.25])["throughput_per_s"] == "1.50 ± 0.02 / 9.00 ± 1.2"
    assert "±" not in str(cells("throughput_per_s", [1.5, 9.0])["throughput_per_s"])
