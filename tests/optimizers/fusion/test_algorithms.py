"""Algorithm 1 against the paper's loop, the exact solution against all fusions there are, and what all must obey."""

from __future__ import annotations

import itertools
from functools import partial

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.fusion.components import Splits, baseline, by_attributes, by_communication, fused, least_communication
from papers.enorm.fusing import ATTRIBUTES, by_rate_between, random_job
from tests.optimizers.fusion.jobs import algorithm_1, by_rate_between_literally, groups, motivating, plain, wanting
from twin.errors import BadInput

ALGORITHMS = {
    "COMM": by_communication,
    "PA": by_attributes,
    "between": by_rate_between,
    "acyclic": partial(by_communication, acyclic=True),
    "baseline": lambda job: baseline(job, np.random.default_rng(0)),
    "baseline, unfused": lambda job: baseline(job, np.random.default_rng(0), whole=False),
}


@st.composite
def small_jobs(draw, most=6):
    """Strategy of DAGs with few attributes, some operators with none, and equal rates now and then."""
    size = draw(st.integers(1, most))
    names = [f"o{number}" for number in range(size)]
    keys = {name: "".join(sorted(draw(st.sets(st.sampled_from("xyw"), max_size=3)))) for name in names}
    pairs = draw(st.sets(st.sampled_from(list(itertools.combinations(names, 2)) or [("", "")])))
    rates = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(0.1, 10.0))
    return plain(keys, {f"{one}>{two}": draw(rates) for one, two in sorted(pairs) if one})


def partitions(items):
    """All ways to part a list into groups."""
    if not items:
        yield []
        return
    first, *rest = items
    for parted in partitions(rest):
        yield [[first], *parted]
        for index in range(len(parted)):
            yield [*parted[:index], [first, *parted[index]], *parted[index + 1 :]]


def least_of_all(job, *, acyclic=False):
    """Least communication of a job, by trying every fusion."""
    splits, found = Splits(job), []
    for parted in partitions(list(job.by_name)):
        if all(len(group) == 1 or splits.common(group) for group in parted):
            fusion = fused(job, parted)
            if not (acyclic and fusion.cyclic):
                found.append(fusion.communication)
    return min(found)


def test_figure_2():
    for algorithm in ALGORITHMS.values():
        assert groups(algorithm(motivating())) == {
            frozenset({"op1", "op2", "op3"}),
            frozenset({"op4"}),
            frozenset({"op5"}),
        }


@settings(max_examples=60, deadline=None)
@given(small_jobs())
def test_one_pass_finds_what_the_papers_loop_finds(job):
    assert groups(by_communication(job)) == groups(algorithm_1(job, "COMM"))
    assert groups(by_attributes(job)) == groups(algorithm_1(job, "PA"))


@pytest.mark.parametrize("seed", range(6))
def test_rates_between_components_are_kept_up_to_date(seed):
    job = random_job(10 + seed, seed)
    assert groups(by_rate_between(job)) == groups(by_rate_between_literally(job))


@settings(max_examples=50, deadline=None)
@given(small_jobs(most=7))
def test_every_fusion_is_valid_and_cannot_be_merged_further(job):
    for name, algorithm in ALGORITHMS.items():
        found = algorithm(job)
        assert fused(job, [each.operators for each in found.components]) == found, name
        assert sorted(found.component_of) == sorted(job.by_name)
        for transfer in job.transfers:
            one, other = (found.components[found.component_of[end]] for end in (transfer.producer, transfer.consumer))
            counts = transfer.rate_per_s > 0 or "PA" in name
            if one != other and counts and name in ("COMM", "PA", "between"):
                assert not one.attributes & other.attributes, name


@settings(max_examples=50, deadline=None)
@given(small_jobs(most=7))
def test_without_circles_there_are_none_and_nothing_more_can_be_merged(job):
    found = by_communication(job, acyclic=True)
    assert not found.cyclic
    for one, other in found.graph.edges:
        ends = found.components[one], found.components[other]
        rate = sum(
            each.rate_per_s
            for each in job.transfers
            if (found.component_of[each.producer], found.component_of[each.consumer]) == (one, other)
        )
        if rate and ends[0].attributes & ends[1].attributes:
            rest = [each.operators for each in found.components if each not in ends]
            assert fused(job, [*rest, (*ends[0].operators, *ends[1].operators)]).cyclic


