"""Spaces in files: draws stay within them and are reproducible, and mistakes are told with their remedy."""

from __future__ import annotations

import pickle
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy import stats

from scenarios.files import scenario_file
from scenarios.learning import CorpusRecipe
from scenarios.spaces.draws import Between, OneOf, read_draw, read_numbers
from scenarios.spaces.generator import COSTREAM, random_scenario
from scenarios.spaces.space_file import (
    ArrivalsDrawn,
    Hardware,
    JobSpace,
    Queries,
    QueriesOfFile,
    QuerySpace,
    Windows,
    load,
)
from tests.commands import ROOT, refused
from twin.errors import BadInput
from twin.randomness import child_seed, random_stream
from twin.scenario import RunSettings, config_hash, put_all, value_at
from twin.simulation import simulate

EXAMPLES = ROOT / "docs" / "examples"
CONFIDENT = 1e-4
"""Chance that a right program fails one of these tests; the seeds are fixed."""
DRAWS = 300


def recipe(path: Path, runs: int = DRAWS, seed: int = 1, **more) -> CorpusRecipe:
    return CorpusRecipe(runs=runs, seed=seed, space=str(path), **more)


def written(folder: Path, text: str) -> Path:
    path = folder / "space.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def drawn(path: Path, count: int = DRAWS, seed: int = 1):
    make, _ = recipe(path, count, seed).plan()
    return [make(index) for index in range(count)]


@pytest.mark.parametrize("name", ["space.yaml", "job-space.yaml"])
def test_an_example_is_drawn_again_by_its_seed_also_elsewhere_and_runs(name):
    make, spec = recipe(EXAMPLES / name).plan()
    sent, same = pickle.loads(pickle.dumps(make)), recipe(EXAMPLES / name).plan()[0]
    hashes = [config_hash(make(index)) for index in range(8)]
    assert (
        hashes == [config_hash(sent(index)) for index in range(8)] == [config_hash(same(index)) for index in range(8)]
    )
    assert len({*hashes}) == 8
    assert not {*hashes} & {config_hash(each) for each in drawn(EXAMPLES / name, 8, seed=2)}
    assert spec.manifest()["settings"]["definition"]
    short = make(0).with_run(horizon_s=3.0, warmup_s=0.0, period_s=1.0)
    assert simulate(short).metrics.records_in > 0


def test_draws_of_the_example_are_within_it():
    jobs = drawn(EXAMPLES / "space.yaml")
    for job in jobs:
        tiers = Counter(host.name.rstrip("0123456789") for host in job.cluster.hosts)
        assert tiers["cloud"] == 1 and 2 <= tiers["edge"] <= 4 and len(tiers) == 2
        for host in job.cluster.hosts:
            assert 10 <= host.bandwidth_mbps <= 10_000
            edge = host.name.startswith("edge")
            assert host.cpu_percent in ((50, 100, 200) if edge else (1600,))
            assert 5 <= host.latency_ms <= 80 if edge else host.latency_ms == 1
        assert all(0.02 * (1 - 1e-9) <= law.mean_rate_per_s / 5000 <= 1 + 1e-9 for law in laws(job))
        assert {law.law for law in laws(job)} <= {"poisson", "bursty"}
        kinds = Counter(each.kind for each in job.query.operators)
        assert kinds["source"] in (1, 2) and kinds["filter"] in (1, 2)
        windows = [each.window for each in job.query.operators if hasattr(each, "window")]
        assert all(window.policy == "time" and window.size_s in (1, 5, 10) for window in windows)
    assert likely(sum(len(job.query.sources) == 2 for job in jobs), 1 / 4)
    assert likely(sum(job.engine.name == "flink" for job in jobs), 1 / 2)
    assert likely(sum(any(each.kind == "aggregate" for each in job.query.operators) for job in jobs), 1 / 2)
    laws_drawn = [law.law for job in jobs for law in laws(job)]
    assert likely(laws_drawn.count("bursty"), 1 / 3, len(laws_drawn))
    first = [np.log(job.cluster.hosts[0].bandwidth_mbps) for job in jobs]
    assert stats.kstest(first, stats.uniform(np.log(10), np.log(1000)).cdf).pvalue > CONFIDENT


