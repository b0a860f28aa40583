"""What pages say of the papers follows from their rows."""

from __future__ import annotations

from papers.briskstream import fig14, planners, scaling
from papers.costream import fig9, fig10, fig11, generalising, judging
from papers.costream import planners as choosers


def verdicts(rows: list[dict[str, str]]) -> list[str]:
    return [row["verdict"] for row in rows]


def test_a_gain_beside_its_range_differs_and_another_server_is_not_compared() -> None:
    rows = [
        {"application": "WC", "server": "A", "planner": planner, "gain": gain}
        for planner, gain in (("RLAS_fix(L)", 0.2), ("RLAS_fix(U)", 6.0))
    ]
    assert verdicts(planners.belief_shapes(rows)) == ["agrees", "differs", "not comparable"]


def test_one_better_random_plan_makes_the_difference() -> None:
    row = {"better": 0, "best_again": 0.99, "plans": 1000}
    assert verdicts(fig14.shapes([row])) == ["agrees"]
    assert verdicts(fig14.shapes([row, row | {"better": 1, "best_again": 1.01}])) == ["differs"]


def line(model: str, median: float | None, accuracy: float, seed: int) -> dict[str, object]:
    found: dict[str, object] = {"model": model, "training_seed": seed, "backpressured_accuracy": accuracy}
    return found | {f"{metric}_q50": median for metric in ("throughput_per_s", "e2e_latency_s")}


def test_models_are_compared_seed_by_seed_and_not_without_labels() -> None:
    rows = [
        line(judging.PAPERS, 1.1, 0.9, 1),
        line(judging.FLAT, 1.2, 0.95, 1),
        line(judging.PAPERS, 1.3, 0.97, 2),
        line(judging.FLAT, 1.4, 0.96, 2),
    ]
    found = {row["what"].split(":")[0]: row for row in judging.rivals(rows)[:-1]}
    assert found["T"]["verdict"] == "agrees" and found["T"]["ours"].startswith("2 of 2")
    assert found["RO"]["verdict"] == "differs" and found["RO"]["ours"].startswith("1 of 2")
    assert found["Lp"]["verdict"] == found["S"]["verdict"] == "not comparable"


def test_plans_that_are_no_faster_differ_and_latencies_that_do_not_exist_are_endless() -> None:
    def rows(ours: float | None, flat: float) -> list[dict[str, object]]:
        pairs = ((choosers.PAPER, ours), (choosers.FLAT, flat))
        return [
            {"type": name, "planner": planner, "speed_up": value}
            for name in ("linear", "2-way join", "all")
            for planner, value in pairs
        ]

    assert verdicts(fig9.shapes(rows(2.0, 1.5)))[:3] == ["agrees"] * 3
    assert verdicts(fig9.shapes(rows(None, 1.5)))[:2] == ["agrees"] * 2
    assert verdicts(fig9.shapes(rows(1.0, 1.0)))[:2] == ["differs"] * 2


def test_monitoring_that_is_sooner_than_the_papers_differs() -> None:
    row = {"slow_down": 100.0, "overhead_s": 80.0}
    assert verdicts(fig10.shapes([row, row | {"overhead_s": None}]))[:2] == ["agrees"] * 2
    assert verdicts(fig10.shapes([row, {"slow_down": 0.9, "overhead_s": 40.0}]))[:2] == ["differs"] * 2


def test_fine_tuning_is_judged_without_rehearsal_and_chains_by_their_order() -> None:
    def tuned(learned: str, *medians: float) -> dict[str, object]:
        cells = {f"chain{length}_q50": value for length, value in zip((2, 3, 4), medians, strict=True)}
        return {"model": judging.PAPERS, "learned": learned, **cells}

    before, after = tuned("no chains", 1.2, 1.6, 2.3), tuned("and 300 chains", 1.1, 1.1, 1.2)
    rehearsed = tuned("and 300 chains with rehearsal", 9.0, 9.0, 9.0)
    assert verdicts(fig11.shapes([before, after, rehearsed]))[:2] == ["agrees"] * 2
    assert verdicts(fig11.shapes([tuned("no chains", 2.3, 1.6, 1.0), after]))[:2] == ["differs"] * 2


def test_chains_and_ranges_are_judged_by_the_papers_own_extremes() -> None:
    def chain(model: str, median: float, right: float) -> dict[str, object]:
        return {"queries": median, "model": model, "throughput_per_s_q50": median, "success_right": right}

    rising = [chain(model, each, 1.0) for each in (1.1, 1.3, 1.9) for model in (judging.PAPERS, judging.FLAT)]
    assert verdicts(generalising.chain_shapes(rising))[-2:] == ["agrees", "differs"]

    def beyond(model: str, name: str, median: float) -> dict[str, object]:
        medians = {f"{metric}_q50": median for metric in ("throughput_per_s", "processing_latency_s")}
        return {"model": model, "range": f"{name}: of something", **medians}

    for slow, verdict in ((1.5, "agrees"), (1.1, "differs")):
        rows = [
            beyond(model, name, median)
            for name, median in (("weaker-cpu", 1.2), ("weaker-latency", slow))
            for model in (judging.PAPERS,)
        ] + [beyond(generalising.PUBLISHED, "weaker-cpu", 1.6), beyond(generalising.PUBLISHED, "weaker-latency", 3.2)]
        assert verdicts(generalising.range_shapes(rows))[:2] == [verdict] * 2


def test_remote_memory_is_the_main_reason_where_it_is_half_of_each_gap() -> None:
    def verdict(*without: float) -> str:
        rows = [{"server": "A", "of_ideal": 0.8, "without_of_ideal": share} for share in without]
        return verdicts(scaling.gap_shapes([*rows, {"server": "A", "of_ideal": 1.1, "without_of_ideal": 1.1}]))[1]

    assert verdict(0.91, 0.95) == "agrees"
    assert verdict(0.91, 0.81) == "differs" and verdict() == "differs"
