"""Progress is shown, and not too often."""

from __future__ import annotations

import io
import sys
from contextlib import suppress

from scenarios import executing
from scenarios.executing import Lines, bar, every_tenth


def test_every_tenth_reports_each_tenth_once():
    seen: list[int] = []
    watch = every_tenth(lambda done, *_: seen.append(done))
    for done in range(101):
        watch(done, 100)
    assert seen == list(range(0, 101, 10))


def test_lines_count_what_they_are_told():
    said: list[str] = []
    with Lines(said.append).progress("runs") as report:
        report(5, 10)
        report(10, 10)
    assert [line.strip() for line in said] == ["5 of 10 runs", "10 of 10 runs"]


def test_work_that_stops_early_is_told_as_done_and_work_that_fails_is_not():
    said: list[str] = []
    with Lines(said.append).progress("steps at most") as report:
        report(30, 100)
    assert said[-1].strip() == "100 of 100 steps at most"
    with suppress(KeyError), Lines(said.append).progress("runs") as report:
        report(1, 10)
        raise KeyError
    assert said[-1].strip() == "1 of 10 runs"


def test_a_bar_goes_to_stderr(monkeypatch):
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stderr)
    with bar("runs") as report:
        report(10, 10)
    assert "10/10" in stderr.getvalue()
    assert "runs" in stderr.getvalue()


def test_long_work_tells_what_is_left_and_how_it_stands(monkeypatch):
    """From the first report on four steps took twenty seconds, so that five take 25; what was there took none."""
    said: list[str] = []
    now_s = iter([100.0, 120.0, 121.0])
    monkeypatch.setattr(executing.time, "monotonic", lambda: next(now_s))
    with Lines(said.append).progress("steps at most") as report:
        report(1, 10)
        report(5, 10, "network 2 of 3, validation loss 0.21")
    assert said[0].strip() == "1 of 10 steps at most"
    assert said[1].strip() == "5 of 10 steps at most: network 2 of 3, validation loss 0.21, some 25 s left"
