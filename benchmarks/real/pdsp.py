"""Real runs of Flink with latencies (PDSP-Bench), leave one application out: six own runs, then predict its others.

    python -m benchmarks.real.pdsp --data DIR [--own 6]

DIR holds dev.csv: one row a run. The data have no licence, so no row of them is in this project. Every predictor may
see six runs of the application and all runs of the others. `naive` says 0.97 of the offer and 50 ms a hop; LightGBM
learns the logarithms of delivered share and latency from everything in a row that was known before the run; the twin
is calibrated on the six runs, and takes from the others only what a source that keeps up reads.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import lightgbm
import numpy as np

from benchmarks.real.pdsp_jobs import APPLICATIONS, scenario
from benchmarks.table import print_table
from scenarios.calibration import newton
from scenarios.calibration.point import Point
from scenarios.calibration.predicting import predict
from twin.query import Query
from twin.randomness import stream
from twin.rates.model import RateModel
from twin.scenario import Scenario

KEEPS_UP = 0.9
"""Of the offer, as the data define it."""
NAIVE_SHARE, HOP_MS = 0.97, 50.0
UNEVEN = 3.0
"""Standard deviation, in logs, of an operator's cost around the machine's factor: user functions differ a lot."""
TREES = {"objective": "l1", "num_leaves": 15, "min_data_in_leaf": 5, "learning_rate": 0.05, "verbose": -1, "seed": 0}
ROUNDS = 300

Row = Mapping[str, str]
Said = tuple[float, float]
"""Delivered share of the offer, and latency in ms, summed over the operators as the data have it."""


def rows(folder: Path) -> list[Row]:
    """Flink runs of known applications that are not marked as odd."""
    with (folder / "dev.csv").open() as file:
        found = [row for row in csv.DictReader(file) if row["framework"] == "flink" and not row["odd"]]
    wanted = ("ok_rate", "ok_latency")
    known = [row for row in found if (row["application"], row["variant"]) in APPLICATIONS]
    return [row for row in known if all(row[each] == "1" for each in wanted)]


def measured(row: Row) -> Said:
    """What was."""
    return float(row["source_rate_per_s"]) / float(row["offered_per_s"]), float(row["latency_ms"])


def ages_ms(job: Scenario) -> float:
    """Ages of latency markers, which pass windows by, summed over the operators behind the source and the committer."""
    answer = RateModel().answer(job, [job.plan])
    order = [answer.operators.index(name) for name in ("source", *_behind(job.query))]
    steps_s = answer.channel_s[0, order] + answer.queue_s[0, order]
    at_each = np.cumsum(steps_s)[1:]
    return 1000.0 * float(at_each.sum() + at_each[-1] + HOP_MS / 1000.0)


def _behind(query: Query) -> list[str]:
    found, at = [], "source"
    while following := query.outputs(at):
        at = following[0].consumer
        found.append(at)
    return found


def point(row: Row, read: float) -> Point:
    """A run as an operating point; its latency is the summed one. read: see `reading`."""
    share, latency_ms = measured(row)
    job = scenario(row)
    taken = {"source": min(1.0, share / read) * float(row["offered_per_s"])}
    return Point(name=row["run_id"], scenario=job, taken_per_s=taken, latency_s=latency_ms / 1000.0)


def misses(point: Point, job: Scenario) -> list[float]:
    """As the calibration's own, with the data's latency."""
    assert point.latency_s is not None
    off = newton.missed(replace(point, latency_s=None), job)
    return [*off, float(np.log(ages_ms(job) / 1000.0 / point.latency_s)) / newton.LATENCY_ERROR]


def apply(job: Scenario, logs_k: np.ndarray) -> Scenario:
    """Costs of all operators in data-flow order, and what channels hold last, as logs of ratios to the profile's."""
    engine = job.engine
    names = ["source", *_behind(job.query)]
    ratio = {name: float(np.exp(log)) for name, log in zip(names, logs_k, strict=False)}
    operators = tuple(
        each.model_copy(update={"service_time_s": engine.service_s(job.query, each) * ratio[each.name]})
        for each in job.query.operators
    )
    buffers = engine.channel_buffers or 1.0
    return job.model_copy(
        update={
            "query": Query(operators=operators, streams=job.query.streams),
            "engine": engine.model_copy(update={"channel_buffers": buffers * float(np.exp(logs_k[-1]))}),
        }
    )


