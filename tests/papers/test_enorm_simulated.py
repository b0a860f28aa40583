"""The simple job of Enorm: its throughput and pauses are what its costs come to, and the paper's orders come out."""

from __future__ import annotations

import pytest

from papers.enorm import fig9, fig10, fig13, fig16
from papers.enorm.simple_job import (
    EXECUTE_S,
    FEWER,
    KEY_BYTES,
    MERGE_S,
    RECEIVE_S,
    SERIALISE_NS,
    WORKERS,
    keys_for,
)
from papers.registry import EXPERIMENTS

TUPLE_S = RECEIVE_S + EXECUTE_S + KEY_BYTES * SERIALISE_NS * 1e-9


@pytest.mark.parametrize("combined", [True, False])
def test_throughput_is_what_tuples_and_their_partial_results_cost(combined: bool) -> None:
    """Split, a key of a pane costs 20 us beside 2 us of merging; combined only those. 1 %: the first one is short."""
    keys = 1_000_000
    found = fig9.measured(keys, combined, (1, 2), 240.0, seed=1)
    merged = 2 * keys / 2  # every two panes, into the window of two; that of one is its pane
    shipped_s = 0.0 if combined else 20e-6 * keys
    a_minute = 60.0 * WORKERS - merged * MERGE_S - shipped_s
    assert found == pytest.approx(a_minute / TUPLE_S / 60.0, rel=0.01)


def test_a_pause_is_what_the_state_takes_to_travel() -> None:
    """At both ends 60 ns a byte, and 8 ns on the wire, in pieces between tuples of others."""
    found = fig10.moved("disruptive", 1000.0, seed=1)
    assert found["paused_s"] == pytest.approx(found["bytes"] * 128e-9, rel=0.02)
    assert fig10.moved("instant", 1000.0, seed=1)["paused_s"] == 0.0


def test_under_a_hot_spot_instant_migration_has_the_lowest_latency() -> None:
    instant, disruptive = (
        fig13.course(way, 1, seed=1, fewer=FEWER)["summary"]
        for way in ("instant, every 5 s", "disruptive, every minute")
    )
    assert instant["mean"] < disruptive["mean"]
    assert instant["paused"] == 0.0 < disruptive["paused"]


def test_each_hand_over_less_saves_what_it_costs() -> None:
    """Of dear logic, where runs have few tuples; 3 %, as the run begins with empty channels."""
    for count in (0, 4):
        found = fig16.measured(1e-3, count, seed=1)
        assert found == pytest.approx(fig16.WORKERS / fig16.tuple_s(1e-3, count), rel=0.03)


def test_keys_are_as_many_as_give_so_many_different_ones() -> None:
    assert keys_for(10_000, 2.4e6) == 10_000
    assert 6e6 < keys_for(2_000_000, 2.4e6) < 7e6


def test_they_are_listed() -> None:
    assert {f"enorm.{each}" for each in ("fig9", "fig10", "fig11", "fig12", "fig13", "fig16", "components")} <= set(
        EXPERIMENTS
    )
