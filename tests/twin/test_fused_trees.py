"""Chained operators that branch: against theory, against jobs that run apart, and while plans change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.twin.changing import HOSTS
from tests.twin.changing import run as run_changing
from tests.twin.event_jobs import compute, consolidate, ended
from tests.twin.event_jobs import job as event_job
from tests.twin.event_jobs import source as dated_source
from tests.twin.fused_jobs import CONSTANT, COUNT, TIME, counting, filter_, fuse, map_, run, totals
from tests.twin.worlds import HOST, deployment, sink, source
from twin.chaining import fused, written
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.events import AnyEvent, Failure, Migration, Scale
from twin.job import compile as compiled
from twin.kin import kin
from twin.metrics import REGRESSION_METRICS
from twin.plan import ExecutionPlan
from twin.rates.model import RateModel
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse

BRANCHES = [("source", "m"), ("m", "a"), ("m", "b"), ("a", "left"), ("b", "right")]
TREE = ("source", "m", "a", "b")


def branching(a: dict[str, Any], b: dict[str, Any], rate: Any = CONSTANT, **more: Any) -> Deployment:
    """Job source -> m, of 1 ms -> a and b, each with a sink of its own."""
    return deployment(
        [source(), map_("m", 1e-3), a, b, sink("left"), sink("right")], BRANCHES, {"source": rate}, **more
    )


# against theory -------------------------------------------------------------------------------------------------------


def test_results_of_all_branches_leave_together_when_the_work_of_all_is_done() -> None:
    """At a constant rate every result of either branch is as old as the three services together, 1 + 2 + 3 ms; the task
    is busy for their sum."""
    job = fuse(branching(map_("a", 2e-3), map_("b", 3e-3)), TREE)
    result = run(job, noise=False)
    left, right = (
        [row for row in result.operator_rows if row["operator"] == name and row["latencyCount"]]
        for name in ("left", "right")
    )
    for each in (*left, *right):
        assert each["e2eLatencySum_s"] / each["latencyCount"] == pytest.approx(6e-3, abs=1e-9)
    assert [each.busy for each in result.operators] == pytest.approx([0.6] * 4 + [0.0] * 2, abs=0.01)


def test_a_tree_is_one_queue() -> None:
    """With services of all branches on one thread the task is an M/D/1 of their sum."""
    service_s, rate = 6e-3, 100
    result = run(fuse(branching(map_("a", 2e-3), map_("b", 3e-3), rate), TREE), 200.0, noise=False)
    load = rate * service_s
    expected_s = service_s + load * service_s / 2 / (1 - load)
    assert result.metrics.e2e_latency_s.mean == pytest.approx(expected_s, rel=0.06)


def test_branches_are_served_depth_first_in_the_order_of_their_names() -> None:
    """Sinks within the task note a record at the end of the service, and each record comes to each branch once, or as
    often as the flat map before it says."""
    operators = [source(), map_("m", 1e-4, selectivity=3), map_("a", 1e-4, selectivity=2), map_("b", 1e-4)]
    job = deployment([*operators, sink("left"), sink("right")], BRANCHES, {"source": CONSTANT})
    found = totals(run(fuse(job, (*TREE, "left", "right")), warmup_s=0.0, noise=False))
    count = found["source"][0]
    assert found == {
        "source": (count, count),
        "m": (count, 3 * count),
        "a": (3 * count, 6 * count),
        "b": (3 * count, 3 * count),
        "left": (6 * count, 0),
        "right": (3 * count, 0),
    }


# against jobs that run apart ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [("source", "m"), TREE, ("m", "a", "b", "right"), (*TREE, "left", "right")])
def test_without_chance_it_counts_what_the_job_counts_that_runs_apart(group: tuple[str, ...]) -> None:
    """Flat maps and count windows without keys draw nothing: chained and apart, all counts are equal to the record.
    The horizon lies between two arrivals, when nothing is under way."""
    window = {"policy": "count", "size_records": 12, "slide_records": 4}
    operators = [
        source(), map_("m", 0.0, selectivity=2), counting("a", 0.0, window), map_("b", 0.0, selectivity=3),
        sink("left"), sink("right"),
    ]  # fmt: skip
    hosts = [{**HOST, "latency_ms": 0}]
    job = deployment(operators, BRANCHES, {"source": CONSTANT}, hosts=hosts)
    one, apart = (totals(run(each, 20.005, noise=False, warmup_s=0.0)) for each in (fuse(job, group), job))
    assert one == apart and min(taken for taken, _ in one.values()) > 900


def test_a_full_channel_of_one_branch_holds_all_of_them_up() -> None:
    """A slow sink behind one branch, 50 a second, leaves as much for the other one, which could take all 100."""
    slow = deployment(
        [source(), map_("m", 1e-4), map_("a", 1e-4), map_("b", 1e-4), sink("left"), sink("right", service_time_s=0.02)],
        BRANCHES,
        {"source": CONSTANT},
    )
    found = totals(run(fuse(slow, TREE), 60.0, warmup_s=40.0))
    assert found["left"][0] == pytest.approx(50 * 20, rel=0.02)
    assert found["right"][0] == pytest.approx(50 * 20, rel=0.02)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_copies_of_a_record_on_two_branches_have_one_key(parallelism: int) -> None:
    """Both branches lead to a join, by key: each record meets its own copy, and nearly no other of 10 million."""
    join = {"kind": "join", "name": "j", "window": {"policy": "time", "size_s": 1}, "selectivity": 1e-7}
    operators = [source(), map_("a", 1e-5), map_("b", 1e-5), join | {"service_time_s": 1e-5, "key_groups": 8}, sink()]
    streams = [("source", "a"), ("source", "b"), ("a", "j"), ("b", "j"), ("j", "sink")]
    job = deployment(operators, streams, {"source": 200}, placement={"j": ["h"] * parallelism})
    assert kin(job.query, job.plan).makers == {"source"}
    one, apart = (totals(run(each, 20.0))["j"] for each in (fuse(job, ("source", "a", "b")), job))
    assert one[1] == pytest.approx(one[0] / 2, rel=0.01) and apart[1] == pytest.approx(apart[0] / 2, rel=0.01)


# while plans change ---------------------------------------------------------------------------------------------------


def changing(window: dict[str, Any]) -> Deployment:
    """Job of a tree on h1: m with windows on one branch, a filter and a sink on the other, which also sends on."""
    operators = [
        source(), map_("m", 2e-4), counting("a", 1e-4, window, 20), map_("g", 1e-4), filter_("f", 1e-4, 0.5),
        sink("kept"), sink("out"), sink("rest"),
    ]  # fmt: skip
    streams = [
        ("source", "m"), ("m", "a"), ("a", "g"), ("g", "out"), ("m", "f"), ("f", "kept"), ("f", "rest"), ("m", "rest"),
    ]  # fmt: skip
    group = ("m", "a", "g", "f", "kept")
    placement = {name: "h1" if name in group else "h0" for name in ("source", "out", "rest", *group)}
    forward = dict.fromkeys(group[1:], "forward")
    job = deployment(operators, streams, {"source": 400}, hosts=HOSTS, placement=placement, partitioning=forward)
    return fuse(job, group)


CHANGES: list[AnyEvent] = [
    Failure(at_s=8.5, host="h1", recover_after_s=2),
    Migration(at_s=8.2, operator="m", subtask=0, to="h3"),
    Scale(at_s=8.2, operator="m", placement=("h1", "h3")),
]


@pytest.mark.parametrize("window", [COUNT, TIME], ids=["count", "time"])
@pytest.mark.parametrize("event", CHANGES, ids=["failure", "migration", "scale"])
def test_a_tree_fails_moves_and_scales_as_one(event: AnyEvent, window: dict[str, Any]) -> None:
    """Each run checks all laws of conservation, by operator and by stream; the branches go on alike."""
    result = run_changing(changing(window), event, horizon_s=16, checkpoint_interval_s=3)
    assert "refused" not in result.event_rows[0]["detail"]
    found = totals(result)
    kept, rest = found["kept"][0], found["rest"][0]
    assert kept > 1000 and rest == pytest.approx(kept + found["m"][1], rel=0.02)


@pytest.mark.parametrize("at_s", [4.0, 4.7, 5.3])
def test_restarts_with_barriers_at_full_ports(at_s: float) -> None:
    """Checkpoints with barriers, of a tree whose channels are full, and a failure: no law is broken."""
    document = Scenario.of(changing(COUNT), RunSettings(horizon_s=10, warmup_s=1)).model_dump(mode="json")
    document["workload"]["arrivals"]["source"] = {"law": "poisson", "rate_per_s": 3500}
    document["checkpoints"] = {"interval_s": 0.7}
    document["events"] = [{"kind": "failure", "host": "h1", "at_s": at_s, "recover_after_s": 0.5}]
    result = simulate(parse(Scenario, document))
    assert result.duplicates > 0 and totals(result)["out"][0] > 100


# event time -----------------------------------------------------------------------------------------------------------


def test_watermarks_go_to_all_branches_of_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source's task with branches to windows, to other windows and to a sink: all windows are whole, which the run
    checks, and each branch passes all of its records."""
    keep = {"kind": "filter", "selectivity": 0.5, "service_time_s": 2e-4}
    operators = [
        dated_source(disorder_s=0.4, slack_s=0.4), {**keep, "name": "p"}, {**keep, "name": "q"}, map_("r", 1e-4),
        compute("one"), consolidate("first"), compute("two"), consolidate("second"), map_("shown", 1e-4),
        sink("left"), sink("right"), sink("log"), sink("seen"),
    ]  # fmt: skip
    streams = [
        ("source", "p"), ("source", "q"), ("source", "r"), ("p", "one"), ("q", "two"), ("r", "log"), ("one", "first"),
        ("two", "second"), ("first", "shown"), ("first", "seen"), ("shown", "left"), ("second", "right"),
    ]  # fmt: skip
    workers = ["h0", "h1", "h2"]
    placement = dict.fromkeys(("p", "q", "r", "log"), "ends") | dict.fromkeys(("shown", "left", "seen"), workers)
    document = event_job(operators, streams, placement=placement, rate_per_s=200.0).model_dump(mode="json")
    for stream in document["query"]["streams"]:
        if stream["consumer"] in ("shown", "left", "seen"):
            stream["partitioning"] = "forward"
    document["plan"]["fused"] = [["source", "p", "q", "r", "log"], ["first", "shown", "left", "seen"]]
    result, world = ended(parse(Scenario, document), monkeypatch)
    assert set(world.tasks) == {"source", "one", "first", "two", "second", "right"}
    counts = totals(result)
    assert counts["source"][1] == counts["p"][0] == counts["q"][0] == counts["r"][0] == counts["log"][0] > 1000
    assert counts["first"][1] == counts["shown"][0] == counts["left"][0] == counts["seen"][0] > 50
    assert counts["right"][0] > 50
    assert 0 < counts["p"][1] < counts["p"][0] and counts["one"][0] == pytest.approx(counts["p"][1], abs=5)


