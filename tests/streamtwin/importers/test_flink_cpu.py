"""Costs are CPU a record: waits for a core, and sleep, are told apart from it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from itertools import product
from math import prod
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.calibration import profile_file
from scenarios.calibration.calibrate import calibrate
from scenarios.calibration.points import Point, points_of
from scenarios.calibration.profile_file import held_out
from scenarios.calibration.structures import cores_left, faint, in_use, untold, without
from scenarios.executing import Lines
from streamtwin import capacity
from streamtwin.connect.importers.flink_answers import Answers, from_folder
from streamtwin.connect.importers.flink_job import read_job
from streamtwin.connect.importers.flink_live import (
    ASKED_EVERY_S,
    LONGER,
    LONGEST_LIST,
    REFRESHED_S,
    from_endpoint,
    in_requests,
)
from streamtwin.connect.importers.flink_scenario import ImportedJob, scenario_of
from tests.commands import twin
from tests.streamtwin.importers.flink_cluster import MANAGERS, VERTICES, Cluster, serving, written
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

HOST = "127.0.0.1"
S = 100.0


def answers_of(
    folder: Path,
    rate: float,
    busy: float,
    parallelism: int = 1,
    used: float | None = None,
    writer: float = 0.0,
    of: int = 1,
    **threads: int,
) -> Answers:
    """Saved answers of a source, `work` and a writer on one machine of two cores, watched for S seconds. busy, writer:
    of the last two. used: cores, by its JVM. threads: of vertex `of`."""

    def job(second: float) -> dict[str, Any]:
        cost = {"source": 0.0, "work": busy, "Writer": writer}
        vertices = []
        for number, (name, share) in enumerate(cost.items()):
            count, full = (parallelism if name == "work" else 1), busy > 0.99 and name == "source"
            lived_ms = 1000.0 * second * count
            behind = lived_ms if full else 0.0
            counted = {"read-records": rate * second * (number > 0), "write-records": rate * second * (number < 2)}
            times = {"busy": share * lived_ms, "backpressured": behind, "idle": (1.0 - share) * lived_ms - behind}
            metrics = counted | {f"accumulated-{key}-time": value for key, value in times.items()}
            metrics |= {"read-bytes": 50.0 * rate * second, "write-bytes": 50.0 * rate * second}
            vertices.append({"id": f"v{number}", "name": name, "parallelism": count, "metrics": metrics})
        return {"name": "mine", "state": "RUNNING", "now": 1000 * second, "vertices": vertices}

    nodes = [
        {"id": "v0"},
        *({"id": f"v{n}", "inputs": [{"id": f"v{n - 1}", "ship_strategy": "REBALANCE"}]} for n in (1, 2)),
    ]
    hardware = {"cpuCores": 2, "physicalMemory": 16e9}
    files = {
        "j_jobs_id.json": job(10.0 + S),
        "j_jobs_id_first.json": job(10.0),
        "j_jobs_id_plan.json": {"plan": {"nodes": nodes}},
        "taskmanagers.json": {
            "taskmanagers": [{"id": "tm", "path": f"pekko.tcp://flink@{HOST}:1", "hardware": hardware}]
        },
        "overview.json": {"flink-version": "2.3.0"},
        **{
            f"j_v{n}_detail.json": {"subtasks": [{"taskmanager-id": "tm"}] * (parallelism if n == 1 else 1)}
            for n in range(3)
        },
    }
    if used is not None:
        times_ns = {"_first": 5e9, "": (5.0 + S * used) * 1e9}
        for when, time_ns in times_ns.items():
            files[f"j_taskmanager_0_metrics{when}.json"] = [{"id": "Status.JVM.CPU.Time", "value": f"{time_ns:.0f}"}]
    if threads:
        files[f"j_v{of}_threads.json"] = threads
    return from_folder(written(folder, files))


def imported(folder: Path, offered: float | None = None, **more: Any) -> ImportedJob:
    return scenario_of(read_job(answers_of(folder, **more)), {} if offered is None else {"source": offered})


def run(job: ImportedJob) -> Run:
    settings = job.scenario.run.model_copy(update={"horizon_s": 60.0, "warmup_s": 20.0})
    return simulate(job.scenario.model_copy(update={"run": settings}))


def busy(found: Run) -> float:
    return next(each.busy for each in found.operators if each.operator == "work")


@pytest.mark.parametrize("seed", range(10))
def test_cores_in_use_are_those_of_all_cases_together(seed: int) -> None:
    rng = Random(seed)
    wanted, cores = [(rng.randint(1, 3), rng.random()) for _ in range(5)], rng.uniform(0.1, 5.0)
    expected = 0.0
    for case in product((False, True), repeat=5):
        pairs = list(zip(case, wanted, strict=True))
        chance = prod(share if on else 1.0 - share for on, (_, share) in pairs)
        expected += chance * min(cores, sum(count for on, (count, _) in pairs if on))
    assert in_use(wanted, cores) == pytest.approx(expected)
    assert cores_left(wanted, expected) == pytest.approx(cores)


def test_four_busy_subtasks_on_two_cores_run_at_the_rate_at_which_they_were_measured(tmp_path: Path) -> None:
    """Four busy subtasks on two cores run as measured, without CPU times: each waits half of the time."""
    job = imported(tmp_path / "a", offered=6000.0, rate=960.0, busy=1.0, parallelism=4)
    assert job.scenario.query.operator("work").service_time_s == pytest.approx(2 / 960)
    assert run(job).metrics.throughput_per_s == pytest.approx(960, rel=0.02)
    answer = RateModel().answer(job.scenario, [job.scenario.plan])
    assert answer.in_per_s[0, answer.operators.index("work")] == pytest.approx(960, rel=0.02)
    (said,) = [note for note in job.notes if "wait for cores" in note]
    assert "busy for 4.00 cores of 2" in said and "50% of the busy times" in said
    assert not [row for row in job.readings if "host" in row], "nothing was measured of the host"


@pytest.mark.parametrize(
    ("rate", "share", "parallelism", "used"), [(400, 0.7, 1, 0.16), (300, 0.6, 2, 0.3), (900, 1.0, 4, 0.6)]
)
def test_cores_that_others_use_follow_from_busy_times_and_cpu(
    rate: float, share: float, parallelism: int, used: float, tmp_path: Path
) -> None:
    """Cores used by others are such that the twin is as busy, with as much CPU, as what was measured."""
    offered = 4 * rate if share == 1.0 else None
    job = imported(tmp_path / "a", offered, rate=rate, busy=share, parallelism=parallelism, used=used)
    assert job.scenario.query.operator("work").service_time_s == pytest.approx(used / rate)
    found, host = run(job), job.scenario.cluster.host(HOST)
    assert found.metrics.throughput_per_s == pytest.approx(rate, rel=0.02)
    assert busy(found) == pytest.approx(share, abs=0.06)
    assert found.hosts[0].cpu * host.left_percent / 100 == pytest.approx(used, rel=0.03)
    (said,) = [note for note in job.notes if "wait for cores" in note]
    assert f"others use {host.others_percent / 100:.2f} of 2 cores" in said
    (reading,) = [row for row in job.readings if "host" in row]
    assert reading["cpu"] == pytest.approx(used / (host.left_percent / 100))
    rows = [{"point": "a", **row} for row in job.readings]
    (point,) = points_of(rows, job.scenario.with_set(f"cluster.hosts.{HOST}.others_percent", 0), "a table")
    assert point.scenario.cluster == job.scenario.cluster, "a point says what others used then"


def test_busy_times_that_the_cpu_confirms_are_costs(tmp_path: Path) -> None:
    job = imported(tmp_path / "a", rate=500.0, busy=0.4, used=0.41)
    assert job.scenario.query.operator("work").service_time_s == pytest.approx(0.4 / 500)
    assert job.scenario.cluster.host(HOST).others_percent == 0
    assert {"host": HOST, "cpu": pytest.approx(0.205), "others_percent": 0.0} in job.readings
    note, *_ = job.notes
    assert "one point cannot tell it; a second one in --points, at half or twice the rate" in note


def test_cpu_far_above_busy_times_is_not_of_records(tmp_path: Path) -> None:
    job = imported(tmp_path / "a", rate=10.0, busy=0.01, used=0.3)
    assert job.scenario.query.operator("work").service_time_s == pytest.approx(0.01 / 10)
    points = points_at(job)
    assert points[0].cpu and not without(points, {})[0].cpu and untold(points) == [HOST]


def points_at(*jobs: ImportedJob) -> list[Point]:
    """Operating points of one job, the first of which is the scenario's."""
    rows = [{"point": str(number), **row} for number, each in enumerate(jobs) for row in each.readings]
    return points_of(rows, jobs[0].scenario, "a table")