def laws(job):
    return job.workload.arrivals.values()


def likely(count: int, share: float, of: int = DRAWS) -> bool:
    return bool(stats.binomtest(count, of, share).pvalue > CONFIDENT)


def test_a_file_that_says_nothing_is_costreams_space(tmp_path):
    jobs = drawn(written(tmp_path, "description: as it is\n"), 12)
    for index, job in enumerate(jobs):
        usual = random_scenario(COSTREAM, child_seed(1, index), RunSettings())
        assert (job.query, job.cluster, job.plan, job.workload, job.engine) == (
            usual.query,
            usual.cluster,
            usual.plan,
            usual.workload,
            usual.engine,
        )


def test_only_what_varies_differs_from_the_template():
    path = EXAMPLES / "job-space.yaml"
    space = load(path)
    assert isinstance(space, JobSpace)
    base = scenario_file.load(space.template)
    jobs = drawn(path, 60)
    paths = [each for each in space.vary if each != "load"]
    for job in jobs:
        (was,), (now,) = laws(base), laws(job)
        assert 0.5 <= now.mean_rate_per_s / was.mean_rate_per_s <= 4 and now.law == was.law
        back = put_all(job.with_plan(base.plan), [(each, value_at(base, each, "")) for each in paths], "")
        back = back.model_copy(update={"workload": base.workload})
        assert config_hash(back) == config_hash(base)
    seen = {value_at(job, "query.operators.spikes.selectivity", "") for job in jobs}
    assert seen == {0.01, 0.05, 0.2} and {job.engine.name for job in jobs} == {"storm", "flink"}
    assert len({job.plan.model_dump_json() for job in jobs}) > 10


def test_a_template_lies_beside_its_space_and_keeps_what_is_pinned(tmp_path):
    (tmp_path / "job.yaml").write_text(scenario_file.dump(scenario_file.load("smart-grid")), encoding="utf-8")
    text = "template: job.yaml\nplans: {}\nvary: {{query.operators.parse.parallelism: {{from: 1, to: 3}}}}\n"
    base = scenario_file.load("smart-grid")
    pinned = [each.name for each in base.query.operators if each.pinned]
    for plans in ("random", "costream", "given"):
        path = written(
            tmp_path, text.format(plans) if plans != "costream" else text.format(plans).replace("parse", "compare")
        )
        jobs = drawn(path, 20)
        for job in jobs:
            assert all(job.plan.placement[name] == base.plan.placement[name] for name in pinned)
        moved = {
            name for job in jobs for name in base.plan.placement if {*job.plan.hosts(name)} != {*base.plan.hosts(name)}
        }
        assert bool(moved) == (plans != "given") or plans == "given"
    counts = {job.plan.parallelism("parse") for job in drawn(written(tmp_path, text.format("random")), 40)}
    assert counts == {1, 2, 3}


def test_another_content_is_another_corpus_and_a_comment_is_not(tmp_path):
    specs = [
        recipe(written(tmp_path, text), 3).plan()[1].manifest()
        for text in ("engines: [flink]\n", "# the same\nengines: {flink: 7}\n", "engines: [storm]\n")
    ]
    hashes = [spec["settings"]["content"] for spec in specs]
    assert hashes[0] != hashes[2]
    assert (
        recipe(written(tmp_path, "# c\nengines: [flink]\n"), 3).plan()[1].manifest()["config_hash"]
        == specs[0]["config_hash"]
    )


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_ranges_are_uniform_or_log_uniform_with_both_ends(log, whole):
    rng, draw = random_stream(0, "draws"), Between(1, 6, log, whole)
    values = np.array([draw.draw(rng) for _ in range(4000)])
    assert values.min() >= 1 and values.max() <= 6
    if whole:
        edges = np.log(np.arange(0.5, 7)) if log else np.arange(0.5, 7)
        expected = np.diff(edges) / (edges[-1] - edges[0])
        counts = Counter(values.tolist())
        assert stats.chisquare([counts[n] for n in range(1, 7)], 4000 * expected).pvalue > CONFIDENT
    else:
        of = np.log(values) / np.log(6) if log else (values - 1) / 5
        assert stats.kstest(of, "uniform").pvalue > CONFIDENT


