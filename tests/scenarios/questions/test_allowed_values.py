"""Limits where only some values are allowed: the search against trying all values, on numbers and on ordinary jobs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.executing import Processes
from scenarios.measures import condition
from scenarios.questions.bench import Bench
from scenarios.questions.bisection import LOOKED, Range, search
from scenarios.questions.capacity import CapacityQuestion, capacity
from scenarios.questions.knobs import knob
from streamtwin.answers.capacity import told
from tests.scenarios.questions.jobs import SHALLOW, SILENT, ordinary, queue
from tests.scenarios.questions.test_capacity import asked
from twin.errors import BadInput
from twin.randomness import child_seed
from twin.scenario import Scenario
from twin.spec import parse

FAR = LOOKED


@given(
    allowed=st.sets(st.integers(1, FAR), min_size=1),
    border=st.integers(0, FAR + 1),
    upward=st.booleans(),
    jumps=st.booleans(),
    data=st.data(),
)
def test_any_allowed_whole_numbers_give_what_trying_all_of_them_gives(allowed, border, upward, jumps, data):
    """Allowed numbers need not be neighbours. A value that is not allowed is never asked, and ends the range."""
    start = data.draw(st.sampled_from(sorted(allowed)))
    within = Range(float(start), 1.0, float(FAR), upward, 0.01, whole=True, bounded=jumps, jumps=jumps)

    def holds(value):
        return value <= border if upward else value >= border

    def ask(steps):
        assert all(value in allowed for _, value in steps)
        return [holds(value) for _, value in steps]

    (found,) = search(ask, [0], within, allowed=lambda value: value in allowed)
    good, bad = ([value for value in allowed if holds(value) == which] for which in (True, False))
    end, last = (max, FAR) if upward else (min, 1)
    if good and (bad or end(allowed) != last):
        assert found.found and found.middle(whole=True) == end(good)
        assert found.beyond not in good
    else:
        assert not found.found
        assert not good or found.good == end(good)
        assert good or found.bad == (min if upward else max)(bad)


@given(end=st.floats(1.5, 900.0), border=st.floats(0.5, 2000.0))
def test_the_end_of_what_is_allowed_is_found_as_narrowly_as_a_border(end, border):
    within = Range(1.0, 1 / 1024, 1024.0, True, 0.01)
    (found,) = search(lambda steps: [v <= border for _, v in steps], [0], within, allowed=lambda v: v <= end)
    assert found.found and found.good <= min(end, border) <= found.beyond * (1 + 1e-6)
    assert found.beyond - found.good <= 0.01 * found.beyond * (1 + 1e-6)


def test_a_start_that_is_not_allowed_gives_way_to_the_nearest_that_is():
    within = Range(10.0, 1.0, 20.0, True, 0.01, whole=True, bounded=True, jumps=True)
    (found,) = search(lambda steps: [True] * len(steps), [0], within, allowed=lambda value: value in (3.0, 4.0, 7.0))
    assert found.good == 7.0 and found.wall is not None
    (none,) = search(lambda steps: [True] * len(steps), [0], within, allowed=lambda _value: False)
    assert not none.seen
    within = Range(0.0, 0.0, 10.0, True, 0.01, bounded=True, jumps=True)
    (found,) = search(lambda steps: [v <= 4 for _, v in steps], [0], within, allowed=lambda value: 0.5 < value < 9)
    assert found.good <= 4 <= found.bad and min(found.seen) > 0.5


def job(number):
    """A job of an operator with some key groups or partitions, and a number of subtasks that may or may not be enough,
    with what is asked of it."""
    random = np.random.default_rng(number)
    most, service_s = int(random.integers(2, 11)), 4e-3
    parallelism = int(random.integers(1, most + 1))
    rate_per_s = float(random.uniform(0.3, 1.2)) * most / service_s / 2
    parts = {"partitions": most} if number % 2 else {"shares": [1] * most}
    data = ordinary(service_s, parallelism, rate_per_s=rate_per_s, horizon_s=6, **parts) | {"engine": SHALLOW}
    data["run"] |= {"warmup_s": 1}
    text = "not backpressured" if number % 3 else "operators.work.busiest > 0.3"
    return parse(Scenario, data), "min" if number % 3 else "max", text


@pytest.mark.parametrize("number", range(8))
def test_the_limit_of_subtasks_is_what_runs_of_all_numbers_of_them_give(number):
    """Every number of subtasks that is allowed, each on the same random numbers as the search."""
    scenario, find, text = job(number)
    turn, holds, repetitions = knob("subtasks of work", "--find-min"), condition(text, scenario), 2
    with Bench(Processes(1)) as bench:
        limits = []
        for index in range(repetitions):
            seen = {}
            for count in range(1, 25):
                try:
                    case = turn.turned(scenario, count)
                except BadInput:
                    continue
                seen[count] = holds.holds(bench.outcomes([(case, child_seed(1, index))])[0].measures)
            good = [count for count, held in seen.items() if held]
            assert sorted(seen.values(), reverse=find == "max") == [*seen.values()]  # one border, by all runs
            limits.append((max if find == "max" else min)(good, default=None))
        question = CapacityQuestion(find, turn, holds, replications=repetitions)
        answer = capacity(scenario, question, bench, 1, SILENT)
    if None in limits:
        assert {*limits} == {None} and answer.status == "never"
        assert answer.not_valid is not None and max(answer.values) == max(seen)
    else:
        assert answer.value == (min if find == "max" else max)(limits)


def test_between_is_where_is_looked_and_nowhere_else():
    """Twelve cores of work in 16 key groups need 16 subtasks; with 12 to 15, one of them has two groups."""
    data = ordinary(1e-2, 6, shares=[1] * 16, rate_per_s=1200, horizon_s=6) | {"engine": SHALLOW}
    data["run"] |= {"warmup_s": 1}
    scenario = parse(Scenario, data)
    answers = {
        between: asked(scenario, "min", "subtasks of work", "not backpressured", between=between, replications=2)
        for between in (None, (1, 12), (14, 40))
    }
    assert [each.value for each in answers.values()] == [16, None, 16]
    for between, each in answers.items():
        low, high = between or (1, 16)
        assert all(low <= value <= min(high, 16) for value in (*each.values, *each.predicted.tried))
    assert answers[1, 12].status == "never" and answers[1, 12].not_valid is None
    with pytest.raises(BadInput, match="no whole number"):
        asked(scenario, "min", "subtasks of work", "not backpressured", between=(2.2, 2.8))
    with pytest.raises(BadInput, match="16 key groups for 2"):
        asked(scenario, "min", "subtasks of work", "not backpressured", between=(20, 30))


def test_hosts_that_there_are_not_are_not_tried_and_what_binds_is_said():
    """A subtask of 1 ms a record bears 1,000 a second, of 2,500 that come; no host is a help."""
    scenario = queue(rate_per_s=2500, horizon_s=4)
    question = CapacityQuestion("min", knob("hosts", "--find-min"), condition("not backpressured", scenario))
    with Bench(Processes(1)) as bench:
        answer = capacity(scenario, question, bench, 1, SILENT, prove=False)
    assert answer.predicted.status == "never" and answer.predicted.tried == (2, 2)
    (said,) = told(answer).sentences
    assert "for hosts 2" in said and "operator work" in said and "the cluster has 2; there are no 3" in said