COST_S = {"work": 322e-6, "writer": 100e-6}


@pytest.mark.parametrize(("rates", "left"), [((150, 800), 2.0), ((500, 1000), 2.0), ((900, 300, 100), 2.0)])
def test_two_rates_tell_what_jvms_use_without_records(rates: tuple[float, ...], left: float, tmp_path: Path) -> None:
    """Two rates show the base of a JVM: CPU = base + cost x rate, where nothing else runs and busy times are CPU."""
    jobs = []
    for rate in rates:
        work, writer = (each_s * rate for each_s in COST_S.values())
        jobs.append(imported(tmp_path / f"{rate}", rate=rate, busy=work, writer=writer, used=0.08 + work + writer))
    found = calibrate(points_at(*jobs))
    assert found.base[HOST] == pytest.approx(0.08, rel=0.05)
    assert found.others_percent[HOST] == pytest.approx(8.0, rel=0.05)
    for name, each_s in zip(("work", "Writer"), COST_S.values(), strict=True):
        assert found.costs[f"operator {name}"] == pytest.approx(1e6 * each_s, rel=0.02)
    (estimate,) = (each for each in found.estimates if each.name == f"base {HOST}")
    assert estimate.known and estimate.low <= 8.0 <= estimate.high


@pytest.mark.parametrize("base", [0.0, 0.08, 0.3])
@pytest.mark.parametrize("count", [2, 4])
def test_on_a_crowded_machine_costs_are_cpu_without_what_jvms_use(base: float, count: int, tmp_path: Path) -> None:
    """On a crowded machine costs are CPU without the JVMs' base: busy times and CPU of a thread were measured, to which
    each JVM adds its base. The job bore 1,090 records a second at most."""
    read = ((150, 0.12, 322e-6), (400, 0.707, 314e-6), (800, 0.771, 308e-6), (1090, 1.0, 310e-6))[:count]
    jobs = []
    for rate, busy, each_s in read:
        offered = 5000.0 if busy == 1.0 else None
        jobs.append(imported(tmp_path / f"{rate}", offered, rate=rate, busy=busy, used=base + rate * each_s))
    points = points_at(*jobs)
    found = calibrate(points)
    assert found.costs["operator work"] == pytest.approx(310, rel=0.03)
    if not base:
        assert not found.base
        return
    assert found.base[HOST] == pytest.approx(base, rel=0.05)
    profile = profile_file.profile_of(jobs[0].scenario, found, held_out(points, found), points, "")
    (tmp_path / "p.yaml").write_text(profile_file.dump(profile))
    done = profile_file.applied(profile_file.load(tmp_path / "p.yaml"), jobs[0].scenario)
    assert profile_file.applied(profile, done) == done, "a second time changes nothing"
    assert knee_per_s(done) == pytest.approx(1090, rel=0.2 if count == 2 else 0.03), "others took more at first"


