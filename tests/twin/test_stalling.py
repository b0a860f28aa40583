"""A join that its own results block: what the analytic model says of several plans at once, and by Monte Carlo."""

from __future__ import annotations

import numpy as np
import pytest

from twin.kinds.flow import Mixing
from twin.kinds.join import stalling
from twin.query import TimeWindow
from twin.spec import parse

WINDOW = parse(TimeWindow, {"policy": "time", "size_s": 4, "slide_s": 1})
LEFT, RIGHT = np.array([100.0, 100.0, 5.0, 100.0]), np.array([100.0, 0.01, 80.0, 100.0])
STALLS_S = np.array([1e-4, 1e-4, 2e-4, 0.0])
CONTENT, FIRES, MATCHES = 4.0 * (LEFT + RIGHT), np.full(4, 1.0), LEFT * RIGHT


def of(rows: list[int]) -> list[np.ndarray]:
    """Content, evaluations and matches of these plans."""
    mixing = Mixing(stalls_s=STALLS_S[rows])
    inputs = LEFT[rows], RIGHT[rows]
    return [np.asarray(each) for each in stalling(WINDOW, inputs, mixing, CONTENT[rows], FIRES[rows], MATCHES[rows])]


def test_each_plan_is_by_itself() -> None:
    together = of([0, 1, 2, 3])
    for row in range(4):
        assert [each[row] for each in together] == pytest.approx([each[0] for each in of([row])])


def test_what_is_not_blocked_stays_as_it_was() -> None:
    content, fires, matches = of([3])
    assert (content[0], fires[0], matches[0]) == (CONTENT[3], FIRES[3], MATCHES[3])


def test_bunches_hold_what_their_length_brings() -> None:
    """A bunch lasts a time t, uniform up to a slide. Alike sides meet as E[t^2] / E[t]; a rare side's tuples as t."""
    t = np.random.default_rng(1).uniform(0.0, WINDOW.slide, 10**6)
    content, fires, matches = of([0, 1])
    assert content * fires == pytest.approx(CONTENT[:2] * FIRES[:2])  # no tuple is gained or lost
    busy = (LEFT + RIGHT)[:2] * STALLS_S[:2]
    rarer = fires / FIRES[:2]
    evenly = busy * WINDOW.size
    met_s = matches / MATCHES[:2] * rarer * evenly
    assert met_s[0] == pytest.approx(np.mean(t**2) / np.mean(t), rel=0.01)
    assert met_s[1] == pytest.approx(np.mean(t), rel=0.01)
