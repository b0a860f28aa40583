"""Tables: no column is lost, values have the digits that errors leave, and lines say of what they are."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from optimizers.interface import Candidate, Solution, Status
from scenarios.files.scenario_file import load
from scenarios.planning.planner import HostsChosen
from streamtwin.tables import chosen_plan, rounding, run_tables, tables
from streamtwin.tables.chosen_plan import value
from streamtwin.tables.run_tables import marks
from streamtwin.tables.tables import Wide
from tests.twin.checkpointed import lines as checkpointed
from tests.twin.checkpointed import run
from tests.twin.event_jobs import job
from tests.twin.worlds import chain
from twin.events import Failure
from twin.plan import ExecutionPlan
from twin.quantities import written
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate


def shown(table: Wide, width: int = 120) -> list[str]:
    """Lines of a table in a terminal of that width."""
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_shares_of_where_the_time_goes_add_up_to_all_of_it() -> None:
    result = simulate(load("word-count").with_run(horizon_s=30.0))
    (table,) = [each for each in run_tables.of_run("job", result) if "where the time goes" in str(each.title)]
    shares = [float(found[0]) for line in shown(table) if (found := re.findall(r"(\d+)%", line))]
    assert len(shares) > 2 and sum(shares) == pytest.approx(100.0, abs=len(shares) / 2)


# columns --------------------------------------------------------------------------------------------------------------

COLUMNS = {
    "application": "application",
    "operator": "operator",
    "server": "server",
    **{f"n{k}": f"quantity number {k} of the published ones (records a second)" for k in range(9)},
}
ROWS = [
    {"application": name, "operator": "splitter", "server": "A", **{f"n{k}": 1000.5 * k + 1 for k in range(9)}}
    for name in ("WC", "FD")
]


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200, 1000])
def test_every_value_is_there_with_what_its_row_is_about(width: int) -> None:
    lines = shown(tables.of_rows("title", COLUMNS, ROWS), width)
    text = "\n".join(lines)
    assert max(map(len, lines)) <= width
    for k in range(9):
        assert text.count(f"{1000.5 * k + 1:,.0f}" if k else "1") >= len(ROWS)
    parts = text.count("application")
    assert text.count("splitter") == parts * len(ROWS) and text.count("WC") == parts
    assert (parts == 1) == (width >= 200)
    assert "…" not in text
    for word in ("quantity", "number", "published", "(records", "second)"):
        assert text.count(word) >= 9


@pytest.mark.parametrize(
    ("columns", "rows", "width", "told"),
    [
        (
            {"a": "what", "b": "how many of these there are"},
            [{"a": "a word", "b": 3}],
            80,
            "how many of these there are",
        ),
        ({"name": "name", "n": "n"}, [], 80, "name"),
        ({"name": "name", "other": "other"}, [{"name": "a", "other": "b"}], 80, "b"),
    ],
)
def test_a_table_that_fits_has_headings_in_a_line_also_without_rows_or_numbers(columns, rows, width, told) -> None:
    assert any(told in line for line in shown(tables.of_rows("a title of many words", columns, rows), width))


def test_long_text_is_broken_into_lines_and_kept() -> None:
    rows = [{"name": "x", "n": 1, "why": "one after the other " * 12}]
    text = " ".join(shown(tables.of_rows("title", {"name": "name", "n": "n", "why": "why"}, rows), 60))
    assert text.split().count("other") == 12


def test_a_dash_among_numbers_stands_to_the_right() -> None:
    rows = [{"name": "milp", "regret": "+10.0%", "model": "-"}, {"name": "cola", "regret": "-", "model": "-"}]
    lines = shown(tables.of_rows("a wide title", {"name": "name", "regret": "regret", "model": "cost model"}, rows))
    assert lines[0] == "a wide title"
    assert lines[-2].index("+10.0%") + len("+10.0%") == lines[-1].index("-") + 1
    assert lines[-1].rindex("-") == lines[1].index("cost model")


def test_strata_without_runs_and_measures_without_values_are_left_out() -> None:
    row = {"metric": "T", "q50": 1.2, "accuracy": None, "share": 0.5, "noise_share": None, "pairs": 0}
    rows = [{**row, "stratum": "joins", "rows": 3}, {**row, "stratum": "no join", "rows": 0}]
    text = "\n".join(shown(tables.of_strata("t", {"q50": "median", "accuracy": "accuracy"}, rows)))
    assert "joins" in text and "0.5" in text
    assert not any(absent in text for absent in ("no join", "accuracy", "pairs", "noise"))


def test_a_standing_rate_reads_as_in_the_table() -> None:
    assert value(90_000.4, "throughput_per_s") == "90,000/s"


# digits -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (107.8, 8.6, "110 ± 10"),
        (950, 76, "950 ± 80"),
        (12.83, 0.26, "12.8 ± 0.3"),
        (13.04, 3.1, "13 ± 3"),
        (107_834, 1_078, "108,000 ± 1,000"),
        (107.8, 0.24, "107.8 ± 0.2"),
        (0.3, 0.5, "0.30 ± 0.50"),
        (12.8, None, ""),
        (0.0, 0.0, ""),
    ],
)
def test_values_have_the_digits_that_their_errors_leave(value: float, error: float | None, text: str) -> None:
    assert rounding.number(value, error) == text


@given(st.floats(1e-12, 1e15), st.integers(1, 6), st.sampled_from([1, -1]))
def test_numbers_are_written_without_exponents_and_read_back(value: float, digits: int, sign: int) -> None:
    text = written(sign * value, digits)
    assert re.fullmatch(r"-?[\d,]+(\.\d*[1-9])?", text)
    assert float(text.replace(",", "")) == float(f"{sign * value:.{digits}g}")
    assert "e" not in tables.number(value)


def test_durations_choose_their_unit() -> None:
    assert rounding.seconds(1.0123, 0.033) == "1.01 ± 0.03 s"
    assert rounding.seconds(0.02087, 2e-5) == "20.87 ± 0.02 ms"
    assert rounding.seconds(1.0, None) == ""


@pytest.mark.parametrize(
    ("name", "mean", "half", "difference", "text"),
    [
        ("latency_s", 25.0, 28.0, False, "25.00 s (0 to 53.00 s)"),
        ("latency_s", -0.0561, 0.003, True, "-56 ± 3 ms"),
        ("latency_s", 0.02, 0.05, True, "20 ± 50 ms"),
        ("late", -0.0, 0.0, False, "0"),
    ],
)
def test_no_quantity_is_said_to_be_less_than_nothing(name, mean, half, difference, text) -> None:
    assert rounding.metric(name, mean, half, difference) == text


@given(st.floats(1e-9, 1e12), st.floats(1e-6, 1.0))
def test_rounding_moves_a_value_by_less_than_its_error(value: float, share: float) -> None:
    """Rounding moves a value by less than its error, and leaves two digits, or one beyond the error's."""
    error = value * share
    text = rounding.number(value, error)
    shown, beside = (float(each.replace(",", "")) for each in text.split(" ± "))
    unit = 10.0 ** rounding.place(value, error)
    assert abs(shown - value) <= unit * 0.5001 + 1e-12 * value
    assert 0.0 < beside <= error + unit * 0.5001
    leading = math.floor(-math.log10(share)) + 1
    assert rounding.digits(value, error) <= max(2, leading) + 1
    assert re.fullmatch(r"[\d,.]+ ± [\d,.]+", text)
    if rounding.digits(value, error) > 2:
        assert unit <= 2.0 * error


