"""What exact simulation computes is what it computed when it was pinned, or a law's number says that it is not."""

from __future__ import annotations

import pytest

from benchmarks.validity import pins
from benchmarks.validity.laws import LAWS, laws_of
from benchmarks.validity.pinned_jobs import jobs
from benchmarks.validity.pins import complaint, measure, pinned, suspects


def test_exact_runs_give_the_numbers_that_are_pinned() -> None:
    now = {name: measure(job) for name, job in jobs().items()}
    wrong = complaint(now, pinned())
    assert not wrong, wrong


def test_the_pinned_jobs_use_every_law() -> None:
    used = [set(laws_of(job)) for job in jobs().values()]
    assert set().union(*used) == set(LAWS)
    assert set(pinned()["jobs"]) == set(jobs())


def test_a_change_of_a_law_is_traced_to_it() -> None:
    assert suspects(["join, charged", "join of three, charged"]) == ["join costs"]
    assert suspects(["links"]) == ["links"]
    assert suspects(list(jobs())) == ["queues"]
    now = dict(pinned()["jobs"])
    assert complaint(now, pinned()) == ""
    now["links"] = now["links"] | {"digest": "another"}
    assert "the law 'links'" in complaint(now, pinned()) and "--pin" in complaint(now, pinned())


def test_a_law_that_is_raised_has_to_be_pinned_and_excuses_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pins.LAWS, "joins", LAWS["joins"]._replace(number=LAWS["joins"].number + 1))
    now = dict(pinned()["jobs"])
    assert complaint(now, pinned()).startswith("laws raised: joins;")
    now["join, given"] = now["join, given"] | {"digest": "another"}
    assert complaint(now, pinned()).startswith("laws raised: joins;")
    now["links"] = now["links"] | {"digest": "another"}
    assert complaint(now, pinned()).startswith("exact runs of links give other numbers")
