"""Instances and panes against counting microseconds one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twin.errors import BadInput
from twin.operators.panes import PANES, WINDOWS, Forms
from twin.spec import parse
from twin.windows import (
    EventWindow,
    Panes,
    Span,
    completed,
    covering,
    instance,
    panes_of,
    watermark_us,
)

US = 1e-6


@st.composite
def windows(draw, most=12):
    """Strategy of windows of a few microseconds, so that all of them can be counted."""
    length = draw(st.integers(1, most))
    every, start = draw(st.integers(1, length)), draw(st.integers(-20, 20))
    return EventWindow(length_s=length * US, every_s=every * US, start_s=start * US)


def nearby(window):
    """Instances from far before to far after the times that tests use."""
    return [instance(window, number) for number in range(-150, 150)]


TIMES = st.integers(-40, 40)


@given(windows(), TIMES)
def test_an_event_is_in_the_instances_that_begin_before_and_end_after(window, at_us):
    found = covering(window, at_us)
    assert found == [each for each in nearby(window) if each.start <= at_us < each.end]
    least = window.length_us // window.every_us
    assert 1 <= least <= len(found) <= least + 1


@given(windows(), TIMES, st.integers(0, 40))
def test_instances_are_completed_once_in_order(window, before, step):
    found = completed(window, before, before + step)
    assert found == [each for each in nearby(window) if before < each.end <= before + step]
    middle = before + step // 2
    assert completed(window, before, middle) + completed(window, middle, before + step) == found
    for held in ([], [before], [before - 7, middle], list(range(before, before + 3 * step, 3))):
        with_some = [span for span in found if any(span.start <= us < span.end for us in held)]
        listed = completed(window, before, before + step, held)
        assert listed == (with_some if len(held) < len(found) else found)


@given(windows(), st.lists(TIMES, min_size=1, max_size=30), st.integers(0, 10))
def test_with_enough_slack_nothing_is_late_and_completed_instances_have_all_events(window, times, slack):
    """Complete instances have all events, in any order, except those that the watermark calls late."""
    mark, kept, done = -100, [], []
    for position, at_us in enumerate(times):
        if at_us < mark:  # late, so dropped
            assert max(times[:position]) - at_us > slack
            continue
        kept.append(at_us)
        now = max(mark, watermark_us([max(times[: position + 1])], slack))
        done += [(each, [us for us in kept if each.start <= us < each.end]) for each in completed(window, mark, now)]
        mark = now
    for each, content in done:
        assert content == [us for us in kept if each.start <= us < each.end]


@given(st.lists(windows(), min_size=1, max_size=3))
def test_panes_are_the_longest_that_make_up_all_instances(found):
    panes = panes_of(found)
    ends = {us for window in found for each in nearby(window) for us in each if -60 <= us <= 60}

    def fits(length, offset):
        return all((us - offset) % length == 0 for us in ends)

    assert fits(*panes)
    assert not any(fits(length, offset) for length in range(panes.length_us + 1, 25) for offset in range(length))


def test_minutes():
    """Windows of 5, 10, 15 and 20 minutes, as in the paper, have panes of five minutes, or of one on request."""
    hour = [EventWindow(length_s=60 * minutes) for minutes in (5, 10, 15, 20)]
    assert panes_of(hour) == Panes(300_000_000, 0)
    assert panes_of(hour, 60) == Panes(60_000_000, 0)
    with pytest.raises(BadInput, match="partial windows of 240 s do not make up all windows; take 300 s or a divisor"):
        panes_of(hour, 240)
    with pytest.raises(BadInput, match="panes need at least one window"):
        panes_of([])
    with pytest.raises(ValueError, match="does not begin and end"):
        panes_of(hour).of(Span(1, 300_000_000))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"length_s": 0}, "length_s"),
        ({"length_s": -1}, "length_s"),
        ({}, "'length_s' is missing"),
        ({"length_s": 5, "every_s": 0}, "every_s"),
        ({"length_s": 5, "every_s": 6}, r"every_s must be <= length_s \(5\), got 6; events between two"),
        ({"length_s": 1e-7}, "length_s"),
        ({"length_s": 1.0000005}, "must be a whole number of microseconds, got 1.0000005 s"),
        ({"length_s": float("nan")}, "length_s"),
        ({"length_s": 5, "size_s": 5}, "unknown key 'size_s'"),
    ],
)
def test_windows_that_cannot_be(data, message):
    with pytest.raises(BadInput, match=message):
        parse(EventWindow, data)


def test_watermarks_that_cannot_be():
    with pytest.raises(BadInput, match="slack must be >= 0, got -1"):
        watermark_us([5], -1)
    with pytest.raises(BadInput, match="at least one source"):
        watermark_us([])
    with pytest.raises(BadInput, match="cannot move backwards"):
        completed(EventWindow(length_s=1), 5, 4)
    assert watermark_us([9, 7], 2) == 5


def test_tenths_of_a_second_are_exact():
    window = EventWindow(length_s=0.3, every_s=0.1)
    assert (window.length_us, window.every_us, window.tumbling) == (300_000, 100_000, False)
    assert EventWindow(length_s=0.3).tumbling and parse(EventWindow, window.model_dump(mode="json")) == window


@given(st.lists(windows(), min_size=1, max_size=3), TIMES, TIMES)
def test_a_record_is_work_for_its_panes_once_and_for_each_window_with_a_state_of_its_own(several, cut, at_us):
    """Windows that begin before the form changes share what panes hold; each later one is work by itself."""
    forms = Forms(panes_of(several), tuple(several), PANES)
    forms.to_come[cut] = WINDOWS
    forms.modify(cut)
    begun = [span.start for window in several for span in covering(window, at_us)]
    own = sum(start >= cut for start in begun)
    assert forms.executions(at_us) == own + (own < len(begun))