# runs -----------------------------------------------------------------------------------------------------------------


def test_the_first_subtask_is_named_as_any_other() -> None:
    moves = [{"kind": "migration", "operator": "compute", "at_s": 2, "key_groups": [3], "to_subtask": 0}]
    events = run_tables.of_run("job", simulate(job(events=moves, horizon_s=4)))[-1]
    assert "to_subtask 0" in "\n".join(shown(events, 200))


def test_checkpoints_have_a_table_of_their_own() -> None:
    result = run(checkpointed(2), Failure(at_s=8, host="h0", recover_after_s=3))
    titles = [table.title for table in run_tables.of_run("job", result)]
    assert titles[0].endswith("(quantiles are within 1% of this run's; how much of them is chance is unknown)")
    longer = run_tables.of_run("job", simulate(Scenario.of(chain([], 50.0), RunSettings(horizon_s=60))))[0]
    assert longer.title.endswith("(quantiles are within 1%)")
    assert titles[-2:] == ["events", "checkpoints: 3 completed"]
    assert len(marks(result)) == 1
    changes, taken = run_tables.apart(result.event_rows)
    assert (len(changes), len(taken)) == (1, 3)
    stored = {(row["kind"], json.loads(row["detail"]).get("status")) for row in result.rows("r")["events"]}
    assert stored == {("failure", None), ("checkpoint", "completed")}


def test_what_ended_checkpoints_is_counted() -> None:
    rows = [
        {"kind": "checkpoint", "at_s": 5.0, "end_s": 5.5, "bytes": None, "detail": {"status": "failed", "why": "x"}},
        {"kind": "checkpoint", "at_s": 9.0, "end_s": None, "bytes": None, "detail": {"status": "under way"}},
    ]
    assert run_tables.of_checkpoints(rows).title == "checkpoints: 1 failed (x), 1 under way"


# plans ----------------------------------------------------------------------------------------------------------------

