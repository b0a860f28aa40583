"""`twin report`: a self-contained page on the results of a run, readable at any width."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import xml.etree.ElementTree as ET

import pytest

from figures.time_line import points
from scenarios.files import scenario_file
from scenarios.files.run_folder import UNKNOWN, read_run, write_run
from scenarios.measures import measures
from scenarios.questions.capacity import load_predicted
from scenarios.questions.kept import RunOutcome
from scenarios.questions.resources import binding, resources
from streamtwin.answers.verdict import joined, verdict
from streamtwin.cli.terminal import run_of
from streamtwin.report import MOST_ROWS, headline, run_page
from streamtwin.tables.run_tables import keeps_up, of_run, panels
from tests.commands import done, refused, twin
from tests.scenarios.questions.jobs import queue, shop
from tests.streamtwin.report_checks import measured, whole, words
from tests.streamtwin.test_job_maps import chain
from twin.errors import BadInput
from twin.events import RateChange, SlowDown
from twin.scenario import Scenario
from twin.simulation import simulate
from twin.spec import parse


@pytest.fixture(scope="module")
def shop_page() -> str:
    events = [{"kind": "slow-down", "at_s": 4, "host": "w-1", "factor": 3, "duration_s": 3},
              {"kind": "migration", "at_s": 6, "operator": "per-page", "subtask": 0, "to": "w-3"}]  # fmt: skip
    data = shop().model_dump(mode="json") | {"events": events, "description": "<b>A & B</b> of a shop"}
    job = type(shop()).model_validate(data)
    return run_page(job.name, job, simulate(job))


def test_a_page_is_whole_by_itself_and_says_what_there_is(shop_page):
    root = whole(shop_page)
    text = words(root)
    for part in (
        "The job keeps up",
        "2 events changed it",
        "<b>A & B</b> of a shop",
        "per-page",
        "slow-down",
        "Over time",
    ):
        assert part in text
    assert len(root.findall(".//{http://www.w3.org/2000/svg}svg")) == 6
    assert "simulated" in text


def test_a_browser_shows_all_of_it_at_any_width_and_fetches_nothing(shop_page, tmp_path):
    too_wide = "<!DOCTYPE html><html><body><p style='width:900px'>wide</p></body></html>"
    *pages, wide = measured([(shop_page, 1400), (shop_page, 390), (too_wide, 390)], tmp_path)
    for found in pages:
        assert found["wide"] <= found["room"]
        assert found["outside"] == found["small"] == found["cut"] == []
        assert found["drawn"] == 6
        assert found["shown"] > 500
        assert found["loaded"] == 0
    assert wide["wide"] > wide["room"] and wide["outside"]
    assert pages[0]["map"] > 0.9 * 1248  # all that the page has
    assert pages[1]["map"] > 390  # scrolls, which is said


def test_nothing_is_drawn_to_wait_before_what_makes_it_wait():
    """A queue's line rises from an event on, though queues are known only at the ends of periods."""
    job = queue(horizon_s=30, period_s=10, warmup_s=10).with_events(SlowDown(at_s=15, host="big", factor=50))
    waiting = next(panel for panel in panels(simulate(job)) if panel.levels)
    assert list(waiting.at_s) == [10, 20, 30]
    drawn = [*points(waiting, waiting.series["unread at sources"])]
    assert [at_s for at_s, _ in drawn] == [10, 15, 20, 30]
    assert drawn[0][1] == drawn[1][1] < drawn[2][1]


def test_events_are_numbered_in_the_time_lines_and_listed_below(shop_page):
    listed = [each.text for each in ET.fromstring(shop_page).iter("li")]
    assert len(listed) == 2 and listed[0].startswith("4 s: slow-down of w-1")
    assert shop_page.count('font-weight="bold">2</text>') == 5


def test_a_run_comes_back_from_its_folder_as_it_was(tmp_path):
    job = shop(horizon_s=6)
    run = simulate(job.with_events(*_slow_down(2.0)))
    write_run(run, "shop", tmp_path / "trace")
    kept = read_run(tmp_path / "trace")
    assert kept.name == "shop"
    assert kept.job.query == job.query and kept.job.plan == job.plan
    for field in dataclasses.fields(run):
        if field.name.endswith("_rows"):
            continue
        assert getattr(kept.run, field.name) == getattr(run, field.name), field.name
    assert kept.run.to_dict() == run.to_dict()
    page = run_page(*kept)
    assert words(whole(page)).split("Tables")[1].split("The scenario")[0] in words(whole(run_page("shop", job, run)))
    (tmp_path / "trace" / "result.json").unlink()
    assert UNKNOWN in words(whole(run_page(*read_run(tmp_path / "trace"))))


