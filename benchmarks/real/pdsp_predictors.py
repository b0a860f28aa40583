"""Predictors of PDSP-Bench's runs: a calibrated twin of each application, LightGBM, a rule.

`naive` says 0.97 of the offer and 50 ms a hop; LightGBM learns the logarithms of delivered share and latency from
everything in a row that was known before the run. The twin of an application is calibrated on those of its runs that
were seen; from all runs it takes only the share that a source reads if it keeps up.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import lightgbm
import numpy as np

from benchmarks.real.pdsp_jobs import APPLICATIONS, HOP_MS, ages_ms, behind, scenario
from scenarios.calibration import calibrate, newton
from scenarios.calibration.newton import Predicted, predict
from scenarios.calibration.points import Point
from twin.rates.model import RateModel
from twin.scenario import Scenario

KEEPS_UP = 0.9
"""Least share of the offer of a source that keeps up, as the data define it."""
NAIVE_SHARE = 0.97
OLD = 2.0
"""Least ratio of a marker's age to the one where nothing waits from which on it waits in full channels."""
UNEVEN = 3.0
"""Standard deviation, in logs, of an operator's cost around the machine's factor: user functions differ a lot."""
UNEVEN_OWN = 1.0
"""Standard deviation, in logs, of the costs of sources and writers, which are the engine's own."""
TREES = {"objective": "l1", "num_leaves": 15, "min_data_in_leaf": 5, "learning_rate": 0.05, "verbose": -1, "seed": 0}
ROUNDS = 300

Row = Mapping[str, str]
Predictor = Callable[[Row], "Said"]
Said = tuple[float, float]
"""Delivered share of the offer, and latency [ms], summed over the operators as the data have it."""


def rows(folder: Path) -> list[Row]:
    """Flink runs of known applications that are not marked as odd."""
    with (folder / "dev.csv").open() as file:
        found = [row for row in csv.DictReader(file) if row["framework"] == "flink" and not row["odd"]]
    return [row for row in found if application(row) in APPLICATIONS and row["ok_rate"] == row["ok_latency"] == "1"]


def application(row: Row) -> tuple[str, str]:
    """Name and variant of the run's application."""
    return row["application"], row["variant"]


def measured(row: Row) -> Said:
    """Measured share of the offer, and latency [ms]."""
    return float(row["source_rate_per_s"]) / float(row["offered_per_s"]), float(row["latency_ms"])


def held(row: Row, read: float) -> bool:
    """Whether operators hold the source back: it delivers less than what comes, and markers wait in full channels.

    A source that delivers less and whose markers are no older than where nothing waits is sent less: the producers'
    rates are nominal.
    """
    share, latency_ms = measured(row)
    return share < KEEPS_UP * read and latency_ms > OLD * naive(row)[1]


def point(row: Row, read: float) -> Point:
    """Run as an operating point, with the summed latency. read: share that a source that keeps up reads."""
    share, latency_ms = measured(row)
    taken = {"source": (share / read if held(row, read) else 1.0) * float(row["offered_per_s"])}
    return Point(name=row["run_id"], scenario=scenario(row), taken_per_s=taken, latency_s=latency_ms / 1000.0)


def said_of(job: Scenario) -> tuple[Predicted, float]:
    """Predictions of the rate model, and ages of markers [ms]."""
    answer = RateModel().answer(job, [job.plan])
    return predict(job, answer), ages_ms(job, answer)


def misses(point: Point, job: Scenario) -> list[newton.Miss]:
    """Misses of a prediction at a point, like those of `twin calibrate`, but with the data's latency."""
    assert point.latency_s is not None
    predicted, age_ms = said_of(job)
    held_back = newton.behind(predicted.margin["source"], point.delivered["source"])
    return [held_back, newton.older(age_ms / 1000.0, point.latency_s)]