@settings(max_examples=40, deadline=None)
@given(small_jobs(most=6))
def test_the_exact_solution_is_the_best_of_all(job):
    found, best = least_communication(job), least_of_all(job)
    assert found.proved
    assert found.fusion.communication == pytest.approx(best, abs=2e-6)
    assert found.bound == pytest.approx(best, abs=2e-6)
    assert all(algorithm(job).communication >= best - 1e-9 for algorithm in ALGORITHMS.values())


def test_a_merge_that_would_close_a_circle_may_be_possible_later():
    job = plain({"a": "x", "b": "x", "c": "x"}, {"a>c": 9, "a>b": 5, "b>c": 4})
    assert groups(by_communication(job, acyclic=True)) == {frozenset("abc")}
    parted = plain({"a": "x", "b": "y", "c": "x"}, {"a>c": 9, "a>b": 5, "b>c": 4})
    assert by_communication(parted).cyclic
    assert len(by_communication(parted, acyclic=True).components) == 3


def test_a_long_chain_needs_no_recursion():
    names = [f"o{number}" for number in range(1500)]
    job = plain(dict.fromkeys(names, "x"), {f"{one}>{two}": 1 for one, two in itertools.pairwise(names)})
    assert len(by_communication(job, acyclic=True).components) == 1


def test_components_leave_room_for_the_subtasks_that_are_wanted():
    job = plain({"a": "x", "b": "xy", "c": "y"}, {"a>b": 9, "b>c": 1}, distinct={"x": 4, "y": 50})
    wide = wanting(job, b=8)
    assert groups(by_communication(job)) == {frozenset("ab"), frozenset("c")}
    for name, algorithm in ALGORITHMS.items():
        assert groups(algorithm(wide)) == {frozenset("a"), frozenset("bc")}, name
    with pytest.raises(
        BadInput, match="does not limit components by subtasks: map 'b' wants 8, and attribute 'x' has 4"
    ):
        least_communication(wide)
    asked = wanting(plain({"a": "", "b": "x"}, {"a>b": 1}), a=2)
    for algorithm in (*ALGORITHMS.values(), lambda job: least_communication(job).fusion):
        with pytest.raises(BadInput, match="map 'a' wants 2 subtasks, but it can be split into 1 at most"):
            algorithm(asked)


def test_no_time_is_refused():
    with pytest.raises(BadInput, match="seconds must be > 0"):
        least_communication(motivating(), seconds=0)


@pytest.mark.parametrize("operators", [4, 50, 150])
def test_random_jobs_are_section_7s(operators):
    job = random_job(operators, 3)
    assert job == random_job(operators, 3) != random_job(operators, 4)
    assert len(job.operators) == operators
    assert len(job.operators[0].attributes) == 15
    sizes = np.array([len(each.attributes) for each in job.operators])
    assert sizes.min() >= 1 and sizes.max() <= 30 and abs(np.diff(sizes)).max() <= 3
    levels = nx.dag_longest_path_length(job.graph) + 1
    assert 3 <= levels <= max(3, 0.75 * operators)
    depth = {name: level for level, names in enumerate(nx.topological_generations(job.graph)) for name in names}
    assert all(depth[each.consumer] == depth[each.producer] + 1 for each in job.transfers)
    for name in job.by_name:
        sent = sum(each.rate_per_s for each in job.transfers if each.producer == name)
        assert sent <= 1000
        below = [each for each in job.by_name if depth[each] == depth[name] + 1]
        assert set(job.consumers[name]) == set(below)


def test_random_jobs_need_three_levels():
    with pytest.raises(BadInput, match="operators must be >= 4, got 3"):
        random_job(3, 1)


def test_all_attributes_occur():
    used = {name for seed in range(5) for each in random_job(50, seed).operators for name in each.attributes}
    assert used == set(ATTRIBUTES)