def _slow_down(at_s: float) -> tuple:
    return (SlowDown(at_s=at_s, host="w-1", factor=2),)


@pytest.mark.parametrize(
    ("rate_per_s", "cores", "place", "said"),
    [
        (500, 1, "big", "The job keeps up with its input. The fullest resource is operator work (5"),
        (2000, 1, "big", "The bottleneck is operator work on big (100% busy), with cores to spare there."),
        (2000, 0.5, "small", "The bottleneck is the CPU of small (100% in use), which work uses"),
    ],
)
def test_the_bottleneck_of_a_queue_is_the_one_it_must_be(rate_per_s, cores, place, said):
    job = queue(rate_per_s=rate_per_s, cores=cores)
    job = job.with_plan(job.plan.with_placement({**job.plan.placement, "work": (place,)}))
    assert said in verdict(job, simulate(job))


def test_behind_a_join_the_load_may_not_grow_as_much_as_a_resource_bears():
    """100 pairs a second come to calls that bear 200; pairs grow with the square of the load, which bears 1.41."""
    sources = [{"name": name, "kind": "source", "service_time_s": 1e-5} for name in ("left", "right")]
    pairs = {"kind": "interval-join", "left": "left", "right": "right", "lower_s": -1, "upper_s": 1, "keys": 50}
    calls = {"name": "calls", "kind": "async", "latency_s": 0.01, "latency_scv": 0, "capacity": 2}
    operators = [*sources, pairs | {"name": "pairs"}, calls, {"name": "out", "kind": "sink"}]
    ways = [("left", "pairs"), ("right", "pairs"), ("pairs", "calls"), ("calls", "out")]
    host = {"name": "h", "cpu_percent": 400, "ram_mb": 4000, "bandwidth_mbps": 1000, "latency_ms": 0}
    streams = [{"producer": producer, "consumer": consumer} for producer, consumer in ways]
    job = parse(
        Scenario,
        {
            "name": "pairs",
            "query": {"operators": operators, "streams": streams},
            "cluster": {"hosts": [host]},
            "plan": {"placement": {each["name"]: "h" for each in operators}},
            "workload": {"arrivals": {name: {"law": "poisson", "rate_per_s": 50} for name in ("left", "right")}},
        },
    )
    said = verdict(job, simulate(job))
    assert "the calls of calls" in said and "the load may grow by less, where matches of pairs grow faster" in said
    assert float(said.partition("could bear about ")[2].partition(" ")[0]) == pytest.approx(2, rel=0.05)
    assert load_predicted(job).lasting == pytest.approx(math.sqrt(2), rel=0.03)
    assert "may grow by less" not in verdict(queue(), simulate(queue(rate_per_s=500)))


def test_what_is_named_is_what_more_of_would_help():
    """The named bottleneck is the only operator that lets more through when it gets twice as fast, by brute force."""

    def unread_per_s(faster: str = "") -> float:
        data = shop(horizon_s=8).model_dump(mode="json")
        data["workload"]["arrivals"]["clicks"]["rate_per_s"] = 4000
        for operator in data["query"]["operators"]:
            if operator["name"] == faster:
                operator["service_time_s"] = (operator["service_time_s"] or 1e-4) / 2
        job = type(shop()).model_validate(data)
        run = simulate(job)
        if not faster:
            assert "The bottleneck is operator human on w-1 (" in verdict(job, run)
        return run.metrics.backpressure_per_s

    before = unread_per_s()
    assert unread_per_s("human") < 0.2 * before
    for other in ("clicks", "per-page", "match", "board"):
        assert unread_per_s(other) > 0.9 * before


def test_a_run_too_short_for_its_queues_to_fill_is_not_called_well():
    """A run in which 100 too many records a second still find room, of 1,024, is not called well."""
    short = simulate(queue(rate_per_s=1100, horizon_s=5))
    assert not short.metrics.backpressured
    said = verdict(queue(), short)
    assert said.startswith("This run is too short to say whether the job keeps up") and "keeps up with" not in said
    assert "before what is full: operator work on big" in said
    assert "does not keep up" in verdict(queue(), simulate(queue(rate_per_s=1100, horizon_s=60)))


