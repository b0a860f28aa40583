"""Decisions of the published autoscalers, worked out by hand: statistics in, numbers of subtasks out.

Periods are minutes, as Flink's autoscaler looks once a minute. With its defaults a vertex should be capable of
T / 0.7 + T x 5 / 30 + lag / 1800 records a second, in whole ones, if T a second should come to it: at 70 % busy, and to
make up within 30 minutes for the lag and a restart of 5. It is left alone from T + lag / 1800 to T / 0.4 + T / 6 + lag
/ 1800. Its true rate is what it takes in over the busy share of its busiest subtask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from optimizers.policies.ds2 import Ds2Spec
from optimizers.policies.flink_autoscaler import FlinkAutoscalerSpec, aligned
from twin.control import PeriodStatistics, Policy, PolicySpec
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse

LENGTH_S = 60.0
HOST = {"name": "tm", "cpu_percent": 40_000, "ram_mb": 64_000, "bandwidth_mbps": 10_000, "latency_ms": 0.1}
NOW = {"metrics_window_periods": 1, "stabilization_interval_periods": 0}
AT_ONCE = {**NOW, "scale_down_interval_periods": 0}


def job(
    subtasks: int = 1, groups: int | None = None, partitions: int | None = None, readers: int = 1, sinks: int = 1
) -> Deployment:
    """Job source -> m -> sink under Flink. partitions: of the source, which is chained to a map then."""
    source = {"name": "source", "kind": "source", "service_time_s": 1e-5}
    if partitions is not None:
        source |= {"kind": "kafka-source", "partitions": partitions}
    middle = {"name": "m", "kind": "map", "service_time_s": 1e-3, "key_groups": groups}
    chained = [{"name": "parse", "kind": "map", "service_time_s": 1e-5}] * (partitions is not None)
    operators = [source, *chained, middle, {"name": "sink", "kind": "sink"}]
    names = [str(operator["name"]) for operator in operators]
    streams = [{"producer": one, "consumer": other} for one, other in pairwise(names)]
    placement: dict[str, Any] = dict.fromkeys(names, "tm") | {"m": {"tm": subtasks}, "sink": {"tm": sinks}}
    placement["source"] = {"tm": readers}
    if chained:
        streams[0] |= {"partitioning": "forward"}
        placement["parse"] = {"tm": readers}
    plan = {"placement": placement, **({"fused": [["source", "parse"]]} if chained else {})}
    query = {"operators": [{k: v for k, v in each.items() if v is not None} for each in operators], "streams": streams}
    data = {"query": query, "cluster": {"hosts": [HOST]}, "plan": plan, "engine": "flink"}
    return parse(Deployment, data | {"workload": {"arrivals": {"source": {"law": "poisson", "rate_per_s": 100}}}})


@dataclass(frozen=True, kw_only=True)
class Minute:
    """One minute of a job. came, read: records a second, at the source. lag: records at the end. busy: shares of time,
    of each subtask, by operator; 1 % where not given. blocked: share of time of the source."""

    came: float
    read: float | None = None
    lag: float = 0.0
    busy: Mapping[str, Sequence[float]] = field(default_factory=dict)
    blocked: float = 0.0

    def of(self, job: Deployment, placement: Mapping[str, tuple[str, ...]], number: int) -> PeriodStatistics:
        """Statistics of the job's minute of that number."""
        read = self.came if self.read is None else self.read
        operators, subtasks = {}, {}
        for name, places in placement.items():
            busy = self.busy.get("source" if name == "parse" else name, [0.01] * len(places))
            source = job.query.operator(name).is_source
            row = {
                "parallelism": len(places),
                "numRecordsIn": read * LENGTH_S,
                "numRecordsOut": read * LENGTH_S,
                "arrived": self.came * LENGTH_S if source else None,
                "backlog": self.lag if source else None,
                "backPressuredTimeMsPerSecond": 1000 * self.blocked * source,
            }
            operators[name] = row | {"busyTimeMsPerSecond": 1000 * sum(busy) / len(busy)}
            subtasks[name] = [row | {"busyTimeMsPerSecond": 1000 * share} for share in busy]
        span = number * LENGTH_S, (number + 1) * LENGTH_S
        return PeriodStatistics(*span, operators, {"tm": {"cpuUtilisation": 0.1}}, placement, subtasks=subtasks)


