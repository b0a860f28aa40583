"""Enorm, Section 6: what is merged to form windows, and whether modifications change the same ones everywhere."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from papers.interface import CaseTable, Experiment, Row, Rows, grid, shape, span
from papers.workspace import Workspace
from twin.randomness import random_stream
from twin.windows import (
    EventWindow,
    Formation,
    Keys,
    Span,
    ending,
    expected_keys,
    formations,
    naive,
    one_each,
    panes_of,
)

# consolidation: Section 6.1 ------------------------------------------------------------------------------------------
# Numbers of partial results, and of keys, merged to form all windows, at least or from panes.


HOUR = "paper: 5, 10, 15, 20"
WINDOWS = {
    HOUR: ([(length, length) for length in (5, 10, 15, 20)], 60),
    "100 tumbling, 1 to 100": ([(length, length) for length in range(1, 101)], 1440),
    "100 overlapping, 5i every 5": ([(5 * number, 5) for number in range(1, 101)], 1440),
    "100 overlapping, i every 1": ([(length, 1) for length in range(1, 101)], 1440),
    "10 min to 24 h, panes of 10 min": ([(length, length) for length in (1, 3, 6, 36, 144)], 2880),
    "24 h every 10 min, panes of 1 min": ([(1440, 10)], 2880),
    "the same, and 10 min": ([(1440, 10), (10, 10)], 2880),
}
"""For each case, pairs (length, every) in panes, and the number of panes."""
KEYS, RECORDS_A_PANE = (10, 1_000, 100_000), 100.0


def formed(name: str, keys: Keys = one_each) -> list[Formation]:
    """Formations of all windows of a case, as they end."""
    lengths, panes = WINDOWS[name]
    windows = [EventWindow(length_s=length, every_s=every) for length, every in lengths]
    grid, longest = panes_of(windows, 1), max(length for length, _ in lengths)
    return list(formations(lambda pane: ending(windows, grid, pane), 0, panes, longest, keys))


def pieces(_workspace: Workspace | None, windows: str) -> Row:
    """Row of the results that are merged. Nothing is random."""
    found = formed(windows)
    merged, alone = sum(len(formation.pieces) for formation in found), sum(map(naive, found))
    counted = {"panes": WINDOWS[windows][1], "formed": len(found), "merged": merged, "alone": alone}
    return {**counted, "times": alone / merged}


def different_keys(_workspace: Workspace | None, keys: int) -> Row:
    """Row of the keys that are merged in the paper's hour, if there are `keys` different ones."""
    expected = expected_keys(keys, RECORDS_A_PANE)
    found = formed(HOUR, expected)
    merged = sum(expected(piece) for formation in found for piece in formation.pieces)
    alone = sum(formation.window.length * expected(Span(0, 1)) for formation in found)
    return {"merged": merged, "alone": alone, "times": alone / merged}


def consolidation_shapes(rows: Rows) -> Rows:
    """Compares with the paper's example."""
    hour = next(row for row in rows if row["windows"] == HOUR)
    merged, alone = hour["merged"], hour["alone"]
    return [
        shape("results merged in an hour", "86 against 240", f"{merged} against {alone}", (merged, alone) == (86, 240))
    ]


CONSOLIDATION = Experiment(
    name="enorm.consolidation",
    source="Enorm, Fig. 8, Section 6.1",
    summary="partial results that are merged to form all windows",
    tables={
        "pieces": CaseTable(
            title="Results that are merged to form all windows",
            columns="""
                windows | panes | formed: windows formed | merged: results merged | alone: of panes alone |
                times: times as many | paper
            """,
            cases=grid(windows=WINDOWS),
            measure=pieces,
            published={HOUR: "86 against 240"},
            by=("windows",),
            shapes=consolidation_shapes,
        ),
        "keys": CaseTable(
            title="Keys that are merged in the paper's hour",
            columns="keys: different keys | merged: keys merged | alone: of panes alone | times: times as many",
            cases=grid(keys=KEYS),
            measure=different_keys,
        ),
    },
    notes=f"""
- Each window is formed the cheapest way there is, from panes and from windows that were formed before.
- In keys: the paper's hour, {RECORDS_A_PANE:g} records a pane of random keys. Where hardly any repeats, a longer window
  has as many as its parts, and nothing is saved; the paper counts each result as one.
""",
    about="Nothing here is measured or simulated: what is merged is counted.",
)


# punctuations: Section 6.2 -------------------------------------------------------------------------------------------
# Enorm, Section 6.2: whether a modification punctuation changes the same window instances in all components.
#
# Sources announce ends of panes; once, at a random time, a modification goes into all of them. Channels keep order,
# and which of them delivers next is random. A change has one meaning if all instances of all components apply it from
# the same pane on.


FIRST, ALIGNED, CUT = "on first arrival, as in the paper", "once it has come from all", "carrying the pane it begins at"
RULES = (FIRST, ALIGNED, CUT)
JOBS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (1, (1, 1)),
    (1, (2, 2)),
    (1, (3, 3, 3)),
    (2, (1, 1)),
    (2, (2, 2)),
    (3, (3, 3)),
)
"""Number of sources, and of instances of each component in a row."""
PANES = 6


