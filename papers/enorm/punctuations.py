"""Enorm, Section 6.2: whether a modification punctuation changes the same window instances in all components.

Sources announce ends of panes; once, at a random time, a modification goes into all of them. Channels keep order, and
which of them delivers next is random. A change has one meaning if all instances of all components apply it from the
same pane on.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from papers.interface import CaseTable, Experiment, Row, Rows, shape, span
from papers.workspace import Workspace
from twin.randomness import random_stream

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


def measured(workspace: Workspace, sources: int, layers: tuple[int, ...], rule: str) -> Row:
    """Row of the share and its standard error."""
    runs = workspace.sizes.n
    found = workspace.measured("enorm-punctuations", share, sources=sources, layers=layers, rule=rule, runs=runs)
    error = math.sqrt(found * (1.0 - found) / runs)
    return {"instances": ", ".join(map(str, layers)), "unlike": found, "standard_error": error}


def shapes(rows: Rows) -> Rows:
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
            measure=measured,
            published={FIRST: "none"},
            by=("rule",),
            shapes=shapes,
        )
    },
    notes="""
- Any order of delivery that keeps channels in order is as likely as any other, which is harsher than a cluster: that
  sets differ is the finding, not how often.
- The twin's modifications carry the end of a pane after all that any source has sent.
""",
    about="What is counted here are runs of the protocol alone, in an order of chance: no job is simulated.",
)