def test_who_is_full_at_the_end_is_warned_and_only_they():
    """Of 1,000 records a second that can be served: an operator that falls behind at the end is warned of. One that has
    caught up is not; nor is one whose channel drops, which holds nobody up."""
    for first, last, falls_behind in ((500, 500, 0), (1100, 1100, 1), (500, 1080, 1), (1080, 300, 0), (800, 900, 0)):
        rise = {"kind": "rate-change", "at_s": 6, "source": "in", "rate_per_s": last}
        events = [] if first == last else [rise]
        job = queue(rate_per_s=first).with_set("engine.channel_records", 10_000).with_set("events", events)
        run = simulate(job)
        assert not run.metrics.backpressured
        told = ["work was fully used, so queues may still be filling; run longer"] * falls_behind
        assert [text for text in run.warnings if "fully used" in text] == told
        assert run.full == ("work",) * falls_behind
        assert ("too short to say" in verdict(job, run)) == bool(falls_behind)
        assert simulate(job.with_set("query.streams.in->work.overflow", "drop")).full == ()
        assert simulate(job.with_run(horizon_s=400)).metrics.backpressured == bool(falls_behind)


def test_what_is_dropped_is_told_with_its_share():
    """The report has the share that is dropped of 1,500 records a second, of which 1,000 can be served."""
    job = queue(rate_per_s=1500).with_set("query.streams.in->work.overflow", "drop")
    job = job.with_set("engine.channel_records", 50)
    run = simulate(job)
    said = re.findall(r"It drops ([\d.]+)% of all records for work \(100% busy\), at full", verdict(job, run))
    assert float(said[0]) == pytest.approx(100 / 3, abs=3)
    assert "The fullest resource that could hold it up is" in verdict(job, run)
    dropped = next(each for each in of_run("queue", run)[1].columns if each.heading == ("dropped/s",))
    assert float(dropped.cells[0]) == pytest.approx(500, rel=0.1)
    assert "drops" not in verdict(queue(), simulate(queue()))


def test_a_host_of_nothing_but_what_drops_does_not_bind():
    """A core with half more than it can bear, all the time or in the end, holds up the source where channels block, and
    nobody where they drop."""
    always = queue(rate_per_s=1500).with_set("plan.placement.work", ["small"])
    surge = {"kind": "rate-change", "at_s": 7, "source": "in", "rate_per_s": 3000}
    late = always.with_set("workload.arrivals.in.rate_per_s", 500).with_set("events", [surge])
    for job, cpu in ((always, 1.0), (late, 2 / 3)):
        for blocks in (True, False):
            job = job.with_set("query.streams.in->work.overflow", "block" if blocks else "drop")
            run = simulate(job)
            assert {host.host: host.cpu for host in run.hosts}["small"] == pytest.approx(cpu, abs=0.05)
            assert ("the CPU of small" in verdict(job, run)) == blocks
            bound = binding(resources(job, [RunOutcome(measures(run))]), job)
            assert ("CPU of small" in bound) == (blocks and not job.events), "on average"


def test_a_queue_that_grows_to_the_end_is_told_from_a_stable_one():
    """A queue that grows at 1,030 records a second for 1,000 is told from a stable one, though no broker shows it."""
    found = {}
    for rate_per_s in (900, 1030):
        job = queue(rate_per_s=rate_per_s, horizon_s=60).with_set("engine.channel_records", 10_000)
        runs = [simulate(job.with_run(seed=seed)) for seed in range(6)]
        assert not any(run.metrics.backpressured for run in runs)
        found[rate_per_s] = [run.metrics.keeps_up for run in runs]
    assert all(found[900]) and sum(found[1030]) <= 2
    said = verdict(job, runs[found[1030].index(False)])
    behind, well = runs[found[1030].index(False)], simulate(queue(rate_per_s=100))
    states = {False: (behind, "no"), True: (well, "yes"), None: (dataclasses.replace(well, full=("small",)), "unknown")}
    for state, (run, word) in states.items():
        assert (run.to_dict()["keeps_up"], keeps_up(run).partition(":")[0]) == (state, word)
        assert dict(headline(run))["keeps up"] == word
    grown = float(re.findall(r"its queues grow by ([\d.]+) records a second until the end", said)[0])
    assert abs(grown - 30) < 4 * math.sqrt((1030 + 1000) / 29.5), "four standard errors of the second half"