def knee_per_s(job: Scenario) -> float:
    found = capacity(job, "load", prove=False).result.predicted
    return job.workload.arrivals["source"].mean_rate_per_s * float(found.in_long_runs or found.value or 0.0)


@pytest.mark.parametrize("wakes", [0.02, 0.05])
@pytest.mark.parametrize("rates", [(600, 2400), (1500, 3000)])
def test_waking_up_is_neither_a_cost_nor_a_neighbour(wakes: float, rates: tuple[float, ...], tmp_path: Path) -> None:
    """A subtask that is busy while it is woken up: two rates tell its cost, and nobody else is said to use cores."""
    each_s, jobs = 250e-6, []
    for rate in rates:
        used = each_s * rate
        busy = wakes + (1.0 - wakes) * used
        jobs.append(imported(tmp_path / f"{rate}", rate=float(rate), busy=busy, used=0.1 + used))
    found = calibrate(points_at(*jobs))
    assert found.costs["operator work"] == pytest.approx(1e6 * each_s, rel=0.02)
    assert found.others_percent[HOST] == pytest.approx(10.0, rel=0.05), "the base alone"
    assert knee_per_s(found.applied(jobs[0].scenario)) == pytest.approx(1 / each_s, rel=0.05)


@pytest.mark.parametrize("later", [0.03, 0.06])
def test_busy_times_say_costs_where_the_engine_uses_ever_less(later: float, tmp_path: Path) -> None:
    """A Java machine compiles less at the second rate, so that its CPU grows by less than records cost."""
    jobs = [
        imported(tmp_path / f"{rate}", rate=rate, busy=5e-5 * rate, used=engine + 5e-5 * rate)
        for rate, engine in ((1000.0, 0.1), (4000.0, later))
    ]
    assert calibrate(points_at(*jobs)).costs["operator work"] == pytest.approx(50, rel=0.15)


