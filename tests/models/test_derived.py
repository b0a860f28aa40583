"""The derived vector: documented, finite where it applies, and the same however the hosts are listed."""

from __future__ import annotations

import numpy as np
import pytest

from models.job_columns import job_columns
from models.vectors import DERIVED, derived_vector
from tests.models.deployments import random_deployment
from twin.cluster import Cluster
from twin.deployment import Deployment
from twin.flow import nominal_rates
from twin.rates.model import RateModel

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
