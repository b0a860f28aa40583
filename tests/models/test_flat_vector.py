"""The vector of Costream's baseline: what of a placement it tells apart, and its trees as a cost model of plans."""

from __future__ import annotations

import numpy as np
import pytest

from models.dataset import RowSplit, of_deployments
from models.job_columns import job_columns
from models.predictors import BoostedTrees, FittedTrees, FlatCosts
from models.trees import TreeSettings
from models.vectors import FLAT, flat_vector
from papers.costream.judging import cells
from tests.models.deployments import random_deployment
from twin.errors import BadInput
from twin.scenario import Scenario


def vector(deployment) -> dict[str, float]:
    return dict(zip(FLAT, flat_vector(job_columns(deployment)), strict=True))


def on_one_host(deployment, host: str):
    names = [operator.name for operator in deployment.query.operators]
    return deployment.with_plan(deployment.plan.with_placement(dict.fromkeys(names, (host,))))


def test_it_sees_which_hosts_are_used_and_what_leaves_them() -> None:
    job = random_deployment(5)
    hosts = job.cluster.hosts
    seen = [vector(on_one_host(job, host.name)) for host in hosts]
    for each, host in zip(seen, hosts, strict=True):
        assert each["hosts_used"] == 1 and each["share_of_streams_between_hosts"] == 0
        assert each["operators_on_the_fullest_host"] == len(job.query.operators)
        assert each["cpu_percent_min"] == each["cpu_percent_mean"] == each["cpu_percent_max"] == host.cpu_percent
    first = job.query.operators[0].name
    moved = on_one_host(job, hosts[0].name)
    moved = moved.with_plan(moved.plan.with_placement({**moved.plan.placement, first: (hosts[1].name,)}))
    apart = vector(moved)
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