def told(job: Deployment, spec: PolicySpec, *minutes: Minute) -> list[tuple[dict[str, int], str]]:
    """Numbers of subtasks that change after each minute, and warnings. Changes are carried out at once."""
    policy: Policy = spec.start(job)
    placement = {name: tuple(places) for name, places in job.plan.placement.items()}
    found = []
    for number, minute in enumerate(minutes):
        decision = policy.decide(minute.of(job, dict(placement), number))
        rescales = {} if decision is None else {each.operator: each.placement for each in decision.rescales}
        placement |= rescales
        if "source" in rescales and "parse" in placement:
            placement["parse"] = rescales["source"]
        warnings = "" if decision is None else "; ".join(decision.warnings)
        found.append(({name: len(places) for name, places in rescales.items()}, warnings))
    return found


def flink(**options: Any) -> FlinkAutoscalerSpec:
    return parse(FlinkAutoscalerSpec, AT_ONCE | options)


FULL = Minute(came=150, read=100, lag=3_000, blocked=0.9, busy={"m": [1, 1]})
"""Two subtasks take 100 a second: 150 / 0.7 + 25 + 1.7 = 241 are wanted of 100, so 4.82 of them: 5."""
SKEWED = Minute(came=1000, read=909, lag=54_600, blocked=0.9, busy={"m": [1, 0.15, 0.15, 0.15]})
LIGHT = Minute(came=10, busy={"m": [0.01] * 10})
READERS = Minute(came=3600, read=3000, lag=54_000, busy={"source": [1, 1, 1]})
SLOW = Minute(came=1200, read=1000, lag=72_000, busy={"source": [0.5, 0.5]})

