"""What simulation computes is what it computed when it was pinned."""

from __future__ import annotations

from benchmarks.validity.pinned_jobs import jobs
from benchmarks.validity.pins import complaint, measure, pinned


def test_runs_give_the_numbers_that_are_pinned() -> None:
    now = {name: measure(job) for name, job in jobs().items()}
    wrong = complaint(now, pinned())
    assert not wrong, wrong


def test_a_change_is_told_with_its_remedy() -> None:
    now = dict(pinned())
    assert complaint(now, pinned()) == ""
    now["links"] = now["links"] | {"digest": "another"}
    assert "runs of links give" in complaint(now, pinned()) and "--pin" in complaint(now, pinned())
