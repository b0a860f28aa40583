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
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.real.pdsp_jobs import APPLICATIONS
from benchmarks.real.pdsp_predictors import (
    KEEPS_UP,
    Predictor,
    Row,
    Said,
    Twin,
    application,
    calibrated,
    measured,
    naive,
    reading,
    rows,
    trees,
)
from benchmarks.table import print_table
from scenarios.calibration.calibrate import LEVEL, reach
from twin.randomness import random_stream

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