SITUATIONS: dict[str, tuple[Deployment, dict[str, Any], list[Minute], dict[str, int]]] = {
    # true rate 100 / 0.9 = 111: between 100 and 250 + 17
    "within bounds": (job(2), {}, [Minute(came=100, busy={"m": [0.9, 0.9]})], {}),
    # 111 < 100 / 0.8 = 125; 100 / 0.7 + 17 = 160 of 111: 2.88
    "above utilization.max": (job(2), {"utilization_max": 0.8}, [Minute(came=100, busy={"m": [0.9, 0.9]})], {"m": 3}),
    # true rate 100 / 0.45 = 222: not above 100 / 0.4 + 17 = 267, but above 100 / 0.6 + 17 = 183; 160 of 222: 1.44 of 2
    "below 0.6": (job(3), {"utilization_min": 0.6}, [Minute(came=100, busy={"m": [0.45] * 3})], {}),  # 2.16: 3 of 3
    "below utilization.min": (job(4), {"utilization_min": 0.6}, [Minute(came=100, busy={"m": [0.45] * 4})], {"m": 3}),
    "full": (job(2), {}, [FULL], {"m": 5}),
    # no lag, no restart: 150 / 0.7 = 214 of 100: 4.28
    "without catching up": (job(2), {"catch_up_duration_periods": 0}, [FULL], {"m": 5}),
    # 150 / 1.0 + 25 + 1.7 = 177 of 100: 3.54
    "to be full": (job(2), {"utilization_target": 1.0}, [FULL], {"m": 4}),
    "at most doubled": (job(2), {"scale_up_max_factor": 1.0}, [FULL], {"m": 4}),
    # true rate 909; 1000 / 0.7 + 167 + 30 = 1,626 of 909: 7.15 of 4, and 8 divides 128
    "the busiest subtask": (job(4, groups=128), {}, [SKEWED], {"m": 8}),
    # mean busy share 0.3625, true rate 2,508: between 1,030 and 2,500 + 167 + 30
    "the mean subtask": (job(4, groups=128), {"metrics_busy_time_aggregator": "AVG"}, [SKEWED], {}),
    # 2,000 a second are 400 too many, but 400,000 wait: more than 5 minutes of 1,000
    "no shrinking behind": (job(8), {}, [Minute(came=400, read=1000, lag=4e5, busy={"m": [0.5] * 8})], {}),
    # 400 / 0.7 + 67 + 111 = 749 of 2,000: 2.996 of 8, were it not for the limit of 60 % a time: 3.2
    "shrinking less behind": (job(8), {}, [Minute(came=400, read=1000, lag=2e5, busy={"m": [0.5] * 8})], {"m": 4}),
    # 10 / 0.7 + 1.7 = 16 of 1,000: a fifth of one, but 60 % of 10 may go at once
    "at most so many go": (job(10), {}, [LIGHT], {"m": 4}),
    "not below the minimum": (job(10), {"vertex_min_parallelism": 6}, [LIGHT], {"m": 6}),
    "excluded": (job(10), {"vertex_exclude_ids": ["m"]}, [LIGHT], {}),
    # nothing comes: as many as may go at once
    "nothing comes": (job(5), {}, [Minute(came=0, busy={"m": [0] * 5})], {"m": 2}),
    # 5 are called for: 8 is the next divisor of 128; 6 leaves 21 groups at most by integer division, 5 leaves 25
    "a divisor of key groups": (job(2, groups=128), {}, [FULL], {"m": 8}),
    "fewer groups each": (
        job(2, groups=128),
        {"scaling_key_group_partitions_adjust_mode": "MAXIMIZE_UTILISATION"},
        [FULL],
        {"m": 6},
    ),
    # 3,600 / 0.7 + 600 + 30 = 5,773 of 3,000: 5.8 of 3 readers, and 6 divides 12 partitions
    "readers of partitions": (
        job(5, partitions=12, readers=3),
        {"vertex_exclude_ids": ["m"]},
        [READERS],
        {"source": 6},
    ),
    # busy half of the time, yet it reads no more than 1,000 while it lags: 1,200 / 0.7 + 200 + 40 = 1,954 of that: 3.9
    "what is observed": (
        job(partitions=12, readers=2),
        {"vertex_exclude_ids": ["m"], "metrics_window_periods": 2},
        [SLOW] * 2,
        {"source": 4},
    ),
    # of busy time's 2,000 a second it is 1.95
    "observed too seldom": (job(partitions=12, readers=2), {"vertex_exclude_ids": ["m"]}, [SLOW], {}),
    # busy shares of 0.5 promise twice of what is observed, not 2.5 times
    "not off by enough": (
        job(partitions=12, readers=2),
        {
            "vertex_exclude_ids": ["m"],
            "metrics_window_periods": 2,
            "observed_true_processing_rate_switch_threshold": 1.5,
        },
        [SLOW] * 2,
        {},
    ),
    # 1 / 0.7 + 0.17 = 1.6, which Flink rounds to 2, of 0.9: 2.2
    "whole records a second": (job(), {}, [Minute(came=1, read=0.9, blocked=0.9, busy={"m": [1]})], {"m": 3}),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_flink_autoscaler_decides_as_published(name: str) -> None:
    deployment, options, minutes, expected = SITUATIONS[name]
    *before, (changed, _) = told(deployment, flink(**options), *minutes)
    assert changed == expected
    assert not any(each for each, _ in before)


def test_fewer_come_after_the_interval_and_the_most_that_was_called_for() -> None:
    """At 60, 40, then 60 calls for 2, 3 and 2 of 8 subtasks of 100 a second; the interval of 3 minutes holds 3."""
    steps = [Minute(came=rate, busy={"m": [rate / 800] * 8}) for rate in (120, 160, 120, 120, 120)]
    # 120 x (1 / 0.7 + 1 / 6) = 191 of 800: at most 60 % go, so 4 of 8 (3.2); 160: 255 of 800: 2.6, so 4 as well
    found = told(job(8), flink(scale_down_interval_periods=3, scale_down_max_factor=1.0), *steps)
    assert [changed.get("m") for changed, _ in found] == [None, None, None, 3, None]
    assert [changed for changed, _ in told(job(8), parse(FlinkAutoscalerSpec, NOW), *steps)] == [{}] * 5, "an hour"


def test_what_gained_too_little_is_not_scaled_again() -> None:
    """After two subtasks became five for 241 a second, the true rate is 104: less than 10 % of the 141 expected."""
    after = Minute(came=150, read=104, lag=6_000, blocked=0.9, busy={"m": [1] * 5})
    for enabled, again in ((False, {"m": 12}), (True, {})):  # 150 / 0.7 + 25 + 3.3 = 243 of 104: 11.7 of 5
        spec = flink(scaling_effectiveness_detection_enabled=enabled)
        *_, (changed, warned) = told(job(2), spec, FULL, after, after)
        assert changed == again
        assert ("raised its true rate by too little" in warned) is enabled
    gained = Minute(came=150, read=115, lag=6_000, blocked=0.9, busy={"m": [1] * 5})  # 15 of 141
    assert told(job(2), flink(scaling_effectiveness_detection_enabled=True), FULL, gained, gained)[-1][0] == {"m": 11}


def test_after_a_restart_the_stabilization_interval_and_a_window_pass() -> None:
    spec = flink(stabilization_interval_periods=2, metrics_window_periods=3)
    full = Minute(came=150, read=100, blocked=0.9, busy={"m": [1] * 5})
    found = [changed for changed, _ in told(job(2), spec, *[FULL] * 5, *[full] * 6)]
    assert found == [*[{}] * 4, {"m": 5}, *[{}] * 5, {"m": 12}], "and the minute of the restart counts for nothing"


@pytest.mark.parametrize(
    ("count", "present", "parts", "most", "unlike", "expected"),
    [
        (5, 3, 12, 12, False, 6),
        (7, 3, 12, 12, False, 12),
        (7, 3, 12, 8, False, 6),  # neither 7 nor 8 divides 12; with 6 some have 2, as with 7
        (7, 6, 12, 8, False, 6),  # which is no growth
        (20, 3, 12, 12, False, 12),
        (5, 8, 12, 12, False, 6),
        (7, 8, 12, 12, False, 6),
        (7, 11, 12, 12, False, 6),
        (5, 6, 12, 12, False, 6),  # which is no shrinking
        (5, 2, 12, 12, True, 6),
        (9, 2, 128, 128, True, 10),  # 128 // 10 = 12 < 128 // 9 = 14
        (1, 7, 7, 7, False, 1),
    ],
)
def test_parallelism_follows_key_groups_and_partitions(
    count: int, present: int, parts: int, most: int, unlike: bool, expected: int
) -> None:
    assert aligned(count, present, parts, most, 1, unlike=unlike) == expected


# what cannot be done is said ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "deployment", "minute", "changed", "why"),
    [
        (
            {"vertex_max_parallelism": 3},
            job(2),
            FULL,
            {"m": 3},
            "'m' up further and cannot: vertex_max_parallelism is 3",
        ),
        ({"vertex_max_parallelism": 2}, job(2), FULL, {}, "'m' up further and cannot: vertex_max_parallelism is 2"),
        ({}, job(2, groups=3), FULL, {"m": 3}, "'m' up further and cannot: it has 3 key groups"),
        ({}, job(5, partitions=4, readers=3), READERS, {"source": 4}, "'source' up further and cannot: it has 4 part"),
    ],
)
def test_flink_autoscaler_names_what_it_is_limited_by(
    options: dict[str, Any], deployment: Deployment, minute: Minute, changed: dict[str, int], why: str
) -> None:
    ((found, warned),) = told(deployment, flink(**options), minute)
    assert {name: count for name, count in found.items() if name in changed} == changed
    assert why in warned


