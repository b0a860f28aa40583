"""Forming windows: as cheap as the cheapest of all ways, 86 against 240, and 100 windows at once."""

from __future__ import annotations

from collections import Counter
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twin.errors import BadInput
from twin.windows import EventWindow, Span, covering, ending, expected_keys, form, formations, naive, one_each, panes_of


def over(windows, panes, keys=one_each):
    """Formations of whole windows in so many panes. windows: (length, every) in panes."""
    found = [EventWindow(length_s=length, every_s=every) for length, every in windows]
    grid = panes_of(found, 1)
    return list(
        formations(lambda pane: ending(found, grid, pane), 0, panes, max(length for length, _ in windows), keys)
    )


def tilings(start, end, pieces):
    """All ways to put pieces together to [start, end)."""
    if start == end:
        yield ()
    for piece in pieces:
        if piece.start == start and piece.end <= end:
            for rest in tilings(piece.end, end, pieces):
                yield (piece, *rest)


def cheapest_of_all(due, pieces, keys):
    """Least keys to form all windows in any order, each usable by those after it."""
    if not due:
        return 0.0
    best = float("inf")
    for index, window in enumerate(due):
        ways = (sum(map(keys, way)) for way in tilings(*window, pieces))
        cost = min(ways, default=float("inf"))
        if cost < float("inf"):
            best = min(best, cost + cheapest_of_all(due[:index] + due[index + 1 :], [*pieces, window], keys))
    return best


@st.composite
def situations(draw):
    """Strategy of panes and some longer pieces with any keys, and windows that end together."""
    end = draw(st.integers(2, 7))
    spans = [Span(start, stop) for start in range(end) for stop in range(start + 1, end + 1)]
    longer = [span for span in spans if span.length > 1 and span.end < end]
    pieces = [span for span in spans if span.length == 1]
    pieces += draw(st.lists(st.sampled_from(longer), max_size=4, unique=True)) if longer else []
    due = draw(
        st.lists(
            st.sampled_from([span for span in spans if span.end == end and span.length > 1]),
            min_size=1,
            max_size=3,
            unique=True,
        )
    )
    cost = {span: draw(st.integers(1, 20)) for span in spans}
    return due, pieces, cost.__getitem__


def by_start(pieces):
    return {
        start: [piece.end for piece in pieces if piece.start == start] for start in {piece.start for piece in pieces}
    }


@settings(max_examples=300, deadline=None)
@given(situations())
def test_nothing_is_cheaper(situation):
    due, pieces, keys = situation
    found = form(due, by_start(pieces), keys)
    assert [each.window for each in found] == sorted(due, key=lambda span: span.length)
    assert sum(each.keys for each in found) == cheapest_of_all(due, pieces, keys)
    known = set(pieces)
    for each in found:
        assert each.keys == sum(map(keys, each.pieces)) and set(each.pieces) <= known
        assert [each.window.start, *(piece.end for piece in each.pieces)] == [
            *(piece.start for piece in each.pieces),
            each.window.end,
        ]
        known.add(each.window)


def test_the_papers_hour():
    """Windows of 5, 10, 15 and 20 minutes from partials of one: 86 partial results in an hour against 240."""
    found = over([(minutes, minutes) for minutes in (5, 10, 15, 20)], 60)
    assert len(found) == 25
    assert sum(len(each.pieces) for each in found) == 86
    assert sum(map(naive, found)) == 240


@pytest.mark.parametrize(("space", "saved"), [(10, 2.79), (1_000, 1.26), (100_000, 1.00)])
def test_in_keys_it_saves_only_where_keys_repeat(space, saved):
    keys = expected_keys(space, 100)
    found = over([(minutes, minutes) for minutes in (5, 10, 15, 20)], 60, keys)
    panes_alone = sum(each.window.length * keys(Span(0, 1)) for each in found)
    assert panes_alone / sum(each.keys for each in found) == pytest.approx(saved, abs=0.005)


@pytest.mark.parametrize(
    ("windows", "panes", "fires", "merged", "panes_alone"),
    [
        ([(length, length) for length in range(1, 101)], 1440, 7_430, 14_570, 141_769),
        ([(10, 10), (30, 30), (60, 60), (360, 360), (1440, 1440)], 2880, None, None, 14_400),
    ],
)
def test_a_hundred_lengths(windows, panes, fires, merged, panes_alone):
    began_s = process_time()
    found = over(windows, panes)
    assert process_time() - began_s < 30
    assert sum(map(naive, found)) == panes_alone
    if fires is not None:
        assert (len(found), sum(len(each.pieces) for each in found)) == (fires, merged)


US = 1e-6


@st.composite
def event_windows(draw):
    length = draw(st.integers(1, 12))
    every, start = draw(st.integers(1, length)), draw(st.integers(-9, 9))
    return EventWindow(length_s=length * US, every_s=every * US, start_s=start * US)


@settings(max_examples=100, deadline=None)
@given(st.lists(event_windows(), min_size=1, max_size=3), st.lists(st.integers(-10, 40), max_size=60), st.floats(1, 50))
def test_windows_hold_each_event_once_however_they_are_formed(windows, events, keys):
    """Windows formed over panes and merged pieces hold the events that each window, counted alone, has."""
    grid = panes_of(windows)
    first, last = grid.pane(-10), grid.pane(40) + 1
    results = {
        Span(pane, pane + 1): Counter(us for us in events if grid.pane(us) == pane) for pane in range(first, last)
    }
    longest = max(grid.of(covering(window, 0)[0]).length for window in windows)
    fired = []
    for each in formations(lambda pane: ending(windows, grid, pane), first, last, longest, expected_keys(keys, 3)):
        results[each.window] = sum((results[piece] for piece in each.pieces), Counter())
        fired.append(Span(grid.bounds(each.window.start).start, grid.bounds(each.window.end).start))
        assert results[each.window] == Counter(us for us in events if us in range(*fired[-1]))
    begin_us, end_us = grid.bounds(first).start, grid.bounds(last).start
    whole = {each for window in windows for us in range(begin_us, end_us) for each in covering(window, us)}
    assert sorted(fired) == sorted(each for each in whole if begin_us <= each.start and each.end <= end_us)


def test_results_that_do_not_tile_are_refused():
    with pytest.raises(BadInput, match=r"the window \[0, 3\) is not made of whole pieces"):
        form([Span(0, 3)], by_start([Span(0, 2), Span(1, 3)]))
    with pytest.raises(BadInput, match=r"windows that end at \[3, 4\] cannot be formed together"):
        form([Span(0, 3), Span(0, 4)], {})
    assert form([], {}) == []


@given(st.floats(1, 1e9), st.floats(0, 1e6), st.integers(1, 50), st.integers(1, 50))
def test_a_window_has_at_least_the_keys_of_its_parts_and_at_most_all_of_them(space, events, one, other):
    keys = expected_keys(space, events)
    whole, parts = keys(Span(0, one + other)), (keys(Span(0, one)), keys(Span(one, one + other)))
    assert max(parts) * (1 - 1e-9) <= whole <= sum(parts) * (1 + 1e-9) + 1e-9
    assert whole <= min(space, events * (one + other)) * (1 + 1e-9) + 1e-9


def test_keys_that_cannot_be():
    with pytest.raises(BadInput, match="keys must be > 0, got 0"):
        expected_keys(0, 1)
    with pytest.raises(BadInput, match="events_per_pane must be >= 0, got -1"):
        expected_keys(1, -1)