@pytest.mark.parametrize("slowed", [1.3, 1.6])
def test_pauses_of_all_subtasks_are_no_neighbours(slowed: float, tmp_path: Path) -> None:
    """Garbage that is collected stops subtasks, which count as busy meanwhile, and others take no core for that."""
    jobs = [
        imported(tmp_path / f"{rate}", rate=rate, busy=slowed * 2e-4 * rate, used=0.1 + 2e-4 * rate)
        for rate in (500.0, 2000.0)
    ]
    found = calibrate(points_at(*jobs))
    assert found.others_percent[HOST] == pytest.approx(10.0, rel=0.05)
    assert 200 <= found.costs["operator work"] <= 200 * slowed


def test_costs_that_rest_on_little_cpu_are_said_to(tmp_path: Path) -> None:
    """Records use .05 cores at most beside .3: at twelve times as much they would use twice the base."""
    jobs = [
        imported(tmp_path / f"{rate}", rate=rate, busy=1e-4 * rate, used=0.3 + 1e-4 * rate) for rate in (100.0, 500.0)
    ]
    (each,) = faint(points_at(*jobs)).values()
    assert (each.records, each.base) == (pytest.approx(0.05, rel=0.1), pytest.approx(0.3, rel=0.02))
    assert each.factor == pytest.approx(2 * 0.3 / 0.05, rel=0.1)
    more = imported(tmp_path / "more", rate=7000.0, busy=0.7, used=1.0)
    assert not faint(points_at(*jobs, more))


@pytest.mark.parametrize("used", [(0.2, 0.15), (0.1, 0.9), (0.3, 0.3)])
def test_points_that_contradict_each_other_tell_no_base(used: tuple[float, float], tmp_path: Path) -> None:
    """Points of which CPU falls with the rate, or grows faster than it, give no base."""
    jobs = [
        imported(tmp_path / f"{rate}", rate=rate, busy=5e-4 * rate, used=cores)
        for rate, cores in zip((200, 800), used, strict=True)
    ]
    found = calibrate(points_at(*jobs))
    assert not found.base and not found.others_percent
    assert found.costs["operator work"] > 0.0


@pytest.mark.parametrize("parallelism", [1, 4])
def test_subtasks_that_sleep_wait_for_nobody(parallelism: int, tmp_path: Path) -> None:
    """Subtasks whose threads are seen asleep are as slow with more cores, and need none."""
    threads = {"asleep": 40, "computing": 0}
    job = imported(
        tmp_path / "a", 6000.0, rate=900.0 * parallelism, busy=1.0, parallelism=parallelism, used=0.1, **threads
    )
    assert job.scenario.query.operator("work").service_time_s == pytest.approx(1 / 900)
    assert job.scenario.cluster.host(HOST).cpu_percent == pytest.approx(200 + 100 * parallelism)
    assert run(job).metrics.throughput_per_s == pytest.approx(900 * parallelism, rel=0.02)
    assert knee_per_s(job.scenario) == pytest.approx(900 * parallelism, rel=0.02)
    assert any("work: it sleeps or waits for answers for 100%" in note for note in job.notes)
    assert not any("wait for cores" in note for note in job.notes)


@pytest.mark.parametrize("sightings", [(40, 40), (40, 2), (2, 40)])
def test_two_light_rates_of_a_job_that_sleeps_tell_what_it_bears(sightings: tuple[int, int], tmp_path: Path) -> None:
    """Two light rates of a job that sleeps give its limit by busy times, also if its sleep was seen at one alone."""
    jobs = [
        imported(tmp_path / f"{rate}", rate=rate, busy=rate / 900, used=0.1, asleep=seen)
        for rate, seen in zip((200.0, 500.0), sightings, strict=True)
    ]
    found = calibrate(points_at(*jobs))
    assert knee_per_s(found.applied(jobs[0].scenario)) == pytest.approx(900, rel=0.02 if min(sightings) > 2 else 0.05)


