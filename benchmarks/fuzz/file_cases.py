"""Cases of files that people and other tools write: scenarios and `--set`, recordings, graphs, answers, samples."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import yaml
from pyarrow import csv, parquet

from benchmarks.fuzz.trying import (
    ANNOUNCED,
    NUMBERS,
    RAN,
    WORDS,
    WRONG,
    Outcome,
    changed_bytes,
    changed_data,
    changed_text,
    of_call,
    of_command,
    of_import,
    other_number,
)
from scenarios.files import scenario_file
from scenarios.files.registry import LIBRARY
from scenarios.files.yaml_text import parse_text, to_text
from tests.scenarios.calibration.test_points import JOB
from tests.streamtwin.importers.flink_cluster import CONFIG, detail, job_at, managers, markers, plan
from tests.streamtwin.importers.test_hardware import MLC, NUMACTL, V1, V2
from tests.streamtwin.importers.test_metrics import COLUMNS, samples
from tests.streamtwin.test_run_graph import HOSTS, JOINED, LINEAR
from tests.twin.machine.runs import differences, looking_after_each_event, outcome
from twin.errors import BadInput
from twin.rates.model import RateModel
from twin.run import Run
from twin.scenario import Scenario

# scenarios -----------------------------------------------------------------------------------------------------------
# Scenario cases: files of the library, changed as data, in their numbers alone, or as text; and `--set`.
#
# Some runs are judged: conservation holds (every run checks it), they are the same to the last bit when Python looks
# after each event, and the rate model predicts about the same throughput.


FILES = sorted(LIBRARY.glob("*.yaml"))
RUN = {"horizon_s": 8, "warmup_s": 2, "period_s": 2, "noise": False}
MOST_RECORDS = 100_000
"""Most records, at all operators of a run, of a case that is judged: looks after each event take some CPU seconds."""
ENOUGH, APART = 500, 1.5
"""Least number of results of a run whose throughput is judged, and the factor by which the rate model may be off."""
OPTIONS = ("--policy", "--horizon", "--precision", "--seed", "--set")


def scenario_case(random: Random, folder: Path) -> Outcome:
    """Runs a changed file of the library."""
    text, path = random.choice(FILES).read_text(encoding="utf-8"), folder / "s.yaml"
    way = random.randrange(5)
    if way == 0:
        path.write_text(changed_text(text, random), encoding="utf-8", errors="surrogatepass")
    else:
        data = parse_text(text, "library")
        assert isinstance(data, dict)
        data["run"] = {"horizon_s": 20, "warmup_s": 5, "period_s": 5} | data.get("run", {})
        data["run"] |= {"horizon_s": 20, "warmup_s": 5}
        if random.random() < 0.3:
            data["engine"] = random.choice(("brisk", "flink"))
        path.write_text(yaml.dump(changed_data(data, random, numbers_only=way < 3), sort_keys=False), encoding="utf-8")
    more = ["--policy", random.choice(("relieve", "ds2"))] if random.random() < 0.2 else []
    return of_command("run", str(path), *more)


def override_case(random: Random, _folder: Path) -> Outcome:
    """Runs a job of the library with up to two assignments and options that make no sense."""
    name = random.choice(FILES).stem
    assignments = [_assignment(name, random) for _ in range(random.choice((1, 1, 1, 2)))]
    more = [word for each in assignments for word in ("--set", each)]
    if random.random() < 0.15:
        more += [random.choice(OPTIONS), str(random.choice((*NUMBERS, *WORDS)))]
    return of_command("run", name, "--horizon", "15", *more)


def _assignment(name: str, random: Random) -> str:
    data = parse_text((LIBRARY / f"{name}.yaml").read_text(encoding="utf-8"), name)
    steps = []
    while isinstance(data, dict | list) and data and (not steps or random.random() < 0.95):
        key = random.choice(list(data) if isinstance(data, dict) else range(len(data)))
        data = data[key]
        steps.append(str(data["name"]) if isinstance(data, dict) and "name" in data else str(key))
    path = ".".join(steps)
    if random.random() < 0.1:
        path = changed_text(path, random)
    if isinstance(data, int | float) and random.random() < 0.8:
        return f"{path}={other_number(data, random)}"
    return f"{path}={random.choice((*NUMBERS, *WORDS))}"


def judged_case(random: Random, folder: Path) -> Outcome:
    """Runs a file of the library with up to four changed numbers, twice."""
    found: list[str] = []
    outcome = of_call(lambda: found.append(_judged(random, folder / "s.yaml")))
    if outcome.kind != RAN or not found[0]:
        return outcome
    return Outcome(ANNOUNCED if found[0] == ANNOUNCED else WRONG, found[0], outcome.cpu_s)


def _judged(random: Random, path: Path) -> str:
    """Words on what is wrong with a run; empty if nothing is."""
    data = parse_text(random.choice(FILES).read_text(encoding="utf-8"), "library")
    assert isinstance(data, dict)
    data["run"] = {**data.get("run", {}), **RUN, "seed": random.randrange(1000)}
    changed = changed_data({key: value for key, value in data.items() if key != "run"}, random, numbers_only=True)
    assert isinstance(changed, dict)
    path.write_text(to_text({**changed, "run": data["run"]}), encoding="utf-8")
    scenario = scenario_file.load(str(path))
    found = outcome(scenario)
    if found.run is not None and sum(row["numRecordsIn"] for row in found.run.operator_rows) > MOST_RECORDS:
        return ANNOUNCED
    with looking_after_each_event():
        if differing := differences(found, outcome(scenario)):
            return f"a run that is looked at differs in {differing[0]}"
    if found.run is None:
        raise BadInput(found.error)
    return _against_rates(scenario, found.run)


def _against_rates(scenario: Scenario, run: Run) -> str:
    model = RateModel()
    if scenario.events or scenario.policy or scenario.checkpoints or model.blind_to(scenario) or run.crashed:
        return ""
    said = float(model.predict(scenario, [scenario.plan])["throughput_per_s"][0])
    measured = run.metrics.throughput_per_s
    seconds = run.manifest["simulated_s"] - run.manifest["warmup_s"]
    if min(said, measured) * seconds < ENOUGH or abs(math.log(said / measured)) < math.log(APART):
        return ""
    return f"the rate model says {said:.4g} results a second, the run has {measured:.4g}"


# imports -------------------------------------------------------------------------------------------------------------
# Import cases: files of other tools, changed. They are recordings of arrivals, graphs of runs, saved answers of Flink,
# hwloc's XML and tables of samples.


REPLAYED = """
name: replayed
query:
  operators:
  - {{kind: source, name: in, columns: {{ints: 2}}}}
  - {{kind: filter, name: keep, selectivity: 0.5, function: "<", literal_type: int}}
  - {{kind: sink, name: out}}
  streams: [{{producer: in, consumer: keep}}, {{producer: keep, consumer: out}}]