def test_numbers_take_units_of_their_names():
    assert read_draw({"from": "5ms", "to": "1s"}, "latency_ms") == Between(5.0, 1000.0)
    assert read_draw(["1k", 200], "rate_per_s") == OneOf((1000.0, 200))
    assert read_numbers("50%", "share") == OneOf((0.5,))
    with pytest.raises(ValueError, match="is a duration, which rate_per_s is not"):
        read_draw(["5ms"], "rate_per_s")


MISTAKES = {
    "hardware: {hosts: []}": "line 1: hardware.hosts: an empty list has nothing to draw; write a list of values, or",
    "hardware: {hosts: 2.5}": "hardware.hosts: 2.5 is no whole number",
    "hardware: {hosts: {from: 3}}": r"hardware.hosts: has no 'to'; a range has both ends, \{from: LOW, to: HIGH\}",
    "hardware: {ram_mb: {from: 8, to: 2}}": "hardware.ram_mb: from 8 to 2 has no width; the lower end comes first",
    "hardware: {latency_ms: {from: 0, to: 2, log: true}}": "log: true needs a lower end above 0, got 0",
    "hardware: {latency_ms: {from: 1, to: 5, lg: true}}": "unknown key 'lg' beside from and to; did you mean 'log'",
    "hardware: {ram: 3}": "unknown key 'ram'; did you mean 'ram_mb'",
    "hardware: {cores: 2, cpu_percent: 100}": "cores and cpu_percent say the same; give one of the two",
    "hardware: {ram_mb: -1}": "hardware.ram_mb: must be at least 1e-06 and at most 1e\\+09, got -1",
    "hardware: {hosts: [2, 1000000]}": "hardware.hosts: must be at least 1 and at most 1000, got 1000000",
    "hardware: {tiers: {edge: {hosts: 2}}, hosts: 3}": "each tier has its own number of hosts; leave this one out",
    "queries: {kinds: {lineer: 1}}": "unknown kind 'lineer'; write linear, 2-way join",
    "queries: {kinds: [linear, 4-way join]}": "arrivals.rate_per_s: .* no rates for 4 sources",
    "queries: {filter_selectivity: [0.5, 1.5]}": "must be above 0 and at most 1, got 1.5",
    "queries: {filter_functions: [startwith]}": "did you mean 'startswith'",
    "queries: {filters: [one]}": "'one' is no number of filters",
    "arrivals: {laws: {poison: 1}}": "arrivals.laws: unknown 'poison'; did you mean 'poisson'",
    "arrivals: {laws: {poisson: -1}}": "poisson: -1 is no frequency",
    "engines: {storm: 0}": "nothing has a frequency above 0",
    "engines: [heron]": "engines: unknown 'heron'; known: brisk, flink, random, storm",
    "hardwares: {}": "unknown key 'hardwares'; did you mean 'hardware'",
    "[]": "a space is a mapping of keys",
    "query: {}\ncluster: {}": "is a scenario; give it with --scenario, or as the template of a space",
    "template: nope\nvary: {load: [1]}": "template: unknown scenario 'nope'",
    "template: failover\nvary: {load: [1]}": "template: failover has events.*take it out of the template",
    "template: smart-grid\nvary: {}": "vary: write a mapping from paths",
    "template: smart-grid": "vary",
    "template: smart-grid\nvary: {query.operators.pars.selectivity: [1]}": "no 'pars' in .*did you mean 'parse'",
    "template: smart-grid\nvary: {query.operators.load-readings.selectivity: [0.1, 7]}": "selectivity.*got 7",
    "template: smart-grid\nvary: {query.operators.parse.parallelism: {from: 1, to: 4.5}}": "takes whole numbers",
    "template: smart-grid\nvary: {load: 0}": "load: 0 is no factor; give numbers above 0",
    "template: smart-grid\nvary: {plan.placement.parse: [edge-1]}": "plans: random draws all places",
    "template: smart-grid\nvary: {load: [1, 2]}\nplans: any": "plans: should be 'given', 'random' or 'costream'",
}


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_is_one_line_that_names_the_place_and_the_remedy(text, tmp_path):
    path = written(tmp_path, text)
    with pytest.raises(BadInput, match=MISTAKES[text]) as found:
        recipe(path).plan()
    assert "\n" not in str(found.value) and str(path) in str(found.value)