class Instance:
    """Instance of a component. begins: the pane from which on it has applied the change."""

    def __init__(self, rule: str, inputs: int) -> None:
        self.rule = rule
        self.said = [0] * inputs
        self.heard = set[int]()
        self.far = 0
        self.begins: int | None = None

    def take(self, side: int, item: tuple[str, int]) -> Iterator[tuple[str, int]]:
        """Yields what the instance sends on."""
        kind, value = item
        if kind == "time":
            self.said[side] = value
            if min(self.said) > self.far:
                self.far = min(self.said)
                yield "time", self.far
            return
        self.heard.add(side)
        if self.begins is None and (self.rule != ALIGNED or len(self.heard) == len(self.said)):
            self.begins = max(self.far, value) if self.rule == CUT else self.far
            yield "change", value


def unlike(rule: str, sources: int, layers: tuple[int, ...], rng: np.random.Generator) -> bool:
    """Whether instances applied one change from different panes on, in one run."""
    widths = (sources, *layers)
    channels = {
        (layer, one, other): deque[tuple[str, int]]()
        for layer, (before, after) in enumerate(zip(widths, layers, strict=False))
        for one in range(before)
        for other in range(after)
    }
    instances = [[Instance(rule, widths[layer]) for _ in range(width)] for layer, width in enumerate(layers)]
    announced, change_at = [0] * sources, int(rng.integers(1, sources * PANES))
    for step in range(sources * PANES + 1):
        if step == change_at:
            for source in range(sources):
                _send(channels, 0, source, ("change", max(announced) + 1))
            continue
        source = int(rng.choice([each for each in range(sources) if announced[each] < PANES]))
        announced[source] += 1
        _send(channels, 0, source, ("time", announced[source]))
        for _ in range(int(rng.integers(0, 2 * len(channels)))):
            _deliver(channels, instances, rng)
    while _deliver(channels, instances, rng):
        pass
    return len({each.begins for layer in instances for each in layer}) > 1


def _send(channels: dict[Any, Any], layer: int, one: int, item: tuple[str, int]) -> None:
    for ends, channel in channels.items():
        if ends[:2] == (layer, one):
            channel.append(item)


def _deliver(channels: dict[Any, Any], instances: list[list[Instance]], rng: np.random.Generator) -> bool:
    """Delivers the first item of some channel; returns whether there was any."""
    full = [ends for ends, channel in channels.items() if channel]
    if not full:
        return False
    layer, one, other = full[int(rng.integers(len(full)))]
    item = channels[layer, one, other].popleft()
    for sent in instances[layer][other].take(one, item):
        _send(channels, layer + 1, other, sent)
    return True


def share(sources: int, layers: tuple[int, ...], rule: str, runs: int, seed: int) -> float:
    """Share of `runs` runs in which instances apply the change from different panes on."""
    rng = random_stream(seed, f"punctuations:{sources}:{layers}:{rule}")
    return float(np.mean([unlike(rule, sources, layers, rng) for _ in range(runs)]))


def measured_share(workspace: Workspace, sources: int, layers: tuple[int, ...], rule: str) -> Row:
    """Row of the share and its standard error."""
    runs = workspace.sizes.n
    found = workspace.measured("enorm-punctuations", share, sources=sources, layers=layers, rule=rule, runs=runs)
    error = math.sqrt(found * (1.0 - found) / runs)
    return {"instances": ", ".join(map(str, layers)), "unlike": found, "standard_error": error}


def punctuation_shapes(rows: Rows) -> Rows:
    """Compares with the paper's guarantee."""
    shares = [row["unlike"] for row in rows if row["rule"] == FIRST]
    return [
        shape("a modification, applied on first arrival", "changes the same windows on all components",
              f"not in {span(shares, '.0%')} of runs", max(shares) == 0.0,
              "channels keep order, but not between each other, where a component has several instances"),
    ]  # fmt: skip


PUNCTUATIONS = Experiment(
    name="enorm.punctuations",
    source="Enorm, Section 6.2",
    summary="whether a modification punctuation means the same everywhere",
    tables={
        "unlike": CaseTable(
            title="Whether all instances change the same windows, {n} runs each",
            columns="""
                sources | instances: instances of each component | rule: a modification is applied |
                unlike: share of runs with unlike sets | standard_error: standard error | paper
            """,
            cases=tuple(
                {"sources": sources, "layers": layers, "rule": rule} for sources, layers in JOBS for rule in RULES
            ),
            measure=measured_share,
            published={FIRST: "none"},
            by=("rule",),
            shapes=punctuation_shapes,
        )
    },
    notes="""
- Any order of delivery that keeps channels in order is as likely as any other, which is harsher than a cluster: that
  sets differ is the finding, not how often.
- The twin's modifications carry the end of a pane after all that any source has sent.
""",
    about="What is counted here are runs of the protocol alone, in an order of chance: no job is simulated.",
)
