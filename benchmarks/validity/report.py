"""docs/validity.md and its figures, from what the other modules measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from benchmarks.validity import report_words as words
from benchmarks.validity.agreement import QUANTITIES, Comparison
from benchmarks.validity.agreement_tables import (
    bias_table,
    default_table,
    error_table,
    length_table,
    worst_table,
)
from benchmarks.validity.busy import busy_table, default_busy_table, worst_busy_table
from benchmarks.validity.published import Distance, distance_table
from benchmarks.validity.theory import Finding, theory_table
from benchmarks.validity.theory_queues import can_share
from figures.exact_vs_fast import exact_vs_fast
from figures.numa_times import numa_times
from figures.theory_ratios import theory_ratios
from twin.scenario import Fidelity
from twin.version import VERSION

Table = Sequence[tuple[str, ...]]
TITLES = {
    "costream": "Exact against fast: random configurations of Costream's Table II",
    "shared": "Exact against fast: all operators on one or two weak hosts",
    "ordinary": "Exact against fast: ordinary jobs of many replicas",
}
GROUPS = {"window": "chain", "two sinks": "chain", "union, window": "union"}
"""Kinds that share a colour."""
UNITS = {"T": "T [1/s]", "Le": "Le [s]", "Lp": "Lp [s]"}


class Report:
    """Sections in order; `write` puts them on disk, the figures in a folder of the same name beside the page."""

    def __init__(self, path: Path, scale: str) -> None:
        self._path = path
        self._figures = path.with_suffix("")
        self._scale = scale
        self._parts: list[str] = []
        self._verdicts: list[tuple[str, ...]] = [("section", "limits kept", "of")]

    def theory(self, findings: Sequence[Finding], seeds: Mapping[Fidelity, int]) -> None:
        """Section a. seeds: runs of each law, by fidelity."""
        table = theory_table(findings)
        self._title("Theory", table)
        self._say(words.theory(seeds))
        if not can_share():
            self._say("M/M/c is left out: no partitioning lets replicas serve one queue.")
        columns: dict[str, list[object]] = {key: [] for key in ("law", "exact", "exact_error", "fast", "fast_error")}
        for each in findings:
            if each.check.busy:
                continue
            columns["law"].append(f"{each.check.law}: {each.check.case}")
            for fidelity in ("exact", "fast"):
                there = fidelity in each.mean
                expected = each.reference
                columns[fidelity].append(each.mean[fidelity] / expected if there else float("nan"))
                columns[f"{fidelity}_error"].append(each.error[fidelity] / expected if there else float("nan"))
        self._figure("theory", theory_ratios(columns), "Simulated over theoretical means, shares of time apart")
        self._table(table)

    def comparison(self, found: Comparison) -> None:
        """Sections b, c and d."""
        family, table, busy = found.family, error_table(found), busy_table(found)
        at_length, by_default = found.at_length(), found.by_default()
        length = [] if at_length is None else [length_table(at_length)]
        default = [] if by_default is None else [default_table(by_default), default_busy_table(by_default)]
        self._title(TITLES[family], table, *default, *length, busy)
        for text in (words.ABOUT[family], words.compared(found), words.chosen_how(family, self._scale)):
            if text:
                self._say(text)
        self._figure(family, _scatter(found), "Fast over exact, and the q-errors' distribution")
        self._table(table)
        if by_default is not None:
            self._say(words.by_default(by_default))
            for each in default:
                self._table(each)
        for each in length:
            self._say(words.LONG)
            self._table(each)
        self._say(words.BUSY)
        self._table(busy)
        self._say("Furthest off with the share of time that an operator was busy or held up:")
        self._table(worst_busy_table(found))
        self._say("Bias: geometric mean of fast over the mean of both exact runs (95th percentile of its q-error).")
        self._table(bias_table(found))
        self._say("Furthest off: fast over the mean of both exact runs (second over first exact run).")
        self._table(worst_table(found))

    def distances(self, found: Sequence[Distance]) -> None:
        """Section e."""
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
        """Section f."""
        self._title("Conservation, determinism, progress", determinism)
        self._say(
            f"Every one of the {runs} simulations of this page, and every other one, ends with the laws of "
            "`twin/guards/conservation.py`: tuples made are tuples sent or waiting, tuples sent are taken, queued or "
            "in flight, no processor works more than its capacity. A violation is an error, not a warning, so there "
            "are none here. That random queries under random plans, partitionings and channels of few tuples neither "
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

    def _title(self, title: str, *tables: Table) -> None:
        verdicts = [
            cell
            for table in tables
            for row in table[1:]
            for name, cell in zip(table[0], row, strict=True)
            if name == "kept" and cell != "-"
        ]
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
    kinds = [GROUPS.get(kind, kind) for kind in found.kinds[rich]]
    table: dict[str, Sequence[object]] = {"kind": kinds, "behind": found.behind[rich].tolist()}
    for quantity in QUANTITIES:
        for name, runs in (("exact", found.exact), ("second", found.second), ("fast", found.fast)):
            table[f"{UNITS.get(quantity, quantity + ' [s]')} {name}"] = found.values(quantity, runs)[rich].tolist()
    return exact_vs_fast(table, [UNITS.get(quantity, quantity + " [s]") for quantity in QUANTITIES])
