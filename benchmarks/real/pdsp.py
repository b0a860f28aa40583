"""Real runs of Flink with latencies (PDSP-Bench): an application, or a machine, is left out and predicted.

    python -m benchmarks.real.pdsp --data DIR --kept FOLDER

DIR holds dev.csv: one row a run. The data have no licence, so no row of them is in this project. An application that is
left out is seen by a few runs of its own, a machine by none: its applications are calibrated on the other one. All
predictors see the same runs; LightGBM also those of all other applications, as it has no other way to know of them.
What is found is kept in FOLDER, so that a run can be resumed. Whether an application's sources read on another machine
what they read on this one is for these folds to say.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np

from benchmarks.table import print_table
from optimizers.objectives import at_rate
from scenarios.calibration import calibrate, newton
from scenarios.calibration.calibrate import LEVEL, reach
from scenarios.calibration.newton import Predicted, predict
from scenarios.calibration.points import Point
from tests.twin.worlds import deployment
from twin.query import Query
from twin.randomness import random_stream
from twin.rates.model import RateAnswer, RateModel
from twin.scenario import RunSettings, Scenario

# jobs ----------------------------------------------------------------------------------------------------------------
# PDSP-Bench's Flink applications as scenarios: chains behind a Kafka source, on four workers; ages of their markers.
#
# The operators, the partitioning of their input and their selectivities are public in its workload generator. Costs are
# not: all are the profile's, to be calibrated.
#
# Producers send a burst a second, and latency markers leave the sources all the time. A marker that meets a burst waits
# for a buffer that the burst fills; another one waits for the next flush, however fast the job is on average. So ages
# are a mean of both, by the share of time in which records come. A burst lasts for as long as the slowest operator
# makes it last.


Chain = tuple[tuple[float, str], ...]
"""Selectivity of each operator, and partitioning of its input: r(ebalance), f(orward if parallelisms agree), k(eyed).

Streams out of a source have Flink's default partitioning: overloaded runs with as many sources as parsers have markers
a thirtieth as old as those with other numbers, so they have a channel each.
"""

APPLICATIONS: Mapping[tuple[str, str], Chain] = {
    ("Word Count", ""): ((6.0, "f"), (1.0, "k")),
    ("Smart Grid", ""): ((1.0, "f"), (0.006, "k")),
    ("Spike Detection", ""): ((1.0, "f"), (1.0, "k"), (0.0093, "f")),
    ("Ad Analytics", "without"): ((1.0, "f"), (1.0, "f"), (0.7, "k")),
    ("Linear Road", ""): ((1.0, "f"), (0.02, "k"), (1.0, "r"), (1.0, "r")),
    ("Machine Outlier", ""): ((1.0, "f"), (0.0128, "k")),
    ("Sentiment Analysis", ""): ((1.0, "f"), (1.0, "f")),
    ("TPCH", "without"): ((1.0, "f"), (0.5, "f"), (1.0, "f"), (1.0, "k")),
    ("TPCH", "with"): ((1.0, "f"), (0.5, "k"), (1.0, "f"), (1.0, "k")),
}
WORKERS = 4
KEY_GROUPS = 128
HOT_WORD = 1 / 6
"""Share of Word Count's tokens that are the empty string."""
DEALT = {"r": "rebalance", "k": "hash", "f": "forward"}
LINEAR_ROAD_LATE = 10
"""Parallelism of Linear Road's last operators, whatever is recorded."""

HOP_MS = 50.0
"""Age that a marker gains by a hop where no records come: half the time between two flushes."""
ALWAYS = 0.95
"""Share of time in which records come from which on they count as coming always."""
BELOW = 0.97
"""Load of the operators while a burst is stretched: one that does not fill channels."""


def scenario(row: Mapping[str, str]) -> Scenario:
    """Job of one run, at its nominal rate."""
    chain = APPLICATIONS[row["application"], row["variant"]]
    counts = _parallelisms(row, len(chain))
    names = ["source", *(f"o{number}" for number in range(len(chain))), "writer"]
    operators: list[dict[str, Any]] = [
        {"name": name, "kind": "map", "selectivity": selectivity} | ({"key_groups": KEY_GROUPS} if how == "k" else {})
        for name, (selectivity, how) in zip(names[1:], chain, strict=False)
    ]
    alike = [here == there for here, there in pairwise(counts)]
    ways = [how if how != "f" or same else "r" for (_, how), same in zip((*chain, (1.0, "r")), alike, strict=True)]
    cores, clock = float(row["cores_per_node"]), float(row["clock_ghz"])
    host = {"cpu_percent": 100 * cores * clock / 2.8, "ram_mb": 128_000, "bandwidth_mbps": 25_000, "latency_ms": 0.05}
    hot = {"shares": [HOT_WORD, *[(1 - HOT_WORD) / (KEY_GROUPS - 1)] * (KEY_GROUPS - 1)]}
    places = [f"w{number}" for number in range(WORKERS)]
    job = deployment(
        [{"name": "source", "kind": "source"}, *operators, {"name": "writer", "kind": "sink"}],
        list(pairwise(names)),
        {"source": {"law": "constant", "rate_per_s": float(row["offered_per_s"])}},
        hosts=[{"name": name, **host} for name in places],
        placement={
            name: [places[each % WORKERS] for each in range(count)] for name, count in zip(names, counts, strict=True)
        },
        engine="flink",
        partitioning={name: DEALT[how] for name, how in zip(names[1:], ways, strict=True)},
        keys={"o1": hot} if row["application"] == "Word Count" else {},
    )
    return Scenario.of(job, RunSettings(horizon_s=330, warmup_s=30))


