"""Cases of files that the program keeps: damaged by one bit; checkpoints of models and datasets, changed in any way."""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from flax import serialization

from benchmarks.fuzz.trying import (
    RAN,
    SLOW,
    UNNOTICED,
    Outcome,
    any_value,
    changed_bytes,
    changed_data,
    command,
    of_call,
    places,
)
from models import checkpoint, dataset, encoding, prediction, trees
from models.checkpoint import Ensemble, coverage_of
from models.gnn import initial
from models.labels import Scaling
from models.settings import NetworkConfig
from models.training import MemberCheckpoints, TrainedNetwork
from papers.workspace import CorpusJob, Workspace, in_process
from scenarios.calibration import profile_file
from scenarios.executing import Lines
from scenarios.files import scenario_file
from scenarios.files.run_folder import read_run, write_run
from streamtwin.connect import belief as tables
from streamtwin.connect import profiles
from streamtwin.connect.shadow import Shadow, followed
from tests.models.deployments import random_deployment
from tests.models.test_dataset import rows
from tests.models.test_predictors import SMALL, TEST, TRAIN, VALID
from tests.papers.conftest import TINY
from tests.streamtwin.shadow_jobs import WINDOW_S, crossing, series_of, write_metrics
from twin.corpus.manifest import CorpusSpec
from twin.randomness import child_seed
from twin.scenario import Scenario, config_hash
from twin.simulation import simulate
from twin.trace import TRAINING_ROWS

# models and datasets -------------------------------------------------------------------------------------------------
# Learning cases: checkpoints of cost models, loaded and asked; and datasets, read and split.


CONFIG = NetworkConfig(hidden=4, outputs=1, features="costs")
JOBS = tuple(random_deployment(seed) for seed in range(20))


@cache
def ensemble() -> Ensemble:
    """Small untrained ensemble of networks."""
    seen = coverage_of(dataset.of_deployments(JOBS, np.ones((len(JOBS), 5))).graphs)
    members = tuple(initial(CONFIG, seed) for seed in range(2))
    curve = [{"seed": seed, "curve": [[20, 0.5, 0.4]]} for seed in range(2)]
    about = {"seed": 3, "seen": dict(seen), "rows": {"train": 16, "valid": 2, "test": 2}, "members": curve}
    return Ensemble(("throughput_per_s",), CONFIG, Scaling((1.0,), (2.0,)), members, {**about, "horizon_s": 240.0})


def checkpoint_case(random: Random, folder: Path) -> Outcome:
    """Loads a checkpoint with changed bytes, or with a changed part in the format of a version without checksums."""
    checkpoint.save(ensemble(), folder)
    (path,) = folder.glob("*.msgpack")
    whole = path.read_bytes()
    other = changed_bytes(whole, random) if random.random() < 0.4 else _changed_body(whole.partition(b"\n")[2], random)
    path.write_bytes(other)
    return of_call(lambda: _asked_costs(folder, random))


def _changed_body(whole: bytes, random: Random) -> bytes:
    """Checkpoint's content with a change that its format can hold: of any part, or of an array."""
    while True:
        body = serialization.msgpack_restore(whole)
        if random.random() < 0.6:
            body = changed_data(body, random)
        else:
            node, key = random.choice([place for place in places(body) if isinstance(place[0][place[1]], np.ndarray)])
            leaf = node[key]
            node[key] = random.choice((leaf * np.nan, leaf[:1], leaf.astype(np.float64), any_value(random)))
        try:
            return serialization.msgpack_serialize(body)
        except (OverflowError, ValueError, TypeError):  # an integer of 65 bits, a key of a type of its own
            continue


def _asked_costs(folder: Path, random: Random) -> None:
    model, job = prediction.load(folder), random.choice(JOBS)
    found = model.predict_plans(job, [job.plan])
    assert all(np.isfinite(each).all() for each in found.values.values()), "a prediction is not finite"


