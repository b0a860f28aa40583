"""What the validity report makes of exact and fast runs of the same configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.validity.agreement import Comparison, q_errors
from benchmarks.validity.agreement_tables import bias_table, error_table, length_table, worst_table
from benchmarks.validity.busy import busy_table, excess, worst_busy_table
from benchmarks.validity.report import Report
from benchmarks.validity.selection import chosen, keeps_up, long_job


def result(throughput: float, **more: Any) -> dict[str, Any]:
    latency = {"mean": 1.0, "p95": 2.0}
    return {
        "throughput_per_s": throughput,
        "e2e_latency_s": latency,
        "processing_latency_s": latency,
        "tuples_out": 1000,
        "backpressured": False,
        "success": True,
        "warnings": [],
        "operators": {"map": {"busy": 0.5, "backpressured": 0.1}, "sink": {"busy": 0.01, "backpressured": 0.0}},
        **more,
    }


def test_agreement_counts_what_it_says(tmp_path: Path) -> None:
    cases = chosen("costream", "dev", "small")
    exact = [result(100.0) for _ in cases]
    fast = [result(200.0), *(result(101.0) for _ in cases[1:-1]), result(100.0, tuples_out=3, backpressured=True)]
    found = Comparison("costream", cases, exact, exact, fast)
    assert found.rich.sum() == len(cases) - 1
    rows = {row[0]: row for row in error_table(found)}
    assert rows["T"][1] == "1.000 / 1.000 / 1.00"
    assert rows["T"][2].startswith("1.010") and rows["T"][2].endswith("2.00") and rows["T"][-1] == "**no**"
    assert rows["Le"][-1] == "yes" and rows["RO agrees"][2] == f"{len(cases) - 1} of {len(cases)}"
    assert worst_table(found)[1][0] == str(cases[0].seed)
    assert len(bias_table(found)) == 1 + 3 + 2 + 6
    assert q_errors(np.array([0.5, 2.0, np.nan])).tolist() == [2.0, 2.0]
    assert [row[-1] for row in error_table(found)[-3:]] == ["**no**", "yes", "yes"]
    report = Report(tmp_path / "validity.md", "small")
    report.comparison(found)
    report.write()
    text = (tmp_path / "validity.md").read_text()
    assert (tmp_path / "validity" / "costream.png").exists() and "(validity/costream.png)" in text


def test_a_fast_run_that_is_far_off_has_to_say_so() -> None:
    cases = chosen("costream", "dev", "small")[:4]
    exact = [result(100.0) for _ in cases]
    noisy = [result(100.0), result(100.0), result(100.0), result(300.0)]
    fast = [result(201.0), result(49.0, warnings=["coarse"]), result(199.0), result(210.0)]
    found = Comparison("costream", cases, exact, noisy, fast)
    assert found.silently_far() == [cases[0].seed]  # of the last, the exact runs do not know either
    assert error_table(found)[-1][2:] == ("1 of 4", str(cases[0].seed), "none", "**no**")


def test_shares_of_time_are_counted_operator_by_operator() -> None:
    cases = chosen("costream", "dev", "small")[:10]
    exact = [result(100.0) for _ in cases]
    wrong = {"map": {"busy": 0.8, "backpressured": 0.1}, "sink": {"busy": 0.03, "backpressured": 0.0}}
    fast = [result(100.0, operators=wrong), *exact[1:]]
    busy, held_up, idle = busy_table(Comparison("costream", cases, exact, exact, fast))[1:]
    assert busy[:3] == ("busy", "20", "100.0 %") and busy[4] == "95.0 %" and busy[-1] == "yes"
    assert busy[5].endswith("/ 30.0") and idle[5].endswith("/ 30.0") and held_up[4] == "100.0 %"
    worst = worst_busy_table(Comparison("costream", cases, exact, exact, fast))
    assert worst[1] == (str(cases[0].seed), "map", "busy", "50.0", "50.0", "80.0")
    points = excess(np.array([12.0, 55.0, 84.1]), np.array([10.0, 50.0, 80.0]))
    assert points[0] == 1.0 and points[1] == 2.0 and points[2] > 1.0


def test_ordinary_jobs_that_keep_up_are_run_at_the_default_length_too(tmp_path: Path) -> None:
    cases = chosen("ordinary", "dev", "small")
    calm = [keeps_up(case) for case in cases]
    assert any(calm) and not all(calm)
    assert {long_job(case).settings.horizon_s for case in cases} == {240.0}
    exact = [result(100.0) for _ in cases]
    found = Comparison("ordinary", cases, exact, exact, exact, [result(110.0) if each else None for each in calm])
    at_length = found.at_length()
    assert at_length is not None and len(at_length.cases) == sum(calm)
    assert length_table(at_length)[1][2] == "1.100 / 1.100 / 1.10" and error_table(found)[1][2].startswith("1.000")
    report = Report(tmp_path / "validity.md", "full")
    report.comparison(found)
    report.write()
    text = (tmp_path / "validity.md").read_text()
    assert "(validity/ordinary.png)" in text and "6 chain" not in text and "2 chain" in text
    assert Comparison("ordinary", cases, exact, exact, exact).at_length() is None
