"""`twin dry-run --failover`: what a region costs against the whole job, whenever between two checkpoints it fails."""

from __future__ import annotations

import pytest

from scenarios.files import scenario_file
from scenarios.questions.change_options import ChangeOptions, planned
from scenarios.questions.dry_run import finer, trials
from streamtwin.answers.dry_run import told
from tests.commands import answer, refused
from tests.scenarios.questions.test_dry_run import tried
from tests.twin.checkpointed import lines
from twin.errors import BadInput
from twin.scenario import RunSettings, Scenario
from twin.spec import parse


def job(**checkpoints: object) -> Scenario:
    """Two lines of 100 tuples a second, each served in five milliseconds."""
    settings = RunSettings(horizon_s=26, period_s=1)
    data = dict(Scenario.of(lines(2, service_s=5e-3), settings))
    return parse(Scenario, data | {"checkpoints": {"interval_s": 4, "sync_ms": 0} | checkpoints})


def test_a_region_costs_its_part_of_what_the_job_costs() -> None:
    """Down for 2 s, back to a checkpoint 1 s before: of one line 3 s x 100 tuples wait, of both twice as many."""
    answer = tried(job(), ChangeOptions(fail=["h1"], at_s=13, recover_after_s=2, failover="both"))
    region, full, saved = (
        {name: each.mean for name, each in getattr(answer, part).items()} for part in ("measures", "full", "saved")
    )
    assert (region["restarted"], full["restarted"], saved["restarted"]) == (3, 6, 3)
    assert (region["redone_s"], full["redone_s"], saved["redone_s"]) == (1, 1, 0)
    assert region["lag"] == pytest.approx(300, abs=20)
    assert full["lag"] == pytest.approx(600, abs=40)
    assert region["catch_up_s"] == pytest.approx(2 + 300 / (200 - 100), abs=0.3)
    assert region["twice"] == pytest.approx(100, abs=5)
    assert full["twice"] == pytest.approx(200, abs=10)
    assert region["latency_s"] == pytest.approx(3, rel=0.05)
    title = told(answer).tables[0].title
    assert "fail h1 at 13 s" in str(title)


@pytest.mark.parametrize("costing", [True, False])
def test_when_nobody_says_when_it_is_anywhere_in_an_interval(costing: bool) -> None:
    """Work that is done again is half an interval on average, whether or not the scenario says what checkpoints cost;
    at a given time it is the same in all runs."""
    given = job() if costing else Scenario.of(lines(2), RunSettings(horizon_s=26, period_s=1, checkpoint_interval_s=4))
    change = ChangeOptions(fail=["h1"], recover_after_s=1)
    plan = planned(finer(given), change)
    assert "at 8.67 to 12.67 s" in plan.words
    assert [trial.at_s for trial in trials(plan, 4)] == pytest.approx([9.17, 10.17, 11.17, 12.17])
    answer = tried(given, change)
    assert sorted(answer.measures["redone_s"].values) == pytest.approx([1.67, 3.67])
    assert tried(given, change._replace(at_s=13.0)).measures["redone_s"].values == (1, 1)


def test_a_short_run_leaves_half_of_its_rest_to_catch_up() -> None:
    plan = planned(finer(job().with_run(horizon_s=9)), ChangeOptions(fail=["h1"]))
    assert (plan.at_s, plan.spread_s) == (3.0, 3.0)


def test_a_job_that_waits_to_the_end_does_nothing_again() -> None:
    """Nothing restarts, so that no result comes twice and no work is done again; nothing can be said of a recovery."""
    change = ChangeOptions(fail=["h1"], at_s=13, lost="wait")
    known = {name: each.mean for name, each in tried(job(), change).measures.items()}
    assert (known["twice"], known.get("restarted", 0), known.get("redone_s", 0)) == (0, 0, 0)
    assert known["pause_s"] is None
    assert planned(finer(job()), change).words == "fail h1 at 13 s, lost: the job waits for it to the end"
    with pytest.raises(BadInput, match="--recover-after: with --lost wait the job never runs again"):
        planned(finer(job()), change._replace(recover_after_s=5))


@pytest.mark.slow
def test_exactly_once_pays_in_latency_instead_of_doubles() -> None:
    """Back from 15 s to 12 s and up at 18 s, where a checkpoint is due, behind 600 tuples that take 5 ms each."""
    answer = tried(job(sinks="exactly-once"), ChangeOptions(fail=["h1"], at_s=15, recover_after_s=3))
    known = {name: each.mean for name, each in answer.measures.items()}
    assert known["twice"] == 0
    assert known["latency_s"] == pytest.approx(18 + 600 * 5e-3 - 12, abs=0.2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (ChangeOptions(fail=["h1"], failover="regions"), "did you mean 'region'"),
        (ChangeOptions(migrate=["m[0]=h1"], failover="full"), "give --fail HOST"),
    ],
)
def test_what_cannot_be_is_refused(change: ChangeOptions, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        planned(job(), change)


def test_without_checkpoints_there_are_no_regions() -> None:
    with pytest.raises(BadInput, match="has no checkpoints"):
        planned(Scenario.of(lines(2)), ChangeOptions(fail=["h1"], failover="both"))


@pytest.mark.slow
def test_the_command_puts_both_side_by_side(tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(scenario_file.dump(job().with_run(horizon_s=12)))
    asked = ["dry-run", file, "--fail", "h1", "--recover-after", 1, "--replications", 2, "--workers", 1]
    assert answer(*asked, "--failover", "both")["full"]["restarted"]["mean"] == 6
    assert "did you mean" in refused(*asked, "--failover", "ful")