def test_an_excluded_operator_must_exist() -> None:
    with pytest.raises(BadInput, match="vertex_exclude_ids: unknown operator 'n'"):
        flink(vertex_exclude_ids=["n"]).start(job())
    with pytest.raises(BadInput, match=r"utilization_target 0\.7 is outside of utilization_min 0\.8"):
        flink(utilization_min=0.8)


# DS2 ------------------------------------------------------------------------------------------------------------------

BEHIND = Minute(came=150, read=100, lag=9_000, busy={"m": [1, 1]})
"""A record takes 0.02 s, so 150 a second keep exactly 3 subtasks busy; 9,000 more within a minute another 3."""

DS2: dict[str, tuple[Deployment, dict[str, Any], Minute, dict[str, int]]] = {
    "the next whole number": (job(2), {}, BEHIND, {"m": 3}),
    "the backlog on demand": (job(2), {"catch_up_s": 60}, BEHIND, {"m": 6}),
    "a scaling factor of 0.25": (job(2), {"target_utilisation": 0.8}, BEHIND, {"m": 4}),  # 3.75
    "a little more": (job(3), {}, Minute(came=151, busy={"m": [1, 1, 1]}), {}),  # 151 x 3 / 151 = 3
    "idle": (job(8), {}, Minute(came=100, busy={"m": [0.2] * 8}), {"m": 2}),  # 1.6
    "one less is a minor change": (job(3), {}, Minute(came=100, busy={"m": [0.6] * 3}), {}),  # 1.8
    "unless minor changes count": (job(3), {"minor_change": 0}, Minute(came=100, busy={"m": [0.6] * 3}), {"m": 2}),
    "one less beside other changes": (job(2, sinks=2), {}, BEHIND, {"m": 3, "sink": 1}),
    "in calm periods only": (job(8), {"calm_periods": 2}, Minute(came=100, busy={"m": [0.2] * 8}), {}),
    "up to the key groups": (job(1, groups=2), {}, Minute(came=150, read=50, busy={"m": [1]}), {"m": 2}),
}