def reading(others: Sequence[Row]) -> float:
    """What a source that keeps up reads of its offer: a median of a bursty series is below its mean."""
    shares = [measured(row)[0] for row in others]
    return float(np.median([share for share in shares if share >= KEEPS_UP]))


def twin(own: Sequence[Row], read: float) -> Callable[[Row], Said]:
    """Calibrated on the application's own runs. read: see `reading`, of the other applications."""
    points = [point(row, read) for row in own]
    costs = len(points[0].scenario.query.operators)
    found = newton.fit(points, apply, costs + 1, costs, misses=misses, spread=UNEVEN)

    def said(row: Row) -> Said:
        job = apply(scenario(row), found.logs_k)
        return read * predict(job).delivered["source"], ages_ms(job)

    return said


def naive(row: Row) -> Said:
    """Keeps up; 50 ms a hop, summed as ages are."""
    hops = int(row["hops"])
    return NAIVE_SHARE, HOP_MS * hops * (hops + 1) / 2


def features(row: Row) -> list[float]:
    """What is known before a run."""
    counts = [int(each) for each in row["parallelism"].split(",")]
    inner = counts[1:-1] or counts
    numbers = [row[key] for key in ("offered_per_s", "cores_per_node", "clock_ghz", "hops")]
    window = float(row["window_size"] or -1)
    kind = list(APPLICATIONS).index((row["application"], row["variant"]))
    return [kind, *map(float, numbers), window, min(inner), max(inner), float(np.mean(inner)), len(counts)]


def trees(seen: Sequence[Row]) -> Callable[[Row], Said]:
    """LightGBM on the logarithms."""
    table = np.array([features(row) for row in seen])
    said = np.log([measured(row) for row in seen])
    models = [lightgbm.train(TREES, lightgbm.Dataset(table, each, categorical_feature=[0]), ROUNDS) for each in said.T]

    def predicted(row: Row) -> Said:
        share, latency = (float(np.exp(model.predict(np.array([features(row)]))[0])) for model in models)
        return share, latency

    return predicted


def line(name: str, who: str, judged: Sequence[Row], said: Sequence[Said]) -> list[object]:
    """q-errors, median / 95 %, of source rate and latency; how often it is right whether the source keeps up."""
    true = [measured(row) for row in judged]
    q = [[max(a, b) / max(min(a, b), 1e-9) for a, b in zip(x, y, strict=True)] for x, y in zip(true, said, strict=True)]
    right = np.mean([(a[0] >= KEEPS_UP) == (b[0] >= KEEPS_UP) for a, b in zip(true, said, strict=True)])
    rate, latency = np.array(q).T
    shown = [f"{np.median(each):.2f}/{np.quantile(each, 0.95):.2f}" for each in (rate, latency)]
    means = [f"{np.exp(np.log(each).mean()):.2f}" for each in (rate, latency)]
    return [name, who, len(judged), shown[0], means[0], shown[1], means[1], f"{right:.2f}"]


def main() -> None:
    """One table: by application and over all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--own", type=int, default=6, help="runs of the application that are seen")
    parser.add_argument("--judged", type=int, default=40, help="at most, of each application")
    given = parser.parse_args()
    everything, lines = rows(given.data), []
    total: dict[str, tuple[list[Row], list[Said]]] = {}
    for number, (application, variant) in enumerate(APPLICATIONS):
        mine = [row for row in everything if (row["application"], row["variant"]) == (application, variant)]
        others = [row for row in everything if row not in mine]
        order = stream(number, "own-runs").permutation(len(mine))
        own, judged = (
            [mine[each] for each in part] for part in (order[: given.own], order[given.own :][: given.judged])
        )
        predictors = {"naive": naive, "LightGBM": trees([*others, *own]), "calibrated twin": twin(own, reading(others))}
        for who, predictor in predictors.items():
            said = [predictor(row) for row in judged]
            lines.append(line(f"{application} {variant}".strip(), who, judged, said))
            kept = total.setdefault(who, ([], []))
            kept[0].extend(judged)
            kept[1].extend(said)
        print(f"{application} {variant}: done", flush=True)
    lines += [line("all", who, *kept) for who, kept in total.items()]
    header = ("application", "predictor", "runs", "source rate", "mean", "latency", "mean ", "keeps up")
    print_table(
        f"q-errors on other runs of an application, {given.own} of it seen (median/95 %, geometric mean)", header, lines
    )


if __name__ == "__main__":
    main()
