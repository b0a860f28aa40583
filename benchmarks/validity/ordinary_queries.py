"""The queries of the ordinary set: a few operators each, as most jobs have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from twin.query import Query
from twin.spec import parse

WINDOW_S = (0.1, 2.0)
SLIDES = (1.0, 1.0, 0.5, 0.25)
"""As shares of the window's size: half of the windows tumble."""
GROUPS = (10.0, 10_000.0)


class Sketch:
    """A query that is being drawn."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.operators: list[dict[str, Any]] = []
        self.streams: list[dict[str, Any]] = []

    def add(self, kind: str, *producers: str, **more: Any) -> str:
        """An operator behind others; its name."""
        name = f"{kind}{sum(each['kind'] == kind for each in self.operators)}"
        self.operators.append({"kind": kind, "name": name, **more})
        self.streams += [{"producer": each, "consumer": name} for each in producers]
        return name

    def query(self) -> Query:
        """What was drawn."""
        return parse(Query, {"operators": self.operators, "streams": self.streams})

    # pieces ----------------------------------------------------------------------------------------------------------

    def sources(self, low: int, high: int) -> list[str]:
        """As many sources."""
        count = int(self.rng.integers(low, high + 1))
        return [self.add("source", columns=self._columns()) for _ in range(count)]

    def steps(self, name: str, low: int, high: int) -> str:
        """As many maps and filters in a row; the last one's name."""
        for _ in range(int(self.rng.integers(low, high + 1))):
            name = self.step(name)
        return name

    def step(self, *producers: str) -> str:
        """A filter, a map, or now and then a map that emits several tuples."""
        draw = self.rng.random()
        if draw < 0.4 and len(producers) == 1:
            return self.add("filter", *producers, selectivity=float(self.rng.uniform(0.2, 1.0)))
        selectivity = 1.0 if draw < 0.85 else float(self.rng.integers(2, 5))
        return self.add("map", *producers, selectivity=selectivity)

    def aggregate(self, producer: str) -> str:
        """A keyed time window."""
        groups = round(log_uniform(self.rng, *GROUPS))
        return self.add("aggregate", producer, window=self._window(), group_by="int", groups=groups)

    def join(self, left: str, right: str) -> str:
        """A join over a time window, whose selectivity is still to be set."""
        return self.add("join", left, right, window=self._window(), selectivity=1e-9)

    def _window(self) -> dict[str, Any]:
        size_s = round(log_uniform(self.rng, *WINDOW_S), 2)
        slide_s = size_s * SLIDES[int(self.rng.integers(len(SLIDES)))]
        return {"policy": "time", "size_s": size_s, "slide_s": slide_s}

    def _columns(self) -> dict[str, int]:
        ints, strings, doubles = (int(each) for each in self.rng.integers((1, 0, 0), 4))
        return {"ints": ints, "strings": strings, "doubles": doubles}


def _chain(sketch: Sketch) -> None:
    sketch.add("sink", sketch.steps(sketch.sources(1, 1)[0], 1, 4))


def _window(sketch: Sketch) -> None:
    aggregate = sketch.aggregate(sketch.steps(sketch.sources(1, 1)[0], 0, 2))
    sketch.add("sink", sketch.steps(aggregate, 0, 1))


def _union(sketch: Sketch) -> None:
    met = sketch.step(*(sketch.steps(each, 0, 1) for each in sketch.sources(2, 3)))
    sketch.add("sink", sketch.steps(met, 0, 1))


def _union_window(sketch: Sketch) -> None:
    met = sketch.step(*(sketch.steps(each, 0, 1) for each in sketch.sources(2, 3)))
    sketch.add("sink", sketch.aggregate(met))


def _join(sketch: Sketch) -> None:
    left, right = (sketch.steps(each, 0, 1) for each in sketch.sources(2, 2))
    sketch.add("sink", sketch.steps(sketch.join(left, right), 0, 1))


def _two_sinks(sketch: Sketch) -> None:
    parsed = sketch.step(sketch.sources(1, 1)[0])
    sketch.add("sink", sketch.steps(parsed, 0, 1))
    windowed = sketch.rng.random() < 0.5
    sketch.add("sink", sketch.aggregate(parsed) if windowed else sketch.steps(parsed, 1, 2))


KINDS: Mapping[str, Callable[[Sketch], None]] = {
    "chain": _chain,
    "window": _window,
    "union": _union,
    "union, window": _union_window,
    "join": _join,
    "two sinks": _two_sinks,
}


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """One draw."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
