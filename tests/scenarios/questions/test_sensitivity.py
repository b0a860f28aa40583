"""Sensitivity against theory: a latency that is a sum of two delays, of which each explains its share."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from figures.answers import tornado
from scenarios.executing import Lines, Processes
from scenarios.files import scenario_file
from scenarios.questions.bench import Bench
from scenarios.questions.sensitivity import ENOUGH, Model, SampleBudget, _sobol, inputs, sensitivity
from streamtwin.answers.sensitivity import told
from tests.commands import refused, twin
from tests.scenarios.questions.jobs import host, queue, shop
from twin.errors import BadInput
from twin.spec import parse

SILENT = Lines(lambda _text: None)


def chain():
    """Job with in on a, work on b, out on c: a result is as old as both hosts' latencies, and hardly more."""
    base = queue(rate_per_s=20, horizon_s=5)
    data = base.model_dump(mode="json")
    data["cluster"] = {"hosts": [host(name) for name in "abc"]}
    data["plan"] = {"placement": {"in": "a", "work": "b", "out": "c"}}
    data["query"]["operators"][1]["service_time_s"] = 1e-6
    return parse(type(base), data)


@pytest.fixture(scope="module")
def answer():
    asked = [
        "cluster.hosts.a.latency_ms=10..410",
        "cluster.hosts.b.latency_ms=10..210",
        "cluster.hosts.c.ram_mb=8000..9000",
    ]
    scenario = chain()
    model = Model(scenario, inputs(asked, scenario), "e2e_latency_s.mean", 1, 3)
    with Bench(Processes(1)) as bench:
        return sensitivity(model, SampleBudget(4, 64, 1), bench, SILENT)


def test_of_a_sum_each_input_explains_its_share_of_the_variance(answer):
    """Uniform inputs explain w^2 / 12, here 80 and 20 % of the variance; first order and total are the same."""
    first, second, third = answer.inputs
    assert [each.input.split(".")[2] for each in answer.inputs] == ["a", "b", "c"]
    for each, share in ((first, 0.8), (second, 0.2)):
        assert abs(each.first - share) <= 2 * each.first95
        assert abs(each.total - share) <= 2 * each.total95 and each.total95 < 0.4
    assert not third.matters and third.first is None


def test_effects_are_the_widths_of_the_intervals(answer):
    """The effect mu* of a linear function is its rise over the whole interval."""
    first, second, third = answer.inputs
    assert first.mu_star == pytest.approx(0.4, rel=0.02) and first.sigma < 0.01
    assert second.mu_star == pytest.approx(0.2, rel=0.02)
    assert third.mu_star < 1e-6
    assert first.at_high - first.at_low == pytest.approx(0.4, rel=0.02)


def ishigami(x):
    """Ishigami's function of three inputs in [-pi, pi], with known indices (Ishigami and Homma, ISUMA 1990)."""
    x = np.pi * (2 * x.T - 1)
    return np.sin(x[0]) + 7 * np.sin(x[1]) ** 2 + 0.1 * x[2] ** 4 * np.sin(x[0])


ALONE = np.array([0.5 * (1 + 0.1 * np.pi**4 / 5) ** 2, 7**2 / 8, 0.0])
TOTAL = ALONE + 8 / 225 * 0.1**2 * np.pi**8 * np.array([1, 0, 1])
KNOWN = {"first": ALONE, "total": TOTAL}
VARIANCE = ALONE.sum() + TOTAL[2]


@pytest.mark.parametrize(("samples", "held"), [(ENOUGH, 0.95), (16, 0.85)])
def test_intervals_of_indices_hold_them(monkeypatch, samples, held):
    """Intervals hold the indices in 95 %, or with few samples in fewer, of which the answer warns."""
    monkeypatch.setattr(Model, "results", lambda _self, _bench, points, _audience: ishigami(points))
    shares = []
    for seed in range(60):
        found = _sobol(Model(None, [None] * 3, "", 1, seed), SampleBudget(samples=samples), None, SILENT)
        off = [np.abs([each[name] for each in found] - known / VARIANCE) for name, known in KNOWN.items()]
        shares.append(np.mean(off <= np.array([[each[f"{name}95"] for each in found] for name in KNOWN])))
    assert np.mean(shares) >= held - 2 * np.std(shares) / np.sqrt(len(shares))