def test_late_records_have_a_task_apart() -> None:
    late = {"windows": [{"length_s": 2}], "late_to": "late"}
    streams = [("source", "compute"), ("compute", "sink"), ("compute", "late")]
    job = event_job([dated_source(), compute(**late), sink(), sink("late")], streams)
    document = job.model_dump(mode="json")
    document["plan"]["placement"] = dict.fromkeys(document["plan"]["placement"], "h0")
    document["plan"]["fused"] = [["compute", "sink"]]
    with pytest.raises(BadInput, match="'compute' sends 'late' other records than 'sink'; let all of them run apart"):
        parse(Scenario, document)


# what may be a tree, and who knows ------------------------------------------------------------------------------------


def test_an_engine_chains_all_branches_that_go_straight_on() -> None:
    """Flink's rule looks at each edge by itself: it must be the only input of its consumer, with as many subtasks."""
    join = {"kind": "join", "name": "j", "window": TIME, "selectivity": 0.01}
    operators = [source(), map_("m", 1e-4), filter_("f", 1e-4, 0.5), map_("g", 1e-4), map_("w", 1e-4), join, sink()]
    streams = [
        ("source", "m"), ("m", "f"), ("m", "g"), ("m", "w"), ("f", "j"), ("g", "j"), ("w", "sink"), ("j", "sink"),
    ]  # fmt: skip
    placement = {name: ["h", "h"] for name in ("source", "m", "f", "g")}
    job = deployment(operators, streams, {"source": 100}, placement=placement)
    chaining = job.model_copy(update={"engine": job.engine.model_copy(update={"chaining": True})})
    found = fused(chaining.query, chaining.plan, chaining.engine)
    assert found == (("source", "m", "f", "g"),)
    assert written(job.query, found[0]) == "source -> m -> (f, g)"
    tree = compiled(chaining).components[0]
    assert (tree.before, [list(each) for each in tree.exits]) == ((-1, 0, 1, 1), [[], [2], [0], [1]])
    run(chaining)


