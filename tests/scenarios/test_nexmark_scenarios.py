"""Queries of Nexmark in the library: they are asked, and their rates agree with the proportions of the benchmark."""

from __future__ import annotations

import math

import pytest

import streamtwin as st
from scenarios.files import registry
from twin.rates.model import RateModel
from twin.scenario import Scenario

QUERIES = [name for name in registry.names() if name.startswith("nexmark-")]
BIDS, AUCTIONS, PERSONS = 46 / 50, 3 / 50, 1 / 50
"""Shares of the events."""
FILTERED = {
    "q2": (BIDS / 123,),
    "q3": (AUCTIONS / 5, PERSONS / 2),
    "q4": (AUCTIONS, BIDS),
    "q8": (PERSONS, AUCTIONS),
    "q9": (AUCTIONS, BIDS),
    "q14": (BIDS * math.log10(50) / 6,),
    "q20": (BIDS, AUCTIONS / 5),
}
"""Shares of the events that pass first filters, by the specification: one of 123 auctions; one of five categories, and
three of six states; prices, whose logarithms are even over six powers of ten, from 1 to 50 millions. Others take bids.
"""


def offered_per_s(job: Scenario) -> float:
    return job.workload.arrivals["nexmark"].mean_rate_per_s


def flow_per_s(job: Scenario) -> dict[str, tuple[float, float]]:
    """Records a second into each operator and out of it, by the rate model."""
    found = RateModel().answer(job, [job.plan])
    return dict(zip(found.operators, zip(found.in_per_s[0], found.out_per_s[0], strict=True), strict=True))


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_bears_more_than_its_light_load_and_says_what_grows(name: str) -> None:
    job = st.load(name)
    assert job.plan.hosts(*job.plan.placement) == ("tm-1",) and len(job.cluster.hosts) == 3
    limit = st.capacity(job, "load", prove=False).result.predicted
    assert (limit.value or limit.in_long_runs) > 2
    endless = [each.name for each in job.query.operators if each.keeps_rows and getattr(each, "ttl_s", 0.0) is None]
    assert ("grows without bound" in job.description) is bool(endless)
    shares = [job.query.operator(each.consumer).selectivity for each in job.query.outputs("nexmark")]
    wanted = FILTERED.get(name.removeprefix("nexmark-"), (BIDS,) * len(shares))
    assert sorted(shares) == pytest.approx(sorted(wanted), rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_runs_and_keeps_up(name: str) -> None:
    job = st.load(name)
    result = st.run(job, horizon_s=26)
    assert not result.metrics.backpressured and result.metrics.queue_growth_per_s == 0.0
    taken = result.operators.loc["nexmark", "rate_out_per_s"]
    assert taken == pytest.approx(offered_per_s(job), rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nexmark-q5", "nexmark-q7"])
def test_windows_of_ten_seconds_have_results_in_a_run_as_long_as_the_scenario_says(name: str) -> None:
    assert st.run(st.load(name)).keeps_up


def test_bids_pass_the_first_query() -> None:
    """A record costs 1.24 us or so, and 46 of 50 events are results."""
    job = st.load("nexmark-q0")
    result = st.run(job.with_run(warmup_s=1, horizon_s=3))
    assert result.operators.loc["results", "rate_in_per_s"] == pytest.approx(BIDS * offered_per_s(job), rel=0.01)
    assert result.operators.loc["nexmark", "busy"] == pytest.approx(
        offered_per_s(job) * job.query.operator("nexmark").service_time_s, rel=0.05
    )


def test_each_bidder_of_ten_seconds_is_a_result() -> None:
    job = st.load("nexmark-q12")
    window = job.query.operator("window-aggregate")
    came, left = flow_per_s(job)["window-aggregate"]
    assert came == pytest.approx(BIDS * offered_per_s(job), rel=0.01)
    assert left == pytest.approx(window.groups / window.window.size_s, rel=0.01)


def test_auctions_that_hardly_repeat_are_counted_in_five_windows_each() -> None:
    """Of windows of 10 s that slide by 2 s each partial count is in five, where those of one auction become one."""
    came, left = flow_per_s(st.load("nexmark-q5"))["global-window-aggregate"]
    assert 4.5 * came < left <= 5 * came


def test_a_last_row_that_replaces_another_leaves_as_two_changes() -> None:
    """Each bid gives one or two changes; those of keys that are seen first one, so more rows are fewer changes."""
    job = st.load("nexmark-q18")
    came, left = flow_per_s(job)["deduplicate"]
    assert came == pytest.approx(BIDS * offered_per_s(job), rel=0.01)
    assert came < left < 2 * came
    assert flow_per_s(job.with_set("query.operators.deduplicate.keys", 10_000))["deduplicate"][1] > left


def test_new_people_and_sellers_are_a_fiftieth_and_three_of_the_events() -> None:
    job = st.load("nexmark-q8")
    flow, rate = flow_per_s(job), offered_per_s(job)
    assert flow["calc"][1] == pytest.approx(PERSONS * rate, rel=0.01)
    assert flow["calc#2"][1] == pytest.approx(AUCTIONS * rate, rel=0.01)
    assert flow["window-join"][0] == pytest.approx(sum(flow[f"global-window-aggregate{n}"][1] for n in ("", "#2")))


def test_plans_and_variants_of_a_query_are_judged() -> None:
    """One task manager bears the light load of a query, so no other plan is better, and one has the lowest price."""
    job = st.load("nexmark-q12").with_run(warmup_s=11, horizon_s=22)
    found = st.optimize(job, objective="price")
    assert len({host for places in found.plan.placement.values() for host in places}) == 1
    loads = st.whatif(job, {"load": [1, 2]}, replications=2).frame
    rates = loads[loads["metric"] == "throughput_per_s"].set_index("variant")["mean"]
    assert rates["load 2"] == pytest.approx(rates["as given"], rel=0.05), (
        "as many bidders, of which each bids twice as often"
    )