def asked_of(scenario, *texts):
    model = Model(scenario, inputs(texts, scenario), "e2e_latency_s.mean", 1, 3)
    with Bench(Processes(1)) as bench:
        return sensitivity(model, SampleBudget(4, 8, 1), bench, SILENT)


def test_effects_that_the_length_of_the_run_makes_are_warned_of(answer):
    """Points at which the job does not keep up are warned of: a server of 1 ms bears two of four levels of the rate."""
    assert (answer.keeps_up, answer.warnings) == (answer.points, ())
    deep = queue(horizon_s=5, period_s=0.1).with_set("engine.channel_records", 100_000)
    found = asked_of(deep, "workload.arrivals.in.rate_per_s=500..1500", "cluster.hosts.big.latency_ms=1..2")
    assert 0 < found.keeps_up < found.points
    (said,) = told(found).notes
    assert f"at {found.points - found.keeps_up} of {found.points} points the job does not keep up" in said


def test_nothing_matters_if_no_effect_can_be_seen():
    """No input matters if the work waits for none: nanoseconds of service, and memory."""
    names = ("query.operators.out.service_time_s=0..1e-9", "cluster.hosts.big.ram_mb=64000..65000")
    found = asked_of(queue(rate_per_s=20, horizon_s=5), *names)
    assert not any(each.matters for each in found.inputs)
    assert told(found).sentences[0].startswith("no input matters")


def test_few_samples_are_warned_of(answer):
    assert not any("careful" in line for line in told(answer).sentences)
    (said,) = (line for line in told(replace(answer, samples=16)).sentences if "careful" in line)
    assert f"give --samples {ENOUGH} or more" in said


INPUTS = {
    "give --input": [],
    "twice or more": ["cluster.hosts.w-1.cpu_percent=50..100"],
    "did you mean 'w-1'": ["cluster.hosts.w1.cpu_percent=50..100"] * 2,
    "which is no number": ["cluster.hosts.w-1.name=1..2"] * 2,
    "is no range": ["cluster.hosts.w-1.cpu_percent=50"] * 2,
    "is a single value": ["cluster.hosts.w-1.cpu_percent=50..50", "cluster.hosts.w-1.ram_mb=1..2"],
    "given 2 times": ["cluster.hosts.w-1.cpu_percent=50..60"] * 2,
    "no logarithm": ["cluster.hosts.w-1.latency_ms=0..6:log"] * 2,
    "should be greater than": ["cluster.hosts.w-1.ram_mb=-5..6"] * 2,
    "write PATH=LOW..HIGH": ["5..6"] * 2,
}


@pytest.mark.parametrize("words", INPUTS)
def test_what_is_no_input_is_refused(words):
    with pytest.raises(BadInput) as error:
        inputs(INPUTS[words], shop())
    assert words in str(error.value)


@pytest.mark.slow
def test_the_command_goes_on_and_refuses(tmp_path):
    file = tmp_path / "queue.yaml"
    file.write_text(scenario_file.dump(queue(horizon_s=4)))
    rate, cores = "workload.arrivals.in.rate_per_s=100..800", "subtasks of work=1..3"
    words = ["sensitivity", file, "--input", rate, "--input", cores, "--trajectories", 3, "--samples", 8]
    done = twin(*words, "--out", tmp_path / "a", "--json", "--replications", 1)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {each["input"] for each in document["inputs"]} == {rate.partition("=")[0], "subtasks of work"}
    assert twin(*words, "--out", tmp_path / "a", "--json", "--replications", 1, "--workers", 2).stdout == done.stdout
    assert (tmp_path / "a" / "figure.png").exists()
    assert "a power of 2" in refused(*words[:-1], 9)
    assert "unknown metric" in refused(*words, "--metric", "latency")
    assert "at least 2" in refused(*words, "--trajectories", 1)


def test_the_widest_bar_is_at_the_top_and_all_begin_as_given():
    table = {"input": ["a", "b"], "low": ["1", "2"], "high": ["3", "4"], "at_low": [1.0, 4.5], "at_high": [9.0, 5.5]}
    figure = tornado(table, 5.0, "latency")
    figure.savefig("/dev/null", format="png")
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["b", "a"]
    widths = [(bar.get_x(), bar.get_width()) for bar in axes.patches]
    assert widths == [(5.0, -0.5), (5.0, 0.5), (5.0, -4.0), (5.0, 4.0)]
