"""`twin optimize` and `twin validate` as a user calls them: programs, sockets, and which plans may be chosen."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenarios.files import scenario_file
from scenarios.planning import planner
from scenarios.planning.planner import optimize
from streamtwin.questions.plans import PlanRules
from tests.commands import answer, done, refused, twin
from tests.optimizers.judged_jobs import spread
from tests.scenarios.questions.jobs import queue
from twin.errors import BadInput
from twin.simulation import simulate


def test_a_plan_that_is_good_is_kept_and_said_so(tmp_path: Path) -> None:
    path = tmp_path / "spread.yaml"
    path.write_text(scenario_file.dump(spread()), encoding="utf-8")
    told = twin("optimize", path, "--pin", "src,out", "--out", tmp_path / "kept.yaml")
    assert told.returncode == 0, told.stderr
    assert "nothing better than the given plan was found" in told.stderr
    assert "as given, kept" in told.stdout
    assert scenario_file.load(str(tmp_path / "kept.yaml")).plan == scenario_file.load(str(path)).plan


def test_the_library_leaves_meters_where_they_are_and_the_given_plan_stands_beside() -> None:
    found = answer("optimize", "smart-grid")
    assert found["placement"]["meters"] == "edge-1"
    assert found["given"]["backpressured"] is True
    assert found["given"]["predicted"] > found["predicted"]


def test_the_plans_that_were_simulated_are_counted() -> None:
    asked = ("optimize", "edge-filter", "--set", "run.horizon_s=3", "--set", "run.warmup_s=1")
    found = answer(*asked, "--budget", "6runs")
    assert (found["optimizer"], found["search"]["runs"]) == ("searched", 6)
    assert found["cost_model"] == f"runs of {found['plans_simulated']} plans"
    assert 1 < found["plans_simulated"] <= 6 and found["search"]["path"][0]["found_by"] == "as given"
    assert answer(*asked)["plans_simulated"] == 0


SHORT = ("--set", "run.horizon_s=8", "--set", "run.period_s=2", "--set", "workload.arrivals.gates.period_s=4")
LOADED = ["rates", "rates:twice", "rates:peak"]


def test_plans_by_rates_for_each_load_are_starts_where_runs_decide_and_rows_of_the_table() -> None:
    asked = ("optimize", "rush-hour", *SHORT, "--optimizer", "milp")
    found = answer(*asked, "--budget", "12runs")
    proposed = ("as given", "governor", "local-search by rates", "milp by rates", "local-search by rates:twice")
    assert set(found["starts"]) >= {*proposed} or found["search"]["runs"] == 12
    kept = [each["predicted"] for each in found["starts"].values() if not each["backpressured"] and each["success"]]
    assert kept and found["keeps_up"] and found["predicted"] <= 1.01 * min(kept)
    told = done(*asked, "--budget", "12runs")
    assert all(f"by {name} " in told for name in found["starts"] if name != "as given")
    peak = answer(*asked, "--cost-model", "rates:peak")
    assert (peak["cost_model"], peak["status"], peak["bound"], peak["starts"]) == ("rates:peak", "feasible", None, {})
    assert peak["given"]["predicted"] > answer(*asked)["given"]["predicted"], (
        "the given plan is judged at the peak, too"
    )


def test_plans_by_rates_for_each_load_are_rows_wherever_plans_are_compared() -> None:
    options = ("--optimizers", "milp,as-given", "--replications", 1, "--references", 0)
    steady = ("edge-filter", "--set", "run.horizon_s=3", "--set", "run.warmup_s=1")
    for job, loads in ((("rush-hour", *SHORT), LOADED), (steady, LOADED[:1])):
        rows = [(row["optimizer"], row["cost_model"]) for row in answer("validate", *job, *options)["rows"]]
        assert rows == [*(("milp", name) for name in loads), ("as-given", "rates")]


def test_hosts_are_allowed_operators_pinned_and_rules_kept() -> None:
    found = answer(
        *("optimize", "smart-grid", "--pin", "house-average,compare", "--allow", "parse=edge-2,edge-3"),
        *("--parallelism", "fixed"),
    )
    placement = found["placement"]
    assert (placement["house-average"], placement["compare"]) == ("edge-1", "edge-1")
    assert placement["parse"] in ("edge-2", "edge-3")


def test_a_proof_says_of_what() -> None:
    said = " ".join(done("optimize", "edge-filter", "--optimizer", "exhaustive").split())
    assert "can be more than" in said and "sensors, dashboard pinned" in said  # the given plan is as good as the best


def test_every_row_of_validate_keeps_to_the_space() -> None:
    found = answer(
        *("validate", "edge-filter", "--optimizers", "as-given,random,local-search,first-fit", "--allow"),
        *("hot=edge-1", "--replications", "1", "--references", "2"),
    )
    rows = {row["optimizer"]: row for row in found["rows"]}
    for name in ("random", "local-search"):
        assert rows[name]["plan"] == {"sensors": "edge-1", "hot": "edge-1", "dashboard": "cloud-1"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--pin", "metres"], "did you mean 'meters'"),
        (["--parallelism", "free"], "rlas or milp-hosts"),
        (["--optimizer", "exhaustive", "--estimates", "12"], "exhaustive estimates every plan; leave out --estimates"),
        (["--optimizer", "governor", "--allow", "parse=edge-3"], "cannot keep to the space: in its plan, parse"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(options, says, tmp_path: Path) -> None:
    assert says in refused("optimize", "smart-grid", *options, "--out", tmp_path / "plan.yaml")
    assert not (tmp_path / "plan.yaml").exists()


def test_a_number_of_estimates_is_refused_wherever_an_optimizer_keeps_to_none() -> None:
    says = "exhaustive estimates every plan; leave out --estimates"
    for command in (("validate", "smart-grid"), ("benchmark", "--families", "numa")):
        assert says in refused(*command, "--optimizers", "milp,exhaustive", "--estimates", "12")
    with pytest.raises(BadInput, match=says):
        optimize(spread(), "exhaustive", estimates=12)
    assert optimize(spread(), "exhaustive").evaluations > 12


@pytest.mark.parametrize(
    ("allow", "says"),
    [(["parse"], "write OP=HOST"), (["parse="], "write OP=HOST"), (["parse=a", "parse=b"], "names 'parse' twice")],
)
def test_hosts_that_cannot_be_read(allow: list[str], says: str) -> None:
    with pytest.raises(BadInput, match=says):
        PlanRules(allow=allow).space()


def test_the_answer_is_json_and_a_scenario_that_loads(tmp_path):
    out = tmp_path / "plan.yaml"
    found = answer("optimize", "edge-filter", "--optimizer", "milp", "--out", out)
    assert found["status"] == "feasible", "the bound is that of a relaxation"
    assert 0.9 * found["predicted"] < found["bound"] <= found["predicted"]
    assert scenario_file.load(str(out)).plan.model_dump(mode="json")["placement"] == found["placement"]


@pytest.mark.slow
def test_more_than_all_machines_bear_is_said():
    """Rates that need more cores than all machines have are named as infeasible."""
    found = answer("optimize", "numa-cluster", "--optimizer", "milp-hosts")
    assert found["status"] == "infeasible"
    assert found["message"] == "no plan was found that bears 1.2 times the offered rates"


@pytest.mark.slow
def test_a_plan_for_eight_sockets_is_written_and_says_what_stops_it(tmp_path: Path) -> None:
    out = tmp_path / "plan.yaml"
    found = answer("optimize", "briskstream-fd", "--optimizer", "rlas", "--time-limit", "3", "--out", out)
    assert found["objective"] == "throughput_per_s" and found["status"] == "feasible"
    assert 0.0 < found["predicted"] <= found["bound"]
    assert found["gap"] == pytest.approx(found["bound"] / found["predicted"] - 1)
    assert "more than this plan bears" in found["message"] and "limited by" in found["message"]
    planned = scenario_file.load(str(out))
    assert sum(len(places) for places in planned.plan.placement.values()) > 100
    assert {place.host for name in planned.plan.placement for place in planned.plan.locations(name)} == {"server"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("optimizer", "old", "new", "says"),
    [
        ("rlas", "map, service_time_s: 4.17e-07", "map, service_time_s: 0", "operator 'parser' costs nothing"),
        ("rlas-fix-l", "predictor, partitioning: hash", "predictor, partitioning: broadcast",
         "parser -> predictor (broadcast) is not; use rebalance"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned_is_one_line(tmp_path: Path, optimizer: str, old: str, new: str, says: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(scenario_file.dump(scenario_file.load("briskstream-fd")).replace(old, new), encoding="utf-8")
    assert says in refused("optimize", path, "--optimizer", optimizer, "--out", tmp_path / "plan.yaml")
    assert not (tmp_path / "plan.yaml").exists()


def test_what_no_run_tells_is_not_simulated() -> None:
    """A price, which is no outcome of a run, is not simulated; a latency is."""
    given = scenario_file.load("edge-filter")
    assert planner.simulated(given, given.plan, "price") is None
    found = planner.simulated(given, given.plan, "processing_latency_s")
    assert found == simulate(given).metrics.value("processing_latency_s")


def test_a_plan_does_not_keep_up_though_the_run_ends_before_its_channels_are_full(tmp_path: Path) -> None:
    """A plan for 1,000 of 1,100 records a second does not keep up, though runs end before its channels are full."""
    path = tmp_path / "deep.yaml"
    path.write_text(
        scenario_file.dump(queue(1100, horizon_s=40, period_s=10).with_set("engine.channel_records", 100_000))
    )
    for asked in (("--estimates", 20), ("--budget", "2runs"), ("--optimizer", "milp")):
        found = answer("optimize", path, *asked)
        assert found["keeps_up"] is False, asked
        assert found["given"]["backpressured"] is True
    proved = answer("validate", path, "--optimizers", "as-given", "--replications", 1, "--references", 0)
    assert [row["backpressured"] for row in proved["rows"]] == [True]