@pytest.mark.parametrize("name", DS2)
def test_ds2_decides_as_published(name: str) -> None:
    deployment, options, minute, expected = DS2[name]
    ((changed, _),) = told(deployment, parse(Ds2Spec, options), minute)
    assert changed == expected


def test_ds2_leaves_sources_as_they_are_and_says_so() -> None:
    ((changed, warned),) = told(job(5, partitions=12, readers=3), Ds2Spec(), READERS)
    assert "source" not in changed
    assert warned.startswith("would scale 'source' up and cannot: 'source' is a source, which this policy does not")


# whole runs -----------------------------------------------------------------------------------------------------------


def run(query: Mapping[str, Any], plan: Mapping[str, Any], **more: Any) -> Run:
    """Run of a job on one big host under Flink."""
    data = {"query": query, "cluster": {"hosts": [HOST]}, "plan": plan, "engine": "flink", **more}
    return simulate(parse(Scenario, {"name": "run"} | data))


def decisions(result: Run) -> list[tuple[float, str]]:
    return [(row["at_s"], row["detail"]["reason"]) for row in result.event_rows if row["kind"] == "decision"]


def test_an_operator_whose_calls_bind_is_scaled_by_its_cpu_with_a_warning() -> None:
    """4 subtasks of 50 places at .06 s bear 3,333 records a second with next to no CPU; DS2 leaves one, with 833."""
    given = job(subtasks=4)
    ask = {"name": "m", "kind": "async", "service_time_s": 1e-5, "latency_s": 0.06, "capacity": 50}
    data = given.model_dump(mode="json")
    data["query"]["operators"] = [ask if each["name"] == "m" else each for each in data["query"]["operators"]]
    asking = parse(Deployment, data)
    (found,) = told(asking, Ds2Spec(), Minute(came=2000, busy={"m": [0.005] * 4}))
    assert found == ({"m": 1}, "scales 'm' by its CPU time; its calls, which take none, may need more")