def test_a_plan_of_the_users_own_is_what_is_run(tmp_path):
    job = queue(horizon_s=2, warmup_s=0)
    (tmp_path / "job.yaml").write_text(scenario_file.dump(job))
    (tmp_path / "plan.yaml").write_text("placement: {in: big, work: [small, small], out: big}")
    kept = run_of(str(tmp_path / "job.yaml"), ["run.seed=4"], str(tmp_path / "plan.yaml"))
    assert kept.job.plan.placement["work"] == ("small", "small")
    again = simulate(kept.job)
    assert dataclasses.replace(again, cpu_s=0.0) == dataclasses.replace(kept.run, cpu_s=0.0)
    (tmp_path / "other.yaml").write_text("placement: {in: big, out: big}")
    with pytest.raises(BadInput, match="a plan of another query"):
        run_of(str(tmp_path / "job.yaml"), None, str(tmp_path / "other.yaml"))


def test_a_bottleneck_that_is_full_only_for_a_while_is_named_with_its_periods():
    job = queue(rate_per_s=500).with_events(RateChange(at_s=6, source="in", factor=3))
    assert "The bottleneck is operator work on big, full in 4 of 9 periods." in verdict(job, simulate(job))


def test_the_network_can_be_the_bottleneck():
    data = queue(rate_per_s=400, service_s=1e-5).model_dump(mode="json")
    data["cluster"]["hosts"][0]["bandwidth_mbps"] = 0.1
    data["plan"]["placement"]["work"] = "small"
    job = type(queue()).model_validate(data)
    assert "The bottleneck is the network card of big" in verdict(job, simulate(job))


def test_no_results_and_crashes_are_said_first():
    run = simulate(queue(rate_per_s=1e-3, horizon_s=2, warmup_s=0))
    assert verdict(queue(), run).startswith("No result reached a sink.")
    crashed = dataclasses.replace(run, crashed=True, warnings=("the job crashed: h was out of memory at 3 s",))
    assert verdict(queue(), crashed).startswith("The job crashed: h was out of memory at 3 s.")
    whole(run_page("silent", queue(), run))


def test_ten_thousand_operators_are_summed_up_and_that_is_said():
    """Ten thousand operators are summed up on the page, which says so; their rows are made up, not simulated."""
    small, count = simulate(chain(20, 2)), 10_000
    totals = small.operators[0]
    many = tuple(dataclasses.replace(totals, operator=f"o{k}", busy=k / count) for k in range(count))
    rows = tuple({**small.operator_rows[0], "operator": f"o{k}", "queueLength": k} for k in range(count))
    run = dataclasses.replace(small, operators=(*small.operators, *many), operator_rows=(*small.operator_rows, *rows))
    page = run_page("many", chain(20, 2), run)
    assert f"Of 10,020 operators the {MOST_ROWS} fullest are listed." in words(whole(page))
    assert "o9999" in page and "o9000" not in page
    assert len(page) < 200_000


def test_an_answer_becomes_a_page(tmp_path):
    (tmp_path / "shop.yaml").write_text(scenario_file.dump(shop(horizon_s=4)))
    vary = ("--vary", "workload.arrivals.clicks.rate_per_s=200,4k", "--metric", "records_in")
    few = ("--replications", "2", "--workers", "1")
    done("whatif", tmp_path / "shop.yaml", *vary, *few, "--out", tmp_path / "answer")
    made = twin("report", tmp_path / "answer", "--out", tmp_path / "a.html", "--json")
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["page"] == str(tmp_path / "a.html")
    root = whole((tmp_path / "a.html").read_text())
    assert "Of 3 variants, 2 keep up in all of 2 runs: 'as given'" in words(root)
    assert "records_in: " in words(root) and "clicks.rate_per_s 4,000" in words(root)
    assert root.find(".//img").get("src").startswith("data:image/png;base64,")


