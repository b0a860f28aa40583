"""Controller: what a policy sees, and that the loop closes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from optimizers.policies import room
from optimizers.policies.ds2 import Ds2Spec
from optimizers.policies.flink_autoscaler import FlinkAutoscalerSpec
from optimizers.policies.moves import MonitoringSpec, RelieveSpec
from tests.twin.changing import HOSTS, column, job, run
from tests.twin.fused_jobs import fuse
from tests.twin.worlds import chain, placed
from twin.control import PeriodStatistics, PolicySpec, Reconfiguration
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import Failure, Migration, Move, RateChange, Rescale
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

SOON = {"stabilization_interval_periods": 1, "metrics_window_periods": 2}


@dataclass
class Scripted:
    """Policy that takes given decisions, period by period, and keeps what it saw."""

    script: dict[int, Reconfiguration] = field(default_factory=dict)
    seen: list[PeriodStatistics] = field(default_factory=list)
    name: str = "scripted"

    def decide(self, statistics: PeriodStatistics) -> Reconfiguration | None:
        self.seen.append(statistics)
        return self.script.get(round(statistics.end_s))


def test_a_policy_sees_each_period_as_the_trace_records_it() -> None:
    policy = Scripted()
    result = run(job(key_groups=8, state_bytes_per_group=1000.0), policy=policy, horizon_s=6)
    assert [each.end_s for each in policy.seen] == [1, 2, 3, 4, 5]
    last = policy.seen[-1]
    assert last.operators["a"] == [row for row in result.operator_rows if row["operator"] == "a"][4]
    assert set(last.hosts) == {"h0", "h1", "h2"}
    assert last.placement["a"] == ("h1", "h1")
    groups = last.key_groups["a"]
    assert sum(each.rate_per_s for each in groups) == pytest.approx(last.operators["a"]["numRecordsIn"], rel=0.1)
    assert {each.subtask for each in groups} == {0, 1}
    assert min(each.state_bytes for each in groups) >= 1000


def test_a_policy_that_does_nothing_changes_nothing() -> None:
    assert run(job(), policy=Scripted()).operator_rows == run(job()).operator_rows


def test_decisions_are_carried_out_after_their_latency() -> None:
    order = Reconfiguration(
        moves=(Move(operator="m", subtask=0, to="h3"),),
        rescales=(Rescale(operator="a", placement=("h1", "h2", "h3")),),
        reason="told to",
    )
    policy = Scripted({3: order})
    result = run(job(), policy=policy, decision_latency_s=0.5, horizon_s=8)
    assert policy.seen[-1].placement == {"source": ("h0",), "m": ("h3",), "a": ("h1", "h2", "h3"), "sink": ("h2",)}
    decision, scale, move = result.event_rows
    assert (decision["kind"], decision["component"], decision["at_s"]) == ("decision", "scripted", 3.0)
    assert (scale["kind"], move["kind"]) == ("scale", "migration")
    assert scale["at_s"] == 3.5 and move["at_s"] >= 3.5
    assert result.manifest["config_hash"] != run(job(), horizon_s=8, decision_latency_s=0.5).manifest["config_hash"]


def test_a_policy_is_not_asked_during_an_outage() -> None:
    policy = Scripted()
    run(job(), Failure(at_s=4.5, host="h1", recover_after_s=3), policy=policy, horizon_s=10)
    assert [each.end_s for each in policy.seen] == [1, 2, 3, 4, 8, 9]


def test_a_policy_is_not_asked_while_a_move_is_under_way() -> None:
    policy = Scripted()
    move = Migration(at_s=2.5, operator="a", subtask=0, to="h3")
    result = run(job(key_groups=4, state_bytes_per_group=5e6), move, policy=policy, horizon_s=10)
    ended_s = result.event_rows[0]["end_s"]
    assert ended_s > 4.0  # 10 MB through a card of 100 Mbit/s, and serialised
    assert [period.end_s for period in policy.seen] == [
        end_s for end_s in range(1, 10) if end_s < 2.5 or end_s > ended_s
    ]


@pytest.mark.parametrize(
    ("order", "complaint"),
    [
        (Reconfiguration(moves=(Move(operator="a", subtask=5, to="h1"),)), "has no subtask 5"),
        (Reconfiguration(moves=(Move(operator="b", subtask=0, to="h1"),)), "unknown operator 'b'"),
        (Reconfiguration(rescales=(Rescale(operator="source", placement=("h1",)),)), "fixed partitions"),
        (Reconfiguration(rescales=(Rescale(operator="sink", placement=("h2", "h2")),)), "'sink' is pinned"),
        (Reconfiguration(moves=(Move(operator="sink", subtask=0, to="h1"),)), "'sink' is pinned"),
    ],
)
def test_an_impossible_order_is_an_error_that_names_the_policy(order: Reconfiguration, complaint: str) -> None:
    with pytest.raises(BadInput, match=f"policy 'scripted'.*{complaint}"):
        run(pinned(job(), "sink"), policy=Scripted({2: order}))


def pinned(deployment: Deployment, *names: str) -> Deployment:
    """Job with these operators pinned."""
    query = deployment.query
    operators = (each.model_copy(update={"pinned": each.name in names}) for each in query.operators)
    return deployment.model_copy(update={"query": query.model_copy(update={"operators": tuple(operators)})})


@pytest.mark.parametrize("spec", [Ds2Spec(), FlinkAutoscalerSpec(**SOON), MonitoringSpec(), RelieveSpec()])
def test_no_policy_moves_or_scales_a_pinned_operator(spec: PolicySpec) -> None:
    """No policy changes m if it is pinned, though m and a are too slow, on a full host; without the pin each does."""
    slow = placed(
        job(rate=600, service_s=4e-3, service_time_s=4e-3),
        source=("h3",), m=("h0", "h0"), a=("h0", "h0"), sink=("h3",),
    )  # fmt: skip
    hosts = tuple(host.model_copy(update={"cpu_percent": 200}) for host in slow.cluster.hosts)
    slow = slow.model_copy(update={"cluster": slow.cluster.model_copy(update={"hosts": hosts})})
    free, kept = (run(each, policy=spec.start(each), horizon_s=30) for each in (slow, pinned(slow, "m")))
    changed = [{row["component"] for row in each.event_rows if row["kind"] != "decision"} for each in (free, kept)]
    assert "m" in changed[0]
    assert "m" not in changed[1] and "a" in changed[1]


@pytest.mark.parametrize("spec", [Ds2Spec(), FlinkAutoscalerSpec(**SOON)])
def test_a_policy_warns_once_of_what_it_would_scale_and_cannot(spec: PolicySpec) -> None:
    slow = job(rate=800, service_s=2e-3)
    first, *others = slow.query.streams
    streams = (first.model_copy(update={"partitioning": "forward"}), *others)
    slow = slow.model_copy(update={"query": slow.query.model_copy(update={"streams": streams})})
    result = run(slow, policy=spec.start(slow))
    cannot = f"policy {spec.name!r} would scale 'm' up and cannot"
    why = "'m' is fed by a forward stream, which fixes its subtasks; use rebalance or hash"
    assert [each for each in result.warnings if "policy" in each] == [f"{cannot}: {why}"]
    assert not result.event_rows


@pytest.mark.parametrize(
    ("spec", "what"),
    [
        (Ds2Spec(), "scale no operator"),
        (FlinkAutoscalerSpec(**SOON), "scale no operator"),
        (RelieveSpec(), "move no subtask"),
        (MonitoringSpec(), "move no subtask"),
    ],
)
def test_a_policy_that_can_do_nothing_says_why_once(spec: PolicySpec, what: str) -> None:
    still = pinned(job(), "source", "m", "a", "sink")
    (told,) = [each for each in run(still, policy=spec.start(still)).warnings if "policy" in each]
    assert told.startswith(f"policy {spec.name!r} can {what}: 'source' is") and told.endswith("; nor can 2 others")


@pytest.mark.parametrize(
    ("reasons", "says"),
    [
        ({"a": "x", "b": "x", "c": "x"}, "x"),
        ({"a": "x", "b": "y", "c": "z", "d": "x"}, "x; y; nor can 1 other"),
        ({"a": "x", "b": "y", "c": "z", "d": "z"}, "x; y; nor can 2 others"),
    ],
)
def test_a_reason_is_told_once_however_many_operators_have_it(reasons: dict[str, str], says: str) -> None:
    assert room.told(reasons) == says


@pytest.mark.parametrize(
    ("policy", "hosts", "why"),
    [
        ("relieve", HOSTS[:1], "no subtask of h0 fits another host"),
        ({"name": "balance", "max_migrations": 0}, HOSTS[:2], "no moves within the budget balance the hosts better"),
    ],
)
def test_a_policy_that_changed_nothing_for_a_reason_says_it(policy: Any, hosts: Any, why: str) -> None:
    """Subtasks on one core have 0.9 of work; on two hosts, one has 7 of 8 key groups."""
    narrow = [host | {"cpu_percent": 100} for host in hosts]
    kept = {"kind": "map", "name": "m", "service_time_s": 9e-3, "key_groups": 8}
    placement = {"source": "h0", "m": [host["name"] for host in narrow], "sink": "h0"}
    there = chain([kept], 100, hosts=narrow, placement=placement)
    if len(narrow) > 1:
        there = there.with_plan(there.plan.model_copy(update={"key_groups": {"m": (*[0] * 7, 1)}}))
    settings = {"horizon_s": 20.0, "period_s": 2.0}
    told = simulate(parse(Scenario, {**dict(Scenario.of(there)), "run": settings, "policy": policy})).warnings
    name = policy if isinstance(policy, str) else policy["name"]
    assert [each for each in told if "policy" in each] == [f"policy {name} changed nothing: {why}"]


def test_no_operator_that_runs_as_one_with_a_pinned_one_moves() -> None:
    fused = fuse(pinned(job(), "m"), ("source", "m"))
    with pytest.raises(BadInput, match="'source' runs as one with 'm', which is pinned"):
        run(fused, Migration(at_s=1, operator="source", subtask=0, to="h1"))


def test_ds2_scales_until_backpressure_ends() -> None:
    """After a step to 1.7 times what one subtask can do, a job is backpressured alone, and with DS2 it is not."""
    deployment = job(rate=300, service_s=2e-3)
    step = RateChange(at_s=8, source="source", factor=2.8)
    alone = run(deployment, step, horizon_s=40)
    helped = run(deployment, step, horizon_s=40, policy=Ds2Spec().start(deployment))
    assert alone.metrics.backpressured and column(alone, "source", "backlog")[-1] > 3000
    assert column(helped, "source", "backlog")[-1] < 100
    assert max(column(helped, "m", "parallelism")) >= 2
    decisions = [row for row in helped.event_rows if row["kind"] == "decision"]
    assert 1 <= len(decisions) <= 6, "it settles"


def test_ds2_asks_for_what_the_true_rates_say() -> None:
    """DS2 asks for the next whole number: 840 a second at 2 ms keep 1.68 subtasks busy; at 80 %, 2.1."""
    deployment = job(rate={"law": "constant", "rate_per_s": 840}, service_s=2e-3)
    policy = Scripted()
    run(
        placed(deployment, m=("h0", "h0", "h0")),
        policy=policy,
        horizon_s=6,
    )
    for target, count in ((1.0, 2), (0.8, 3)):
        wanted = Ds2Spec(target_utilisation=target).start(deployment).subtasks_wanted(policy.seen[-1])
        assert wanted["m"] == count


def test_relieve_moves_the_busiest_subtask_off_a_hot_host() -> None:
    deployment = job(rate=300, service_s=2e-3, service_time_s=4e-3)  # "a" needs 1.2 cores, on h1
    narrow = [host.model_copy(update={"cpu_percent": 100}) for host in deployment.cluster.hosts]
    cluster = deployment.cluster.model_copy(update={"hosts": tuple(narrow)})
    deployment = deployment.model_copy(update={"cluster": cluster})
    result = run(deployment, policy=RelieveSpec().start(deployment), horizon_s=40)
    assert next(row["component"] for row in result.event_rows if row["kind"] == "migration") == "a"
    assert column(result, "source", "backlog")[-1] < 150


def test_an_unknown_policy_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ValueError, match="unknown policy 'ds1'; did you mean 'ds2'"):
        Scenario.of(job()).with_policy("ds1")