def _parallelisms(row: Mapping[str, str], operators: int) -> list[int]:
    """Parallelisms of source, operators and writer."""
    given = [int(each) for each in row["parallelism"].split(",")]
    if row["application"] == "Linear Road":
        return [given[0], given[0], given[1], *[LINEAR_ROAD_LATE] * 3]
    inner = [*given[1:-1], *[given[-2]] * operators][:operators]
    return [given[0], *inner, given[-1]]


def ages_ms(job: Scenario, answer: RateAnswer) -> float:
    """Ages of latency markers (which skip windows), summed over the operators behind the source and the committer."""
    source, *order = (answer.operators.index(name) for name in ("source", *behind(job.query)))
    channel_s, coming = answer.channel_s[0, order], float(answer.offered_pressure[0].max())
    if coming < ALWAYS:
        meeting_s = RateModel().answer(at_rate(job, BELOW / coming), [job.plan]).channel_s[0, order]
        channel_s = coming * meeting_s + (1.0 - coming) * HOP_MS / 1000.0
    source_s = answer.channel_s[0, source] + answer.queue_s[0, source]
    at_each_s = source_s + np.cumsum(channel_s + answer.queue_s[0, order])
    return 1000.0 * float(at_each_s.sum() + at_each_s[-1]) + HOP_MS  # once more at the last for the committer


def behind(query: Query) -> list[str]:
    """Operators behind the source, in data-flow order."""
    found, at = [], "source"
    while following := query.outputs(at):
        at = following[0].consumer
        found.append(at)
    return found


# predictors ----------------------------------------------------------------------------------------------------------
# Predictors of PDSP-Bench's runs: a calibrated twin of each application, LightGBM, a rule.
#
# `naive` says 0.97 of the offer and 50 ms a hop; LightGBM learns the logarithms of delivered share and latency from
# everything in a row that was known before the run. The twin of an application is calibrated on those of its runs that
# were seen; from all runs it takes only the share that a source reads if it keeps up.


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


# the tables ----------------------------------------------------------------------------------------------------------


TWIN, CARRIED = "calibrated twin", "the same, readings carried"
QUANTITIES = ("share of the offer", "latency")


@dataclass(frozen=True)
class Split:
    """Judged runs that were left out, and their predictors."""

    name: str
    judged: Sequence[Row]
    twin: Twin
    others: Mapping[str, Predictor]

    @property
    def predictors(self) -> Mapping[str, Predictor]:
        """All predictors by name."""
        return {**self.others, TWIN: self.twin, CARRIED: replace(self.twin, carried=True)}


def applications(everything: Sequence[Row], own: int, judged: int, kept: Path) -> Iterator[Split]:
    """Splits that leave out one application each, except for a few of its runs."""
    for number, key in enumerate(APPLICATIONS):
        mine, others = _parted(everything, lambda row, key=key: application(row) == key)
        mine = _shuffled(mine, number, "own-runs")
        if len(mine) <= own:
            raise SystemExit(f"--own {own}: {key[0]} has {len(mine)} runs, so none is left to judge; give fewer")
        yield _split(" ".join(key).strip(), mine[own:][:judged], mine[:own], others, kept)


def machines(everything: Sequence[Row], own: int, judged: int, kept: Path) -> Iterator[Split]:
    """Splits that leave out one machine each; each of its applications is seen on the other one."""
    for machine in dict.fromkeys(row["hardware"] for row in everything):
        there, here = _parted(everything, lambda row, machine=machine: row["hardware"] == machine)
        for number, key in enumerate(APPLICATIONS):
            mine, others = _parted(here, lambda row, key=key: application(row) == key)
            unseen = _shuffled([row for row in there if application(row) == key], number, f"judged-{machine}")
            seen = _shuffled(mine, number, f"runs-but-{machine}")[:own]
            rest = [*others, *(row for row in mine if row not in seen)]
            name = f"{' '.join(key).strip()} on {machine}"
            yield _split(name, unseen[:judged], seen, rest, kept)