GIVEN = ExecutionPlan(placement={"s": "a", "k": "a"})
OTHER = ExecutionPlan(placement={"s": "a", "k": ("b", "b")})


def solution(**more: object) -> Solution:
    found = Solution(
        status=Status.FEASIBLE,
        plan=OTHER,
        objective=2000.0,
        bound=2200.0,
        evaluations=7,
        seconds=0.5,
        weighed=90,
        given=Candidate(GIVEN, 1500.0, 0.9, 1.0),
    )
    return replace(found, **more)  # type: ignore[arg-type]


def told(found: Solution) -> dict[str, list[str]]:
    """Other cells of each row, by its first."""
    table = chosen_plan.estimates(GIVEN, found, "rlas", "rates", "throughput_per_s")
    rows = ([cell.strip() for cell in line.split("  ") if cell.strip()] for line in shown(table))
    return {row[0]: row[1:] for row in rows if len(row) > 1}


def test_both_plans_have_a_row_with_what_becomes_of_them() -> None:
    rows = told(solution())
    assert rows["as given"] == ["1,500", "does not keep up"]
    assert rows["by rlas"] == ["2,000", "keeps up"]
    assert told(solution(runs=False, fulfils=False))["by rlas"] == ["2,000", "does not keep up"]
    assert told(solution(fulfils=False))["by rlas"] == ["2,000", "keeps up, but not as required"]
    for before, state in (((1500.0, 0.0, 0.2), "fails"), ((1.0, 0.0, 1.0, False), "keeps up, but not as required")):
        assert told(solution(given=Candidate(GIVEN, *before)))["as given"][1] == state
    kept = told(solution(plan=GIVEN, objective=1500.0, runs=False))
    assert kept == {"plan": ["throughput_per_s", "outcome"], "as given, kept": ["1,500", "does not keep up"]}


@pytest.mark.parametrize(
    ("chosen", "price", "says"),
    [
        (("a",), 3.0, "hosts: a for 3, instead of b for 4; 1 (25%) is saved"),
        (("a", "b"), 5.0, "hosts: a, b for 5, instead of b for 4; 1 (25%) is added"),
        (("a",), 4.0, "hosts: a for 4, instead of b for 4"),
        (("b",), 4.0, "hosts: b for 4, as given"),
        (("a",), None, "hosts: a, instead of b"),
    ],
)
def test_hosts_have_prices_and_only_a_difference_is_saved_or_added(
    chosen: tuple[str, ...], price: float | None, says: str
) -> None:
    hosts = HostsChosen(chosen=chosen, given=("b",), pinned=(), bears=None, binds="")
    assert list(chosen_plan.on_hosts(hosts, price, None if price is None else 4.0)) == [says]


def test_placements_stand_under_the_plan_that_they_are_of() -> None:
    text = "\n".join(shown(chosen_plan.placements("job", GIVEN, solution(), "rlas")))
    assert "as given" in text and "by rlas" in text and "b" in text


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {},
            "feasible: 7 plans estimated, 90 placements weighed in the search, in 0.50 s; no plan that keeps up can be",
        ),
        ({"simulated": 6, "weighed": 0}, "feasible: 6 plans simulated, in 0.50 s"),
        ({"runs": False}, "; no plan can be more than 10.0% better"),
        ({"runs": False, "fulfils": False}, "feasible, but does not keep up: 7 plans"),
        ({"fulfils": False}, "feasible, but not as required: 7 plans"),
        ({"status": Status.OPTIMAL, "among": "any number of subtasks", "bound": 2000.0}, "optimal (any number of"),
    ],
)
def test_what_is_weighed_is_no_plan_and_a_bound_says_of_what_it_is(more: dict[str, object], says: str) -> None:
    words = chosen_plan.claim(solution(**more))
    assert says in words
    assert "0.0%" not in words.replace("10.0%", "")


def test_sources_and_sinks_that_leave_a_host_or_come_to_one_are_named_in_a_remedy_that_can_be_copied() -> None:
    query = chain([{"kind": "map", "name": "m"}], 10.0).query

    def moved(source: str, m: str, sink: str) -> str | None:
        given, plan = (
            ExecutionPlan.model_validate({"placement": {name: [*hosts] for name, hosts in places.items()}})
            for places in ({"source": "ab", "m": "a", "sink": "c"}, {"source": source, "m": m, "sink": sink})
        )
        return chosen_plan.moved_ends(query, given, plan)

    for places, ends in {
        ("ab", "a", "c"): None,
        ("baa", "bc", "c"): None,
        ("aa", "a", "c"): "source",
        ("ab", "a", "ca"): "sink",
        ("c", "a", "a"): "source,sink",
    }.items():
        words = moved(*places)
        assert words is None if ends is None else words is not None and words.endswith(f"--pin {ends}")
