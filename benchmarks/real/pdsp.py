"""Real runs of Flink with latencies (PDSP-Bench): new runs of an application of which a few runs were seen.

    python -m benchmarks.real.pdsp --data DIR [--own 6]     # six runs of an application, then its others

DIR holds dev.csv: one row a run. The data have no licence, so no row of them is in this project. All predictors see the
same runs; LightGBM also all of the other applications, as it has no other way to know of them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.real.pdsp_jobs import APPLICATIONS
from benchmarks.real.pdsp_predictors import (
    KEEPS_UP,
    Predictor,
    Row,
    Said,
    application,
    measured,
    naive,
    reading,
    rows,
    trees,
    twin,
)
from benchmarks.table import print_table
from twin.randomness import stream

Split = tuple[str, Sequence[Row], Mapping[str, Predictor]]
"""What is judged: a name, the runs, and what predicts them."""


def applications(everything: Sequence[Row], own: int, judged: int) -> Iterator[Split]:
    """Each application left out, but for a few of its runs."""
    for number, key in enumerate(APPLICATIONS):
        mine, others = _parted(everything, lambda row, key=key: application(row) == key)
        order = stream(number, "own-runs").permutation(len(mine))
        seen, unseen = ([mine[each] for each in part] for part in (order[:own], order[own:][:judged]))
        predictors = {
            "naive": naive,
            "LightGBM": trees([*others, *seen]),
            "calibrated twin": twin(seen, reading(others)),
        }
        yield " ".join(key).strip(), unseen, predictors


def _parted(everything: Sequence[Row], is_in: Callable[[Row], bool]) -> tuple[list[Row], list[Row]]:
    return [row for row in everything if is_in(row)], [row for row in everything if not is_in(row)]


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
    """One table: by what is left out, and over all of these."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--own", type=int, default=6, help="runs of the application that are seen")
    parser.add_argument("--judged", type=int, default=40, help="at most, of each application")
    given = parser.parse_args()
    lines, total = [], {}
    for name, judged, predictors in applications(rows(given.data), given.own, given.judged):
        for who, predictor in predictors.items():
            said = [predictor(row) for row in judged]
            lines.append(line(name, who, judged, said))
            print(*lines[-1], flush=True)
            kept = total.setdefault(who, ([], []))
            kept[0].extend(judged)
            kept[1].extend(said)
    lines += [line("all", who, *kept) for who, kept in total.items()]
    header = ("left out", "predictor", "runs", "source rate", "mean", "latency", "mean ", "keeps up")
    print_table("q-errors on runs that were not seen (median/95 %, geometric mean)", header, lines)


if __name__ == "__main__":
    main()
