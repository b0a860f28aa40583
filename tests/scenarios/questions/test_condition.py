"""Conditions: accepted ones mean what Python means by them, and nothing else is accepted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.files import scenario_file
from scenarios.measures import FLAGS, WHOLE_JOB, condition
from twin.errors import BadInput
from twin.metrics import CHECKPOINTS

SCENARIO = scenario_file.load("smart-grid")
NAMES = ("throughput_per_s", "e2e_latency_s.p99", "hosts.edge-1.cpu", "operators.house-average.busy")
VALUES = st.fixed_dictionaries(
    {name: st.floats(-5, 5) for name in NAMES} | {"backpressured": st.sampled_from([0.0, 1.0])}
)
SIDES = st.sampled_from([*NAMES, "1", "2.5", "-1", "(throughput_per_s + 1)", "2 * e2e_latency_s.p99"])
MEASURED = st.sampled_from([*NAMES, "(throughput_per_s + 1)", "2 * e2e_latency_s.p99"])
COMPARED = st.builds(lambda a, op, b: f"{a} {op} {b}", MEASURED, st.sampled_from(["<", "<=", ">", ">="]), SIDES)
WRITTEN = st.recursive(
    COMPARED | st.just("backpressured"),
    lambda inner: (
        st.builds(lambda a, op, b: f"({a} {op} {b})", inner, st.sampled_from(["and", "or"]), inner)
        | st.builds(lambda a: f"not ({a})", inner)
    ),
    max_leaves=6,
)


@given(WRITTEN, VALUES)
def test_it_means_what_python_means(text, values):
    plain = text
    for index, name in enumerate([*NAMES, "backpressured"]):
        plain = plain.replace(name, f"v[{index}]")
    expected = eval(plain, {"v": [*(values[name] for name in NAMES), bool(values["backpressured"])]})
    assert condition(text, SCENARIO).holds(values) == expected


def test_terms_that_fail_are_told_apart():
    found = condition("not backpressured and e2e_latency_s < 2 and throughput_per_s > 1", SCENARIO)
    values = {"backpressured": 1.0, "e2e_latency_s.mean": 1.0, "throughput_per_s": 0.5}
    assert found.failing(values) == ["not backpressured", "throughput_per_s > 1"]
    assert condition("0 < e2e_latency_s < 2", SCENARIO).holds(values)


@pytest.mark.parametrize(
    ("text", "name", "below", "above"),
    [
        ("e2e_latency_s.p99 < 500ms", "e2e_latency_s.p99", 0.499, 0.501),
        ("e2e_latency_s < 2min", "e2e_latency_s.mean", 119.0, 121.0),
        ("throughput_per_s < 20k", "throughput_per_s", 19_999.0, 20_001.0),
        ("hosts.edge-1.cpu < 80%", "hosts.edge-1.cpu", 0.799, 0.801),
        ("e2e_latency_s.p95 < 2 * 1.5s", "e2e_latency_s.p95", 2.99, 3.01),
    ],
)
def test_numbers_have_units_and_terms_know_their_metrics(text, name, below, above):
    asked = condition(text, SCENARIO)
    assert asked.holds({name: below}) and asked.failing({name: above}) == [text]
    assert asked.terms[0].metrics == {name}


def test_all_names_of_a_job_can_be_compared():
    for name in (*WHOLE_JOB, "links.edge-1.utilisation"):
        if name in CHECKPOINTS:
            continue
        flag = name in FLAGS
        condition(name if flag else f"{name} < 1", SCENARIO)


REFUSED = {
    "checkpoint_duration_s < 1": "takes no checkpoints, so it has no checkpoint_duration_s",
    "throughput_per_s": "is a number; compare it",
    "backpressured < 1": "is yes or no, not a number",
    "e2e_latency_s.p98 < 2": "did you mean 'e2e_latency_s.p99'",
    "hosts['edge-9'].cpu < 1": "unknown metric 'hosts.edge-9.cpu'",
    "hosts[0].cpu < 1": "is no metric",
    "e2e_latency_s.p99 == 2": "use < <= > >=",
    "a && b": "&& is written and",
    "e2e_latency_s.p99 = 2": "= is written < or >",
    f"throughput_per_s < {'9' * 900}": "is no finite number",
    "throughput_per_s < 1e308 * 10": "'1e308 * 10' is no finite number",
    "1 < 2 and throughput_per_s > 1": "'1 < 2' says nothing of the run",
    "throughput_per_s / (1 - 1) < 1": "divides by zero",
    "throughput_per_s < 5ms": "compares 5ms with what is no time",
    "e2e_latency_s < 500xs": "is no condition",
    "": "is no condition",
    "5": "is no condition",
    "True": "is no condition",
    "throughput_per_s > 'a'": "is no number",
    "throughput_per_s ** 99 > 1": "is no number",
    "__import__('os').system('true')": "is no condition",
    "(lambda: 1)() > 0": "is no number",
    "[x for x in (1,)] > 0": "is no number",
    "throughput_per_s.__class__ < 1": "unknown metric",
    "(" * 400: "is no condition",
    "not " * 999: "characters, more than",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_condition_is_refused_with_a_remedy(text):
    with pytest.raises(BadInput) as refused:
        condition(text, SCENARIO)
    assert REFUSED[text] in str(refused.value)
    assert "\n" not in str(refused.value)


def test_nothing_is_executed(tmp_path):
    file = tmp_path / "touched"
    with pytest.raises(BadInput):
        condition(f"open({str(file)!r}, 'w') < 1", SCENARIO)
    assert not file.exists()