def test_a_few_sightings_tell_nothing(tmp_path: Path) -> None:
    job = imported(tmp_path / "a", rate=900.0, busy=0.5, used=0.1, asleep=2)
    assert any("wait for cores" in note for note in job.notes)


IDLE = "org.apache.flink.streaming.runtime.tasks.mailbox.TaskMailboxImpl.take(TaskMailboxImpl.java:1)"


class Busy(Cluster):
    """Cluster with JVMs of 0.2 cores; one thread of `parse -> clean` sleeps in each dump, one waits for a record."""

    THREADS = (
        ("parse -> clean (1/2)#0", "TIMED_WAITING\n\tat java.lang.Thread.sleep(Native Method)"),
        ("parse -> clean (2/2)#0", f"WAITING on x\n\tat {IDLE}"),
        ("window (1/2)#0", "RUNNABLE\n\tat Sum.add(Sum.java:1)"),
        ("window (2/2)#0", "RUNNABLE\n\tat sun.nio.ch.Net.poll(Native Method)"),
        ("OutputFlusher for window (1/2)#0", "TIMED_WAITING\n\tat java.lang.Thread.sleep(Native Method)"),
    )

    def answer(self, path: str) -> Any:
        for each in MANAGERS:
            if path == f"/taskmanagers/{each.replace(':', '%3A')}/metrics?get=Status.JVM.CPU.Time":
                return [{"id": "Status.JVM.CPU.Time", "value": str(0.2e9 * self._snapshot["now"] / 1000)}]
            if path == f"/taskmanagers/{each.replace(':', '%3A')}/thread-dump":
                threads = [
                    {"threadName": name, "stringifiedThreadInfo": f'"{name}" Id=1 {text}'}
                    for name, text in self.THREADS
                ]
                return {"threadInfos": threads}
        return super().answer(path)


class Computing(Busy):
    """The same cluster with JVMs of four cores, more than all subtasks are busy for, whose dumps take a while."""

    def __init__(self, cores: float, dump_s: float = 0.0) -> None:
        super().__init__()
        self.cores, self.dump_s, self.dumps = cores, dump_s, 0

    def answer(self, path: str) -> Any:
        if path.endswith("get=Status.JVM.CPU.Time"):
            return [{"id": "Status.JVM.CPU.Time", "value": str(self.cores * 1e9 * self._snapshot["now"] / 1000)}]
        if path.endswith("/thread-dump"):
            self.dumps += 1
            time.sleep(self.dump_s)
        return super().answer(path)


def test_a_job_whose_cpu_explains_its_busy_times_is_not_stopped_for_dumps() -> None:
    """Each dump stops a task manager while its heap is searched: none is taken without need, and there are pauses."""
    with serving(cluster := Computing(cores=4.0)) as url:
        from_endpoint(url, window_s=5.0, sleep=lambda _: None)
    assert cluster.dumps == 0
    slept = list[float]()
    with serving(cluster := Computing(cores=0.05, dump_s=0.1)) as url:
        from_endpoint(url, window_s=10.0, sleep=slept.append)
    assert 0 < cluster.dumps <= 5, "a twentieth of the time"
    assert sum(each > 10 * 0.1 for each in slept) == cluster.dumps


class Seldom(Computing):
    """The same cluster with hardly any CPU in use, whose thread of `parse -> clean` sleeps in each fourth dump, and
    waits for a record in the others."""

    def answer(self, path: str) -> Any:
        found = super().answer(path)
        if path.endswith("/thread-dump") and self.dumps % 4:
            name = "parse -> clean (1/2)#0"
            found = {
                "threadInfos": [{"threadName": name, "stringifiedThreadInfo": f'"{name}" Id=1 WAITING\n\tat {IDLE}'}]
            }
        return found


def test_threads_are_looked_at_until_those_of_a_busy_vertex_were_seen_at_work() -> None:
    """A window of ten dumps shows two of them asleep, which tells nothing; some more tell that it sleeps."""
    with serving(cluster := Seldom(cores=0.05)) as url:
        answers = from_endpoint(url, window_s=5.0, sleep=lambda _: None)
    assert 5.0 / ASKED_EVERY_S < cluster.dumps <= LONGER * 5.0 / ASKED_EVERY_S
    assert {each.name: each.asleep for each in read_job(answers).vertices}["parse -> clean"] == 1.0


