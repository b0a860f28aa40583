"""What pages say of the papers follows from their rows."""

from __future__ import annotations

from scenarios.experiments.briskstream import against as brisk
from scenarios.experiments.costream import against as costream


def verdicts(rows: list[dict[str, str]]) -> list[str]:
    return [row["verdict"] for row in rows]


def test_a_gain_beside_its_range_differs_and_another_server_is_not_compared() -> None:
    rows = [
        {"application": "WC", "server": "A", "planner": planner, "gain": gain}
        for planner, gain in (("RLAS_fix(L)", 0.2), ("RLAS_fix(U)", 6.0))
    ]
    assert verdicts(brisk.fig12(rows)) == ["agrees", "differs", "not comparable"]


def test_one_better_random_plan_makes_the_difference() -> None:
    row = {"better": 0, "best_again": 0.99, "plans": 1000}
    assert verdicts(brisk.fig14([row])) == ["agrees"]
    assert verdicts(brisk.fig14([row, row | {"better": 1, "best_again": 1.01}])) == ["differs"]


def line(model: str, median: float | None, accuracy: float, seed: int) -> dict[str, object]:
    found: dict[str, object] = {"model": model, "training_seed": seed, "backpressured_accuracy": accuracy}
    return found | {f"{metric}_q50": median for metric in ("throughput_per_s", "e2e_latency_s")}


def test_models_are_compared_seed_by_seed_and_not_without_labels() -> None:
    rows = [
        line(costream.PAPERS, 1.1, 0.9, 1),
        line(costream.FLAT, 1.2, 0.95, 1),
        line(costream.PAPERS, 1.3, 0.97, 2),
        line(costream.FLAT, 1.4, 0.96, 2),
    ]
    found = {row["what"].split(":")[0]: row for row in costream.rivals(rows)[:-1]}
    assert found["T"]["verdict"] == "agrees" and found["T"]["ours"].startswith("2 of 2")
    assert found["RO"]["verdict"] == "differs" and found["RO"]["ours"].startswith("1 of 2")
    assert found["Lp"]["verdict"] == found["S"]["verdict"] == "not comparable"