JUNK = (
    *(None, True, 0, -1, 2.5, 1e30, float("inf"), float("nan"), 10**400, "", "x", "10k", "5ms", "3%"),
    *([], [[]], [None], [1, 2], ["a"], [{"a": 1}], {}, {"from": 1}, {"from": 1, "to": 2}, {"from": "a", "to": 2}),
    *({"from": 1, "to": 3, "log": 3}, {"from": [1], "to": {}}, {1: 2}, {"a": {}}, {"from": 0, "to": 1e30}, {"x": "y"}),
)
PLACES = (
    *("hardware.hosts", "hardware.cores", "hardware.latency_ms", "hardware.tiers", "queries.kinds", "queries.filters"),
    *("queries.groups", "queries.data_types", "queries.windows", "arrivals.rate_per_s", "arrivals.laws", "engines"),
    *("template", "vary", "plans", "vary/load", "vary/query.operators.parse.parallelism", "vary/engine", "vary/plan"),
)


@pytest.mark.parametrize("place", PLACES)
def test_whatever_stands_in_a_file_is_drawn_from_or_refused_in_one_line(place, tmp_path):
    for value in JUNK:
        if place.startswith("vary/"):
            body = {"template": "smart-grid", "plans": "given", "vary": {place.partition("/")[2]: value}}
        else:
            section, dot, key = place.partition(".")
            body = {section: {key: value}} if dot else {section: value}
        path = written(tmp_path, yaml.safe_dump(body))
        with suppress(BadInput):  # which is one line, whatever it says
            recipe(path, horizon_s=30.0).plan()[0](1)


def test_the_command_refuses_before_anything_starts(tmp_path):
    path = written(tmp_path, "engines: [heron]")
    assert "unknown 'heron'" in refused("corpus", tmp_path / "out", "--runs", 2, "--space", path)
    good = written(tmp_path, "engines: [storm]")
    line = refused("corpus", tmp_path / "out", "--runs", 2, "--space", good, "--scenario", "smart-grid")
    assert "write `template: SCENARIO`" in line
    assert not (tmp_path / "out").exists()
    assert "it is empty" in refused("corpus", tmp_path / "out", "--runs", 2, "--space", "")
    missing = refused("corpus", tmp_path / "out", "--runs", 2, "--space", tmp_path / "none.yaml")
    assert "none.yaml cannot be read: No such file" in missing


def test_the_page_names_every_key():
    page = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    for spec in (QuerySpace, Hardware, Queries, Windows, ArrivalsDrawn, JobSpace):
        for name in spec.model_fields:
            assert f"`{name}`" in page or f".{name}`" in page, name


def test_laws_keep_the_mean_that_was_drawn(tmp_path):
    text = "arrivals: {rate_per_s: 700, laws: [constant, poisson, diurnal, spikes, bursty]}\nqueries: {kinds: linear}\n"
    jobs = drawn(written(tmp_path, text), 100)
    assert {law.law for job in jobs for law in laws(job)} == {"constant", "poisson", "diurnal", "spikes", "bursty"}
    assert [law.mean_rate_per_s for job in jobs for law in laws(job)] == pytest.approx([700] * 100)
    assert isinstance(recipe(tmp_path / "space.yaml").plan()[0], QueriesOfFile)