@pytest.mark.parametrize(
    ("group", "says"),
    [
        (("a", "b"), "there is no stream from 'a' to 'b'"),
        (("m", "b", "a", "right"), ""),
        (("source", "a"), "there is no stream from 'source' to 'a'"),
        (("m", "left", "a"), "there is no stream from 'm' to 'left'; fuse operators in data-flow order"),
    ],
)
def test_a_tree_has_one_head_and_its_streams_lie_within(group: tuple[str, ...], says: str) -> None:
    job = branching(map_("a", 1e-4), map_("b", 1e-4))
    if not says:
        assert compiled(fuse(job, group)).component("right").name == "m"
        return
    with pytest.raises(BadInput, match=says):
        fuse(job, group)


def test_a_plan_that_parts_a_tree_says_so() -> None:
    job = fuse(branching(map_("a", 1e-4), map_("b", 1e-4)), TREE)
    moved = job.plan.with_placement({**job.plan.placement, "b": ("elsewhere",)})
    assert moved.fused == () and job.plan.parted_by(moved) == TREE
    less = ExecutionPlan(placement=job.plan.placement, fused=(("m", "a", "b"),))
    assert job.plan.parted_by(less) == TREE and less.parted_by(job.plan) == ()


def test_counts_of_subtasks_are_estimated_as_plans_are() -> None:
    """Trees that sit alike stay chained, also where an engine chains by itself."""
    hosts = [{**HOST, "name": name, "cpu_percent": 300} for name in ("h", "k")]
    job = branching(map_("a", 2e-3), filter_("b", 1e-3, 0.4), 150, hosts=hosts)
    chaining = job.model_copy(update={"engine": job.engine.model_copy(update={"chaining": True})})
    for each in (fuse(job, TREE), chaining):
        places = [dict(zip(("m", "a", "b"), some, strict=True)) for some in (("h", "h", "h"), ("h", "k", "h"))]
        plans = [each.plan.with_placement({**each.plan.placement, **{n: (h,) for n, h in p.items()}}) for p in places]
        order = [operator.name for operator in each.query.topological]
        counts = np.array([[[plan.placement[name] == (h,) for h in "hk"] for name in order] for plan in plans], float)
        told, counted = RateModel(60.0).predict(each, plans), RateModel(60.0).answer_counts(each, counts).costs
        for metric in REGRESSION_METRICS:
            assert told[metric] == pytest.approx(counted[metric], rel=1e-9)
        assert told["e2e_latency_s"][0] != told["e2e_latency_s"][1]