def test_a_hot_key_group_makes_flink_scale_by_the_busiest_subtask() -> None:
    """Subtask 0 gets 55 % of 1,000 records of 2 ms: it takes 500, and all take 909, of 1,000 / 0.7 + 167 + 91 x 600 /
    900 = 1,656 that are wanted when the first window is full: 7.3 of 4, and 8 divides 128."""
    operators = [
        {"name": "source", "kind": "source", "service_time_s": 1e-5},
        {"name": "keyed", "kind": "map", "key_groups": 128, "service_time_s": 2e-3, "service_scv": 0.1},
        {"name": "sink", "kind": "sink"},
    ]
    streams = [{"producer": "source", "consumer": "keyed"}, {"producer": "keyed", "consumer": "sink"}]
    hot = 0.55 - 31 * 0.45 / 96  # the other 31 groups of subtask 0 get as much as those of the others
    workload = {
        "arrivals": {"source": {"law": "poisson", "rate_per_s": 1000}},
        "keys": {"keyed": {"shares": [100 * hot, *[100 * (1 - hot) / 127] * 127]}},
    }
    result = run(
        {"operators": operators, "streams": streams},
        {"placement": {"source": "tm", "keyed": {"tm": 4}, "sink": "tm"}},
        workload=workload,
        policy="flink-autoscaler",
        run={"horizon_s": 610, "period_s": 30},
    )
    assert decisions(result) == [(600.0, "keyed 4->8")]


def test_a_chained_source_is_scaled_within_its_partitions() -> None:
    """Three readers of 100 a second get 360 from 200 s on. Their window of 15 periods has a mean of 180 + 1.2 k after
    k seconds, and 60 k records wait: after 80 s 276 + 16 are needed of 300, after 90 s 288 + 18. Then 288 / 0.7 + 9.6 +
    18 = 439 are wanted: 4.4 of 3 readers, and 6 divides 12 partitions. 600 a second leave nothing unread at the end."""
    operators = [
        {"name": "topic", "kind": "kafka-source", "partitions": 12, "service_time_s": 1e-3},
        {"name": "parse", "kind": "map", "service_time_s": 9e-3},
        {"name": "sink", "kind": "sink"},
    ]
    streams = [
        {"producer": "topic", "consumer": "parse", "partitioning": "forward"},
        {"producer": "parse", "consumer": "sink", "partitioning": "rebalance"},
    ]
    steps = [{"at_s": 0, "rate_per_s": 180}, {"at_s": 200, "rate_per_s": 360}]
    result = run(
        {"operators": operators, "streams": streams},
        {"placement": {"topic": {"tm": 3}, "parse": {"tm": 3}, "sink": "tm"}, "fused": [["topic", "parse"]]},
        workload={"arrivals": {"topic": {"law": "steps", "steps": steps}}},
        policy={"name": "flink-autoscaler", "restart_time_periods": 1},
        run={"horizon_s": 600, "period_s": 10},
    )
    assert decisions(result) == [(290.0, "topic 3->6")]
    assert {row["parallelism"] for row in result.operator_rows[-3:-1]} == {6}
    assert result.operator_rows[-3]["backlog"] < 20


def test_ds2_gives_a_word_count_its_ten_and_twenty_subtasks() -> None:
    """Word count of the paper: 100 sentences of 20 words a second, 0.1 s and 0.01 s each, need 10 and 20 subtasks; DS2
    finds them after one period, whatever waits by then, and leaves them."""
    operators = [
        {"name": "source", "kind": "source", "service_time_s": 1e-5},
        {"name": "split", "kind": "map", "selectivity": 20, "service_time_s": 0.1, "service_scv": 0},
        {"name": "count", "kind": "map", "key_groups": 128, "service_time_s": 0.01, "service_scv": 0},
        {"name": "sink", "kind": "sink"},
    ]
    streams = [{"producer": one, "consumer": other} for one, other in pairwise(["source", "split", "count", "sink"])]
    result = run(
        {"operators": operators, "streams": streams},
        {"placement": {"source": "tm", "split": "tm", "count": "tm", "sink": "tm"}},
        workload={"arrivals": {"source": {"law": "constant", "rate_per_s": 100}}},
        policy="ds2",
        run={"horizon_s": 300, "period_s": 60},
    )
    assert decisions(result) == [(60.0, "split 1->10, count 1->20")]