def told(cluster: Cluster, window_s: float) -> list[str]:
    """Lines that tell a person who waits how an import goes on."""
    said = list[str]()
    with serving(cluster) as url:
        from_endpoint(url, window_s=window_s, audience=Lines(said.append), sleep=lambda _: None)
    return said


def counted_to_the_end(lines: Sequence[str]) -> bool:
    """Whether counts rise, never say more than their total, and end with it."""
    pairs = [(int(found[1]), int(found[2])) for each in lines if (found := re.match(r" +(\d+) of (\d+) ", each))]
    done = [each for each, _ in pairs]
    return bool(pairs) and done == sorted(done) and all(n <= of for n, of in pairs) and pairs[-1][0] == pairs[-1][1]


def test_who_waits_is_told_for_what_and_for_how_long_at_most() -> None:
    said = told(Seldom(cores=0.05), 5.0)
    began = [n for n, each in enumerate(said) if not each.startswith(" ")]
    watching, looking, reading = (said[n] for n in began)
    assert "watching job 'clicks' for 5 s" in watching and "at most 20 s" in looking and reading.startswith("reading")
    assert counted_to_the_end(said[began[0] : began[1]]) and counted_to_the_end(said[began[1] : began[2]])
    assert "2 of 2 busy vertices" in said[began[2] - 1]
    assert not any("threads" in each for each in told(Computing(cores=4.0), 5.0))


def test_a_cluster_that_gathers_metrics_seldom_is_waited_for_and_that_is_told() -> None:
    """Its metrics are older than the window: two snapshots of them take longer than that."""
    said = told(Cluster(gathered_s=20.0), 5.0)
    (begin,) = (n for n, each in enumerate(said) if "gathers metrics again" in each)
    after = next(n for n, each in enumerate(said) if n > begin and not each.startswith(" "))
    assert f"{REFRESHED_S:g} s at most" in said[begin] and counted_to_the_end(said[begin:after])
    assert not any("gathers metrics again" in each for each in told(Cluster(), 5.0))


def test_progress_of_an_import_is_on_stderr_and_quiet_without_a_word(tmp_path: Path) -> None:
    with serving(Cluster()) as url:
        heard, silent = (
            twin("import", "flink", url, "--window", "1", "--out", tmp_path / f"{n}.yaml", "--json", *quiet)
            for n, quiet in enumerate(([], ["--quiet"]))
        )
    assert "watching job 'clicks' for 1 s" in heard.stderr and silent.stderr == ""
    assert json.loads(heard.stdout)["scenario"].keys() == json.loads(silent.stdout)["scenario"].keys()


@given(st.lists(st.text(min_size=1, max_size=200), max_size=60))
def test_metrics_are_asked_for_in_requests_that_flink_takes(names: list[str]) -> None:
    """All of them, in their order, in lines that leave room for the address; Flink takes 4,096 characters."""
    parts = list(in_requests(names))
    assert [unquote(each) for part in parts for each in part.split(",")] == names
    longest = max((len(quote(each, safe="")) for each in names), default=0)
    assert all(len(part) <= max(LONGEST_LIST, longest) for part in parts)


def test_a_live_job_says_its_cpu_and_what_its_threads_do(tmp_path: Path) -> None:
    with serving(Busy()) as url:
        answers = from_endpoint(url, window_s=5.0, sleep=lambda _: None)
    job = read_job(answers)
    assert [each.cpu for each in job.machines] == [pytest.approx(0.2, rel=0.01)] * 2
    assert {each.name: each.asleep for each in job.vertices} == {
        "Source: gen": 0.0, "parse -> clean": 1.0, "window": 0.5, "sink: Writer": 0.0
    }  # fmt: skip
    imported_job = scenario_of(job, {})
    chain = imported_job.scenario.query.operator("parse-clean")
    assert chain.selectivity == pytest.approx(0.9), "a chain is one task, which sleeps"
    assert any("window: it sleeps" in note for note in imported_job.notes)
    assert read_job(from_folder(written(tmp_path / "saved", answers.saved()))).machines == job.machines
    assert len(VERTICES) == len(job.vertices)