# the rate model -------------------------------------------------------------------------------------------------------


def random_tree(seed: int) -> tuple[Deployment, tuple[str, ...]]:
    """Job of one task that is a random tree of filters, maps and flat maps at a load of 20 to 80 %, with a sink for
    each leaf, half of which are in the task."""
    rng = np.random.default_rng(seed)
    count, rate = int(rng.integers(3, 9)), 200.0
    operators, streams, flow = [source()], list[tuple[str, str]](), {"source": rate}
    work = []
    for number in range(count):
        name, before = f"o{number}", str(rng.choice([each["name"] for each in operators]))
        gain = float(rng.choice([0.2, 0.5, 1.0, 1.0, 2.0]))
        kind = "filter" if gain < 1 else "map"
        operators.append({"kind": kind, "name": name, "selectivity": gain, "service_time_s": 0.0})
        streams.append((before, name))
        work.append(float(rng.exponential()) * flow[before])
        flow[name] = flow[before] * gain
    scale, load = sum(work), float(rng.uniform(0.2, 0.8))
    for each, share in zip(operators[1:], work, strict=True):
        producer = next(before for before, name in streams if name == each["name"])
        each["service_time_s"] = load * share / scale / flow[producer]
    leaves = [each["name"] for each in operators if each["name"] not in {before for before, _ in streams}]
    group = [each["name"] for each in operators]
    for number, leaf in enumerate(leaves):
        operators.append(sink(f"s{number}"))
        streams.append((leaf, f"s{number}"))
        group += [f"s{number}"] if number % 2 else []
    return deployment(operators, streams, {"source": rate}), tuple(group)


@pytest.mark.parametrize("seed", range(20))
def test_the_rate_model_agrees_with_runs_of_random_trees(seed: int) -> None:
    """Throughput, busy share and age are within 1 % and four standard errors of three runs."""
    job, group = random_tree(seed)
    one = fuse(job, group)
    found, runs = RateModel().answer(one, [one.plan]), [run(one, 60.0, warmup_s=10.0, seed=each) for each in range(3)]
    pairs = [
        (found.used[0, 0], [exact.operators[0].busy for exact in runs]),
        (found.costs["throughput_per_s"][0], [exact.metrics.throughput_per_s for exact in runs]),
        (found.costs["e2e_latency_s"][0], [exact.metrics.e2e_latency_s.mean for exact in runs]),
    ]
    for predicted, each in pairs:
        mean, error = float(np.mean(each)), float(np.std(each, ddof=1)) / len(each) ** 0.5
        assert predicted == pytest.approx(mean, abs=0.01 * mean + 4 * error)