def dataset_case(random: Random, folder: Path) -> Outcome:
    """Reads training rows of which values, columns or bytes are changed."""
    table = pa.Table.from_pylist(rows(), schema=TRAINING_ROWS)
    way, path = random.randrange(4), folder / "rows.parquet"
    if way == 0:
        table = table.drop_columns([random.choice(table.column_names)])
    elif way == 1:
        at = random.randrange(table.num_columns)
        table = table.set_column(at, table.column_names[at], pa.array(_column(random, len(table))))
    elif way == 2:
        first, *others = table["deployment"].to_pylist()
        texts = [json.dumps(changed_data(json.loads(first), random), default=str), *others]
        table = table.set_column(table.column_names.index("deployment"), "deployment", pa.array(texts))
    pq.write_table(table, path, compression=random.choice(("zstd", "none")))
    if way == 3:
        path.write_bytes(changed_bytes(path.read_bytes(), random))
    return of_call(lambda: dataset.split(dataset.read(folder, workers=1), 0))


def _column(random: Random, count: int) -> list[Any]:
    values = [random.uniform(-1, 1) for _ in range(count)]
    return random.choice((values, *([value] * count for value in (float("nan"), 1e308, "word", b"\xff", None))))


# one bit -------------------------------------------------------------------------------------------------------------
# Damage cases: kept files of every kind with one bit flipped, as failing disks and memory do. Reading them must give
# what was written, or say that they are damaged.


SILENT = Lines(lambda _text: None)
JOB = "edge-filter"
ASKED = ("whatif", JOB, "--vary", "load=0.5,2", "--set", "run.horizon_s=20", "--replications", "3", "--workers", "1")
JUDGED = (
    *("benchmark", "--families", "edge-linear", "--most", "1", "--optimizers", "governor", "--cost-model", "rates"),
    *("--workers", "1"),
)
ANSWERED = ("answer.json", "table.csv", "figure.png")
IMPROVED = (
    *("improve", "learned", "--on", JOB, "--rounds", "1", "--jobs", "4", "--runs", "2", "--pool", "6"),
    *("--judges", "2", "--plans", "3", "--workers", "1"),
)


