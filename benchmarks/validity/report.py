"""docs/validity.md and its figures, from what the other modules measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.validity.agreement import QUANTITIES, Comparison, bias_table, error_table, worst_table
from benchmarks.validity.cases import FIRST_SEEDS
from benchmarks.validity.published import Distance, distance_table
from benchmarks.validity.selection import MIN_OUTPUTS, SMALL, scanned
from benchmarks.validity.theory import Finding, theory_table
from benchmarks.validity.theory_queues import can_share
from figures.exact_vs_fast import exact_vs_fast
from figures.numa_times import numa_times
from figures.theory_ratios import theory_ratios
from twin.version import VERSION

Table = Sequence[tuple[str, ...]]
TITLES = {
    "costream": "Exact against fast: random configurations of Costream's Table II",
    "shared": "Exact against fast: all operators on one or two weak hosts",
    "ordinary": "Exact against fast: ordinary jobs of many replicas",
}
UNITS = {"T": "T [1/s]", "Le": "Le [s]", "Lp": "Lp [s]"}


class Report:
    """Sections in order; `write` puts them on disk, the figures in a folder of the same name beside the page."""

    def __init__(self, path: Path, scale: str) -> None:
        self._path = path
        self._figures = path.with_suffix("")
        self._scale = scale
        self._parts: list[str] = []
        self._verdicts: list[tuple[str, ...]] = [("section", "limits kept", "of")]

    def theory(self, findings: Sequence[Finding]) -> None:
        """Section a."""
        table = theory_table(findings)
        self._title("Theory", table)
        self._say(
            "Means over independent seeds with their standard errors, at 1,000 tuples a second. Exact runs have to be "
            "within 4 standard errors of theory (or 0.5 %), fast ones within 7 % plus 2 standard errors. Oracles are "
            "Pollaczek-Khinchine, Erlang C, Jackson, the root of the D/M/1 equation, insensitivity of processor "
            "sharing, and for the blocking tandem and for two operators on one core small Markov chains solved exactly."
        )
        if not can_share():
            self._say("M/M/c is left out: no partitioning lets replicas serve one queue.")
        columns: dict[str, list[object]] = {key: [] for key in ("law", "exact", "exact_error", "fast", "fast_error")}
        for each in findings:
            columns["law"].append(f"{each.check.law}: {each.check.case}")
            for fidelity in ("exact", "fast"):
                there = fidelity in each.mean
                expected = each.reference
                columns[fidelity].append(each.mean[fidelity] / expected if there else float("nan"))
                columns[f"{fidelity}_error"].append(each.error[fidelity] / expected if there else float("nan"))
        self._figure("theory", theory_ratios(columns), "Simulated over theoretical means")
        self._table(table)

    def comparison(self, found: Comparison) -> None:
        """Sections b and c."""
        table = error_table(found)
        self._title(TITLES[found.family], table)
        rich = found.rich
        kinds = ", ".join(f"{(found.kinds == kind).sum()} {kind}" for kind in dict.fromkeys(found.kinds))
        self._say(
            f"{len(found.cases)} configurations ({kinds}), 240 s each, {100 * found.behind.mean():.0f} % of them "
            f"backpressured in the exact run; {rich.sum()} gave at least {MIN_OUTPUTS} results in all three runs "
            f"({100 * found.behind[rich].mean():.0f} % of these backpressured) and are compared. Each is simulated "
            "twice exactly, with different seeds, and once fast, with a third. Two exact seeds differ as well: that "
            "is the floor below which no comparison can tell anything, and it stands beside every figure. The fast "
            "run is compared with the first exact one, as the limits ask, and with the mean of both, which has less "
            "noise. Cells: median / 95th percentile / maximum of the q-error."
        )
        first = FIRST_SEEDS[found.family, "heldout"]
        self._say(
            f"How they were chosen: seeds {first} and up, {scanned(found.family, 'heldout')} of them, which nothing "
            f"was tuned on. A seed is in if its fast run has at least {MIN_OUTPUTS} results and its cell (linear, "
            "2-way, 3-way; keeping up or behind, by that run) still has a place. The seeds are kept in "
            "`benchmarks/validity/selection.json`, so that later changes are judged on the same ones."
            + (f" This page was made at small scale: the first {SMALL} of each cell." if self._scale == "small" else "")
        )
        if found.family == "shared":
            self._say(
                "One or two hosts of 0.5, 1 or 2 cores carry all operators; rates are scaled so that the busiest "
                "resource has a utilisation drawn log-uniformly from 0.5 to 2.2, by the rate model."
            )
        self._figure(found.family, _scatter(found), "Fast over exact, and the q-errors' distribution")
        self._table(table)
        self._say("Bias: geometric mean of fast over the mean of both exact runs (95th percentile of its q-error).")
        self._table(bias_table(found))
        self._say("Furthest off: fast over the mean of both exact runs (second over first exact run).")
        self._table(worst_table(found))

    def distances(self, found: Sequence[Distance]) -> None:
        """Section d."""
        table = distance_table(found)
        self._title("BriskStream's Table 3: time per tuple by NUMA distance", table)
        self._say(
            "Nanoseconds a tuple of Word Count's Splitter and Counter on Server A, by the sockets of producer and "
            "operator. *Measured* and *estimated* are the paper's own figures (SIGMOD 2019, Table 3); *exact* and "
            "*fast* are simulated here. The local times and the number of cache lines a tuple are taken from the "
            "paper, so what is tested is the cost of distance. The limit is 5 % from the paper's estimate, which uses "
            "the same formula; the paper's own estimate is up to 43 % above its measurement, because hardware "
            "prefetching hides part of the cost of large tuples."
        )
        names = ("operator", "sockets", "measured", "estimated")
        columns = {name: [getattr(each, name) for each in found] for name in names}
        columns["simulated"] = [each.fast for each in found]
        self._figure("numa", numa_times(columns), "Time per tuple by NUMA distance")
        self._table(table)

    def invariants(self, determinism: Table, runs: int) -> None:
        """Section e."""
        self._title("Conservation, determinism, progress", determinism)
        self._say(
            f"Every one of the {runs} simulations of this page, and every other one, ends with the laws of "
            "`twin/conservation.py`: tuples made are tuples sent or waiting, tuples sent are taken, queued or in "
            "flight, no processor works more than its capacity. A violation is an error, not a warning, so there are "
            "none here. That random queries under random plans, partitionings and channels of few tuples neither "
            "stand still nor lose anything is `tests/twin/test_random_plans.py`. The same corpus, made by different "
            "numbers of workers and under different hash seeds, is the same to the last bit:"
        )
        self._table(determinism)

    def write(self) -> None:
        """The page, with the verdicts first."""
        scale = "" if self._scale == "full" else " --scale small"
        about = (
            "How far the simulator can be believed. Generated by `make validity` (`python -m "
            f"benchmarks.validity{scale}`), which can be interrupted and goes on where it stopped; do not edit. "
            f"Version {VERSION}. *T*: results a second; *Le*, *Lp*: end-to-end and "
            "processing latency; *RO*: backpressure occurs; *S*: success."
        )
        head = ["# Validity", about, _markdown(self._verdicts)]
        self._path.write_text("\n\n".join([*head, *self._parts]) + "\n", encoding="utf-8")

    def _title(self, title: str, table: Table) -> None:
        columns = [index for index, name in enumerate(table[0]) if name == "kept"]
        verdicts = [row[index] for row in table[1:] for index in columns if row[index] != "-"]
        self._verdicts.append((title, str(verdicts.count("yes")), str(len(verdicts))))
        self._parts.append(f"## {title}")

    def _say(self, text: str) -> None:
        self._parts.append(text)

    def _table(self, rows: Table) -> None:
        self._parts.append(_markdown(rows))

    def _figure(self, name: str, figure: Figure, words: str) -> None:
        self._figures.mkdir(parents=True, exist_ok=True)
        # without the date and version that matplotlib would add: the same data, the same file
        figure.savefig(self._figures / f"{name}.png", metadata={"Software": None})
        self._parts.append(f"![{words}]({self._figures.name}/{name}.png)")


def _markdown(rows: Table) -> str:
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


def _scatter(found: Comparison) -> Figure:
    rich = np.flatnonzero(found.rich)
    table: dict[str, Sequence[object]] = {"kind": found.kinds[rich].tolist(), "behind": found.behind[rich].tolist()}
    for quantity in QUANTITIES:
        for name, runs in (("exact", found.exact), ("second", found.second), ("fast", found.fast)):
            table[f"{UNITS.get(quantity, quantity + ' [s]')} {name}"] = found.values(quantity, runs)[rich].tolist()
    return exact_vs_fast(table, [UNITS.get(quantity, quantity + " [s]") for quantity in QUANTITIES])
