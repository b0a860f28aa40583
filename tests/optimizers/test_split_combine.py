"""Split or combined: by the CPU that each form takes, with pauses within a limit; and as in the simulator."""

from __future__ import annotations

from typing import Any

import pytest

import optimizers.policies
from optimizers.policies.balance import SplitCombineSpec
from tests.twin.event_jobs import compute, consolidate, job, sink, source
from twin.control import policy_spec
from twin.errors import BadInput
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

POLICIES = optimizers.policies.POLICIES
HORIZON_S = 40.0
DRIFT = {"zipf": 0.6, "drift_every_s": 5.0, "drift_share": 0.5}


def simple_job(combined: bool, drift: bool = False, policy: Any = None, key_groups: Any = None) -> Scenario:
    """Simple job of the paper, small: panes of 2 s into windows of 10 and 20 s."""
    shared = {"keys": 800, "key_groups": 12}
    chain = [
        source(service_time_s=0),
        compute(
            partial_s=2, service_time_s=15e-4, execute_time_s=1e-4, state_bytes_per_key=1500, record_bytes=500, **shared
        ),
        consolidate(
            service_time_s=2e-5,
            merge_time_s=5e-6,
            combined=combined,
            windows=[{"length_s": 10}, {"length_s": 20}],
            **shared,
        ),
        sink(),
    ]
    made = job(chain, rate_per_s=1200, policy=policy, key_groups=key_groups, horizon_s=HORIZON_S, period_s=5.0)
    document = made.model_dump()
    document["workload"]["keys"] = {"compute": DRIFT} if drift else {}
    return parse(Scenario, document)


def operations(run: Run) -> list[str]:
    return [row["kind"] for row in run.event_rows if row["kind"] in ("split", "combine")]


@pytest.mark.parametrize(
    ("combined", "drift", "limit_s", "expected"),
    [
        (True, False, None, []),
        (False, False, None, ["combine"]),
        (True, True, 0.001, ["split"]),
        (False, True, 0.001, []),
    ],
)
def test_it_combines_if_nothing_moves_and_splits_under_a_limit(
    combined: bool, drift: bool, limit_s: float | None, expected: list[str]
) -> None:
    policy = {"name": "split-combine", "paused_limit_s": limit_s}
    run = simulate(simple_job(combined, drift, {key: value for key, value in policy.items() if value is not None}))
    assert operations(run) == expected
    if drift:
        after = [row for row in run.event_rows if row["kind"] == "migration" and (not combined or row["at_s"] > 21.0)]
        assert after
        assert all(row["paused_s"] == 0.0 for row in after)


def test_the_form_that_the_model_finds_cheaper_is_cheaper_in_the_simulator() -> None:
    """The cheaper form by the model takes less CPU in runs; split, consolidates are elsewhere than computes."""
    away = [(owner + 1) % 3 for owner in (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2)]
    runs = {
        "combined": simulate(simple_job(combined=True)),
        "split": simulate(simple_job(combined=False, key_groups={"merge": away})),
    }
    used_s = {
        name: sum(row["cpuUtilisation"] * 5.0 for row in run.host_rows if row["host"] != "ends")
        for name, run in runs.items()
    }
    policy = SplitCombineSpec().start(simple_job(combined=True))
    combined, split = policy.costs("compute", 1200.0, 0.0)
    assert combined.cpu_s < split.cpu_s
    assert used_s["combined"] < used_s["split"]
    assert used_s["split"] - used_s["combined"] == pytest.approx(
        HORIZON_S / 20.0 * (split.cpu_s - combined.cpu_s), rel=0.2
    )


def test_it_refuses_a_job_without_such_a_component() -> None:
    lonely = job([source(), compute(windows=[{"length_s": 1}]), sink()])
    with pytest.raises(BadInput, match="needs a compute with partial_s"):
        policy_spec("split-combine").start(lonely)
    assert "split-combine" in POLICIES


def test_flux_moves_by_the_strategy_that_is_asked_for() -> None:
    run = simulate(simple_job(False, drift=True, policy={"name": "flux", "strategy": "disruptive"}))
    moved = [row for row in run.event_rows if row["kind"] == "migration" and row["component"] == "compute"]
    assert moved
    assert {row["detail"]["strategy"] for row in moved} == {"disruptive"}


@pytest.mark.parametrize("name", ["balance", "flux", "adaptation", "albic"])
def test_every_policy_in_rounds_moves_key_groups_by_the_strategy_that_it_is_given(name: str) -> None:
    """Policies in rounds use the given strategy of migration, and by default the cheapest, instant."""
    home = {"compute": [0, 0, 0, 0], "merge": [0, 0, 1, 1]}
    strategies = []
    for given in ({"strategy": "smooth"}, {}):
        run = simulate(job(policy={"name": name} | given, key_groups=home, rate_per_s=300.0, period_s=1.0))
        moved = [row["detail"] for row in run.event_rows if row["kind"] == "migration"]
        strategies.append({detail["strategy"] for detail in moved})
    assert strategies == [{"smooth"}, {"instant"}]