def apply(job: Scenario, logs_k: np.ndarray, load: float = 1.0) -> Scenario:
    """Job with other costs of all operators. logs_k: logs of ratios to the profile's costs in data-flow order, and last
    of the ratio of channel capacity. For sources and writers a part of the logs counts. load: factor of all of these
    costs."""
    engine = job.engine
    names = ["source", *behind(job.query)]
    likely = {"source": UNEVEN_OWN / UNEVEN, "writer": UNEVEN_OWN / UNEVEN}  # better known than users' functions
    ratio = {k: load * float(np.exp(likely.get(k, 1.0) * log)) for k, log in zip(names, logs_k, strict=False)}
    operators = tuple(
        each.model_copy(update={"service_time_s": engine.service_s(job.query, each) * ratio[each.name]})
        for each in job.query.operators
    )
    assert engine.network_memory is not None
    buffers = engine.network_memory.times(float(np.exp(logs_k[-1])))
    query = job.query.model_copy(update={"operators": operators})
    return job.model_copy(update={"query": query, "engine": engine.model_copy(update={"network_memory": buffers})})


def reading(others: Sequence[Row]) -> float:
    """Median share of its offer that a source reads if it keeps up: for a bursty series a median is below the mean."""
    shares = [measured(row)[0] for row in others]
    return float(np.median([share for share in shares if share >= KEEPS_UP]))


@dataclass(frozen=True)
class Twin:
    """Calibrated twin of one application. own: the runs that it was calibrated on; found_k: logs of ratios to the
    profile's costs and channel capacity. read: share that a source reads if it keeps up (`reading`). carried: whether
    the share on one machine is expected on the other, too."""

    own: Sequence[Row]
    found_k: np.ndarray
    read: float
    carried: bool = False

    def __call__(self, row: Row, load: float = 1.0) -> Said:
        """Prediction for a run if all costs are `load` times the calibrated ones."""
        predicted, age_ms = self._predicted(row, load)
        return self._theirs(row) * predicted.delivered["source"], age_ms

    def loads(self, row: Row) -> list[float]:
        """Logs of the errors of the load, as far as the run tells."""
        return calibrate.loads(point(row, self.read), self._predicted(row, 1.0)[0])

    def _predicted(self, row: Row, load: float) -> tuple[Predicted, float]:
        key = (row["run_id"], load)
        if key not in self._known:
            self._known[key] = said_of(apply(scenario(row), self.found_k, load))
        return self._known[key]

    @cached_property
    def _known(self) -> dict[tuple[str, float], tuple[Predicted, float]]:
        return {}

    def _theirs(self, row: Row) -> float:
        """Share that sources read where nothing holds them back: median of `read` and the application's own."""
        alike = [each for each in self.own if self.carried or each["hardware"] == row["hardware"]]
        return float(np.median([self.read, *(measured(each)[0] for each in alike if not held(each, self.read))]))


def calibrated(own: Sequence[Row], read: float, kept: Path) -> Twin:
    """Twin calibrated on runs of an application. kept: folder of earlier calibrations."""
    name = hashlib.sha256(repr((sorted(row["run_id"] for row in own), read)).encode()).hexdigest()
    file = kept / f"{name[:16]}.npy"
    if not file.exists():
        points = [point(row, read) for row in own]
        costs = len(points[0].scenario.query.operators)
        found = newton.fit(points, apply, costs + 1, costs, misses=misses, ratios=UNEVEN, spread=UNEVEN)
        np.save(file, found.logs_k)
    return Twin(own, np.load(file), read)


def naive(row: Row) -> Said:
    """Prediction without a model: the job keeps up, and 50 ms a hop, summed as ages are."""
    hops = int(row["hops"])
    return NAIVE_SHARE, HOP_MS * hops * (hops + 1) / 2


def features(row: Row) -> list[float]:
    """Features of a run that are known before it."""
    counts = [int(each) for each in row["parallelism"].split(",")]
    inner = counts[1:-1] or counts
    numbers = [row[key] for key in ("offered_per_s", "cores_per_node", "clock_ghz", "hops", "source_parallelism")]
    window = float(row["window_size"] or -1)
    kind = list(APPLICATIONS).index((row["application"], row["variant"]))
    return [kind, *map(float, numbers), window, min(inner), max(inner), float(np.mean(inner)), len(counts)]


def trees(seen: Sequence[Row]) -> Predictor:
    """LightGBM on the logarithms."""
    table, said = np.array([features(row) for row in seen]), np.log([measured(row) for row in seen])
    sets = [lightgbm.Dataset(table, each, categorical_feature=[0]) for each in said.T]
    models = [lightgbm.train(TREES, each, ROUNDS) for each in sets]

    def predicted(row: Row) -> Said:
        share, latency = (float(np.exp(model.predict(np.array([features(row)]))[0])) for model in models)
        return share, latency

    return predicted