def damage_case(random: Random, folder: Path, name: str | None = None) -> Outcome:
    """Flips one bit of one file of a kind of kept files, and reads the files again."""
    name = name or random.choices([*KEPT], [0.1 if each in COSTLY else 1.0 for each in KEPT])[0]
    whole, expected = _kept(name)
    shutil.copytree(whole, folder / "kept")
    files = sorted(path for path in (folder / "kept").rglob("*") if path.is_file() and path.stat().st_size)
    file = random.choice(files)
    content = bytearray(file.read_bytes())
    bit = random.randrange(8 * len(content))
    content[bit // 8] ^= 1 << bit % 8
    file.write_bytes(content)
    found: list[Any] = []
    outcome = of_call(lambda: found.append(KEPT[name][1](folder / "kept")))
    if outcome.kind in (RAN, SLOW) and found[0] != expected:
        where = file.relative_to(folder / "kept")
        return Outcome(UNNOTICED, f"{name}: bit {bit} of {where} gives another answer", outcome.cpu_s)
    return outcome


@cache
def _kept(name: str) -> tuple[Path, Any]:
    """Folder of a kind of kept files, and what is read from it."""
    top = Path(tempfile.mkdtemp(prefix="streamtwin-fuzz-kept-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    make, use = KEPT[name]
    make(top / "kept")
    shutil.copytree(top / "kept", top / "used")
    return top / "kept", use(top / "used")


def _asked(*words: str) -> tuple[Callable[[Path], None], Callable[[Path], Any]]:
    """Functions that ask a question into its folder for the first time and again: the answer may not change."""

    def use(folder: Path) -> Any:
        command(*words, "--out", str(folder))
        return [(folder / name).read_bytes() for name in ANSWERED if (folder / name).exists()]

    return use, use


def _page(folder: Path) -> str:
    page = folder.with_suffix(".html")
    command("report", str(folder), "--out", str(page))
    return page.read_text().replace(str(folder), "")


def _job(index: int) -> Scenario:
    return scenario_file.load(JOB).with_run(horizon_s=12, warmup_s=2, seed=child_seed(0, index))


def _corpus(folder: Path) -> list[Any]:
    """Rows of a corpus, which is made or completed."""
    shutil.rmtree(folder / "rows", ignore_errors=True)
    in_process([CorpusJob(folder / "corpus", folder / "rows", _job, CorpusSpec(runs=6, seed=0, space="fuzz"))], SILENT)
    return _rows(folder / "rows")


def _rows(folder: Path) -> list[Any]:
    found = dataset.read(folder, workers=1)
    arrays = (found.labels_GxA, found.flat_GxF, found.derived_GxD, found.rates_GxA, found.records_out, found.horizon_s)
    return [*(each.tobytes() for each in arrays), found.config_hash.tolist()]


def _dataset(folder: Path) -> None:
    _corpus(folder.with_name("made"))
    shutil.copytree(folder.with_name("made") / "rows", folder)
    found = dataset.read(folder, workers=1)
    encoding.write(folder, found.encoded, found.config_hash)


def _network(folder: Path) -> Any:
    """Network of an unfinished training. It is trained again only if its file is damaged, with the same result."""
    keep = MemberCheckpoints(folder, {"rows": "a", "seed": 1})
    network = keep("all", 0, lambda: TrainedNetwork(ensemble().members[0], (), 1))
    return str(network.parameters), network.curve, network.seed


def _trees(folder: Path) -> Any:
    found, seen = trees.load(folder / "e2e_latency_s.trees.json", "v1")
    return found.predict(TEST.x_NxF, TEST.rates_N).tobytes(), seen


def _save_trees(folder: Path) -> None:
    trees.save(trees.train_trees("e2e_latency_s", "ratio", TRAIN, VALID, SMALL), folder, "v1", {"sink": 3})


def _calibrate(folder: Path) -> None:
    job = scenario_file.load(JOB)
    found = profile_file.CalibratedProfile(
        version="1", scenario=JOB, config_hash=config_hash(job), points=3, by="kind", engine=job.engine,
        costs={"filter": 1e-5}, hidden={}, estimates=(), held_out=(),
    )  # fmt: skip
    folder.mkdir()
    (folder / "p.yaml").write_text(profile_file.dump(found))


def _profile(folder: Path) -> None:
    job = scenario_file.load(JOB)
    folder.mkdir()
    measured = profiles.profiles_of(job, profiles.profile(job.deployment, 50, seed=0), 50, 0)
    (folder / "p.json").write_text(profiles.dump(measured))


def _shadow(folder: Path) -> None:
    series = series_of(write_metrics(crossing(), folder.with_name("metrics")))
    Shadow(crossing(), folder, WINDOW_S, 60.0, 10).told(series)


def _followed(folder: Path) -> Any:
    seen = followed(JOB, folder)
    return seen.windows, seen.alerts, seen.last, tables.before(folder, 1e9, 10)


def _judged(folder: Path) -> Any:
    return Workspace(folder, TINY, 0, SILENT).cached("fuzz", {"case": 1}, lambda: [{"regret": 0.125, "plan": "a"}])


def _asked_model(folder: Path) -> list[bytes]:
    found = prediction.load(folder).predict_plans(JOBS[0], [JOBS[0].plan])
    return [np.asarray(each).tobytes() for each in found.values.values()]


KEPT: Mapping[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "questions": _asked(*ASKED),
    "answers": (_asked(*ASKED)[0], _page),
    "suites": _asked(*JUDGED),
    "improved models": _asked(*IMPROVED),
    "runs": (lambda folder: write_run(simulate(_job(0)), JOB, folder), lambda folder: repr(read_run(folder))),
    "corpora": (_corpus, _corpus),
    "datasets": (_dataset, _rows),
    "models": (lambda folder: checkpoint.save(ensemble(), folder), _asked_model),
    "trainings": (_network, _network),
    "trees": (_save_trees, _trees),
    "calibrations": (_calibrate, lambda folder: profile_file.dump(profile_file.load(folder / "p.yaml"))),
    "profiles": (_profile, lambda folder: profiles.dump(profiles.load(folder / "p.json"))),
    "shadows": (_shadow, _followed),
    "experiments": (_judged, _judged),
}
"""For each kind of kept files, a function that makes a folder and one that reads it again."""
COSTLY = ("questions", "answers", "suites", "improved models")
"""Kinds that take seconds each, so that they are tried a tenth as often."""