def test_what_cannot_be_reported_is_refused_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    assert "holds no run" in refused("report", tmp_path / "empty")
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / "question.json").write_text('{"command": "whatif"}')
    assert "not answered yet" in refused("report", tmp_path / "asked")
    (tmp_path / "asked" / "answer.json").write_text("[]")
    assert "does not hold the answer" in refused("report", tmp_path / "asked")
    (tmp_path / "notes.html").write_text("my notes")
    assert "is no report" in refused("report", "word-count", "--out", "notes.html")
    assert (tmp_path / "notes.html").read_text() == "my notes"
    assert "need a scenario" in refused("report", tmp_path / "empty", "--seed", 3)
    assert "did you mean 'smart-grid'" in refused("report", "smart-gird")
    assert "notes.html is a file" in refused("report", "word-count", "--out", "notes.html/page.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["asked", "empty", "notes.html"]


def test_a_damaged_folder_is_refused(tmp_path):
    write_run(simulate(queue(horizon_s=2, warmup_s=0)), "queue", tmp_path / "trace")
    (tmp_path / "trace" / "hosts.parquet").write_bytes(b"x")
    assert "hosts.parquet is not as it was written" in refused(
        "report", tmp_path / "trace", "--out", tmp_path / "p.html"
    )
    assert not (tmp_path / "p.html").exists()


def test_a_page_is_replaced_by_a_newer_one(tmp_path):
    page = tmp_path / "queue.html"
    job = tmp_path / "queue.yaml"
    job.write_text(scenario_file.dump(queue(horizon_s=2, warmup_s=0)))
    for seed in (1, 2):
        done("report", job, "--out", page, "--seed", seed)
        assert f"seed {seed}, " in page.read_text()


def test_a_policy_controls_the_run_of_a_page(tmp_path):
    job = tmp_path / "queue.yaml"
    job.write_text(scenario_file.dump(queue(horizon_s=2, warmup_s=0)))
    done("report", job, "--policy", "ds2", "--set", "policy.margin=0.1", "--out", tmp_path / "page.html")
    assert "margin: 0.1}" in (tmp_path / "page.html").read_text()
    assert "did you mean 'ds2'" in refused("report", job, "--policy", "ds3")


def test_a_board_of_optimizers_is_a_page(tmp_path):
    job = tmp_path / "queue.yaml"
    job.write_text(scenario_file.dump(queue(horizon_s=2, warmup_s=0.5)))
    judged = ("--optimizers", "as-given,random", "--replications", 2, "--references", 1, "--estimates", 5)
    done("validate", job, *judged, "--out", tmp_path / "board")
    done("report", tmp_path / "board", "--out", tmp_path / "board.html")
    root = whole((tmp_path / "board.html").read_text())
    assert "is the best of 2: a mean regret of" in words(root)


def test_words_are_joined_as_in_a_sentence():
    assert [joined(each) for each in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]


def test_results_of_long_windows_are_drawn_a_window_and_none_is_lost():
    """Between the ends of its windows of a minute a job gives no results: the picture has them all over the minute."""
    job = scenario_file.load("clicks").with_set("workload.arrivals.topic.rate_per_s", 50)
    run = simulate(job.with_run(horizon_s=240, warmup_s=0, period_s=5))
    drawn, given = (panels(run, by_window=each) for each in (True, False))
    shown, told = (each[0].series["results"] for each in (drawn, given))
    assert 0.0 in told[12:] and all(each > 0.0 for each in shown[12:])
    assert sum(shown) == pytest.approx(sum(told)) and sum(told) > 0.0
    minutes = [shown[at : at + 12] for at in range(0, 48, 12)]
    assert [len(set(each)) for each in minutes] == [1] * 4
    assert None in given[2].series["p99"][12:] and None not in drawn[2].series["p99"][12:]
    for name in ("arriving", "taken up"):
        assert drawn[0].series[name] == given[0].series[name]
    plain = simulate(queue(horizon_s=5, warmup_s=0))
    assert panels(plain) == panels(plain, by_window=False)


def test_results_of_a_window_at_the_end_are_those_of_all_of_it():
    """A run that ends 5 s after a window of a minute has the window's results there: a minute's, not those of 5 s."""
    job = scenario_file.load("clicks").with_set("workload.arrivals.topic.rate_per_s", 50)
    run = simulate(job.with_run(horizon_s=245, warmup_s=0, period_s=5))
    shown, told = (panels(run, by_window=each)[0].series["results"] for each in (True, False))
    assert told[-1] > 0.0
    assert shown[-1] == pytest.approx(told[-1] * 5 / 60)


def test_gaps_of_a_sink_that_waits_for_no_window_are_drawn():
    """Another sink of the job waits for windows of 2 s, over which the gaps of this one would not be seen."""
    run = simulate(scenario_file.load("checkpointed-shop").with_run(horizon_s=10, warmup_s=0, period_s=0.5))
    assert panels(run) == panels(run, by_window=False)