cluster: {{hosts: [{{name: h, cpu_percent: 400, ram_mb: 8000, bandwidth_mbps: 1000, latency_ms: 1}}]}}
plan: {{placement: {{in: h, keep: h, out: h}}}}
workload: {{arrivals: {{in: {{law: replay, path: {path}{more}}}}}}}
run: {{horizon_s: 20, warmup_s: 0, period_s: 5}}
"""
MORE = ("", "", ", loop: false", ", speed: 1.0e+6", ", rate_factor: 1.0e+6", ", start_s: 3", ", poisson: false")
ANSWERS = {
    "job_jobs_id.json": job_at(100.0),
    "job_jobs_id_first.json": job_at(60.0),
    "job_jobs_id_plan.json": plan(),
    "taskmanagers.json": managers(),
    "overview.json": {"flink-version": "2.3.0"},
    "jobmanager_config.json": CONFIG,
    "job_v1_latency_markers.json": markers(),
    **{f"job_v{number}_detail.json": detail(number) for number in range(4)},
}


def recording_case(random: Random, folder: Path) -> Outcome:
    """Runs a job with a recording of times or rates, some of them senseless, in a file that may be damaged."""
    rows = random.choice((0, 1, 2, 3, 50, 500))
    rng = np.random.default_rng(random.randrange(2**32))
    columns = {"time_s": np.sort(rng.uniform(0, random.choice((1e-9, 1, 20, 1e9)), rows))}
    if random.random() < 0.6:
        columns["rate_per_s"] = rng.uniform(0, random.choice((1e-9, 10, 500, 1e6)), rows)
    for values in columns.values():
        for _ in range(random.choice((0, 0, 1, 3)) if rows else 0):
            values[rng.integers(rows)] = float(random.choice(NUMBERS))
    path = folder / random.choice(("r.csv", "r.parquet", "r.pq"))
    _write(pa.table(columns), path)
    if random.random() < 0.4:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    elif random.random() < 0.3 and path.suffix == ".csv":
        path.write_text(changed_text(path.read_text(), random), encoding="utf-8", errors="surrogatepass")
    name = path.name if random.random() < 0.95 else random.choice(('"a\\0b"', "none.csv", ".", '""', "/dev/null"))
    (folder / "s.yaml").write_text(REPLAYED.format(path=name, more=random.choice(MORE)))
    return of_command("run", str(folder / "s.yaml"))


def _write(table: pa.Table, path: Path) -> None:
    (csv.write_csv if path.suffix == ".csv" else parquet.write_table)(table, path)


def graph_case(random: Random, folder: Path) -> Outcome:
    """Imports and runs a graph of which words, numbers or bytes are changed."""
    text, way = "graph {\n" + random.choice((LINEAR, JOINED)) + HOSTS + "}\n", random.randrange(6)
    if way == 0:
        text = changed_text(text, random)
    elif way > 1:
        text = '"'.join(_other_numbers(text.split('"'), random.choice((1, 1, 2)), ".6g", random))
    content = text.encode("utf-8", "surrogatepass")
    (folder / "run.graph").write_bytes(changed_bytes(content, random) if way == 1 else content)
    return of_import(folder / "run.yaml", "run-graph", str(folder / "run.graph"))


def _other_numbers(words: list[str], count: int, digits: str, random: Random) -> list[str]:
    """Words of which `count` that are numbers are changed."""
    numbers = [index for index, word in enumerate(words) if word.replace(".", "").isdigit()]
    for index in random.sample(numbers, min(count, len(numbers))):
        words[index] = f"{other_number(float(words[index]), random):{digits}}"
    return words


def import_case(random: Random, folder: Path) -> Outcome:
    """Imports a changed file of one tool, and runs the imported job if there is one."""
    return random.choice(CASES)(random, folder)


def _flink(random: Random, folder: Path) -> Outcome:
    (folder / "answers").mkdir()
    changed = random.choice([*ANSWERS])
    for name, answer in ANSWERS.items():
        found = changed_data(answer, random) if name == changed else answer  # type: ignore[arg-type]
        text = json.dumps(found, default=str)
        if name == changed and random.random() < 0.2:
            text = changed_text(text, random)
        (folder / "answers" / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    return of_import(folder / "job.yaml", "flink", str(folder / "answers"))


def _hardware(random: Random, folder: Path) -> Outcome:
    command, text, *more = random.choice(HARDWARE)
    if random.random() < 0.5:
        text = "".join(_other_numbers(re.split(r"([\w.]+)", text), 2, ".12g", random))
    content = changed_text(text, random).encode("utf-8", "surrogatepass")
    (folder / "machine").write_bytes(changed_bytes(content, random) if random.random() < 0.2 else content)
    return of_command("import", command, str(folder / "machine"), *more)


HARDWARE = (
    *(("lstopo", V2), ("lstopo", V1), ("numactl", NUMACTL), ("numactl", NUMACTL, "--threads-per-core", "2")),
    ("mlc", MLC, "--cores", "4", "--ram-mb", "8000"),
)


def _metrics(random: Random, folder: Path) -> Outcome:
    rows = [dict(zip(COLUMNS, each, strict=True)) for each in samples()]
    rows = changed_data(rows, random)  # type: ignore[arg-type,assignment]
    path = folder / random.choice(("m.csv", "m.parquet"))
    texts = [{str(key): str(value) for key, value in row.items()} for row in rows if isinstance(row, dict)]
    columns = dict.fromkeys(key for row in texts for key in row)
    _write(pa.table({key: [row.get(key) for row in texts] for key in columns}), path)
    if random.random() < 0.3:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    (folder / "job.yaml").write_text(scenario_file.dump(JOB))
    return of_command("import", "metrics", str(folder / "job.yaml"), str(path), str(folder / "rows"))


CASES: tuple[Callable[[Random, Path], Outcome], ...] = (_flink, _hardware, _metrics)