def _split(name: str, judged: Sequence[Row], seen: Sequence[Row], others: Sequence[Row], kept: Path) -> Split:
    twin = calibrated(seen, reading(others), kept)
    return Split(name, judged, twin, {"naive": naive, "LightGBM": trees([*others, *seen])})


def _shuffled(given: Sequence[Row], number: int, name: str) -> list[Row]:
    return [given[each] for each in random_stream(number, name).permutation(len(given))]


def _parted(everything: Sequence[Row], is_in: Callable[[Row], bool]) -> tuple[list[Row], list[Row]]:
    return [row for row in everything if is_in(row)], [row for row in everything if not is_in(row)]


def line(name: str, who: str, judged: Sequence[Row], said: Sequence[Said]) -> list[object]:
    """Row of the table: q-errors, median / 95 %, of source rate and latency; share of runs rightly keeping up."""
    true = [measured(row) for row in judged]
    q = [[max(a, b) / max(min(a, b), 1e-9) for a, b in zip(x, y, strict=True)] for x, y in zip(true, said, strict=True)]
    right = np.mean([(a[0] >= KEEPS_UP) == (b[0] >= KEEPS_UP) for a, b in zip(true, said, strict=True)])
    rate, latency = np.array(q).T
    shown = [f"{np.median(each):.2f}/{np.quantile(each, 0.95):.2f}" for each in (rate, latency)]
    means = [f"{np.exp(np.log(each).mean()):.2f}" for each in (rate, latency)]
    return [name, who, len(judged), shown[0], means[0], shown[1], means[1], f"{right:.2f}"]


def covered(splits: Sequence[Split]) -> list[list[object]]:
    """Rows on intervals that come from errors of the other splits: share of runs inside, and their width (log) beside
    that of the range that LEVEL of all other runs are in."""
    inside, wide = [], []
    for split in splits:
        rest = [each for each in splits if each.name != split.name]
        load = reach([0.0, *(off for each in rest for row in each.judged for off in each.twin.loads(row))])
        low_b, high_b = _ends(rest, load.factor)
        true_b = np.log([measured(row) for each in rest for row in each.judged])
        beyond_q = [reach(off).factor for off in np.maximum(0.0, np.maximum(low_b - true_b, true_b - high_b)).T]
        low, high = _ends([split], load.factor)
        low, high = low - np.log(beyond_q), high + np.log(beyond_q)
        high[:, 0] = np.minimum(high[:, 0], 0.0)
        true = np.log([measured(row) for row in split.judged])
        tails = ((1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0)
        inside.append((low <= true) & (true <= high))
        wide.append((high - low) / np.diff(np.quantile(true_b, tails, axis=0), axis=0))
    each = zip(QUANTITIES, np.concatenate(inside).T, np.concatenate(wide).T, strict=True)
    return [[what, f"{i.mean():.2f}", f"{np.mean(w):.2f}", f"{np.median(w):.2f}"] for what, i, w in each]


def _ends(splits: Sequence[Split], load: float) -> tuple[np.ndarray, np.ndarray]:
    """Logs of the least and the largest prediction over both ends of the load and the middle. [runs, 2]"""
    said = np.log([[each.twin(row, load**sign) for sign in (-1, 0, 1)] for each in splits for row in each.judged])
    return said.min(axis=1), said.max(axis=1)


def main() -> None:
    """Prints errors by what is left out, over all and by application, and intervals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kept", type=Path, required=True, help="folder of what was found, made if it is not there")
    parser.add_argument("--own", type=int, default=6, help="runs of an application that are seen")
    parser.add_argument("--judged", type=int, default=40, help="at most, of each application")
    parser.add_argument("--machines", action="store_true", help="leave machines out instead of applications")
    given = parser.parse_args()
    given.kept.mkdir(parents=True, exist_ok=True)
    leave = machines if given.machines else applications
    splits, lines = list[Split](), list[list[object]]()
    total = defaultdict[str, tuple[list[Row], list[Said]]](lambda: ([], []))
    for split in leave(rows(given.data), given.own, given.judged, given.kept):
        splits.append(split)
        for who, predictor in split.predictors.items():
            said = [predictor(row) for row in split.judged]
            lines.append(line(split.name, who, split.judged, said))
            print(*lines[-1], flush=True)
            total[who][0].extend(split.judged)
            total[who][1].extend(said)
    lines += [line("all", who, *kept) for who, kept in total.items()]
    header = ("left out", "predictor", "runs", "source rate", "mean", "latency", "mean ", "keeps up")
    print_table(f"{leave.__name__} left out: q-errors (median/95 %, geometric mean)", header, lines)
    columns = ("of", "inside", "width, of the range", "median")
    print_table(f"{LEVEL:.0%} intervals, from what else was left out", columns, covered(splits))


if __name__ == "__main__":
    main()
