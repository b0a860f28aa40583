"""Demo: the whole loop, small, in a process of its own; and a folder that only ever loses what the demo wrote."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

from scenarios.files import scenario_file
from streamtwin.demo.loop import EARLIER, OWN, PICTURES, DemoOutcome, Settings, page, prepare
from streamtwin.demo.story import PROMISE, PROMISE_S, SCENARIO, JudgedPlan, added, tell
from twin.errors import BadInput
from twin.randomness import child_seed
from twin.rates.model import RateModel
from twin.simulation import simulate

ROOT = Path(__file__).resolve().parents[2]
SMALL = """
import sys
from pathlib import Path
from streamtwin.demo.loop import Settings, play
from streamtwin.demo.loop import prepare, write
from scenarios.executing import Lines
planning = dict(estimates=60, search_runs=4, replications=2)
settings = Settings(runs=40, members=1, patience=2, master="local[2]", **planning)
out = Path(sys.argv[1])
prepare(out, settings)
write(out, play(out, settings, Lines(print)))
"""


def test_prepare_takes_a_new_or_empty_folder_and_its_own(tmp_path):
    settings = Settings()
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new" / "deep", tmp_path / "empty"):
        prepare(out, settings)
        assert json.loads((out / "manifest.json").read_text())["finished"] is False
        prepare(out, settings)


def test_prepare_leaves_what_it_did_not_write(tmp_path):
    out = tmp_path / "demo"
    prepare(out, Settings())
    (out / "notes.txt").write_text("mine")
    for name in OWN:
        (out / name).mkdir()
        (out / name / "old").write_text("old")
    for name in EARLIER:
        (out / name).write_text("of an earlier version")
    prepare(out, Settings(seed=1))
    assert {path.name for path in out.iterdir()} == {"notes.txt", "manifest.json"}


@pytest.mark.parametrize(("finished", "seed", "kept"), [(False, 0, True), (False, 1, False), (True, 0, False)])
def test_only_an_unfinished_corpus_of_the_same_settings_is_resumed(tmp_path, finished, seed, kept):
    prepare(tmp_path, Settings())
    (tmp_path / "corpus").mkdir()
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "finished": finished}))
    prepare(tmp_path, Settings(seed=seed))
    assert (tmp_path / "corpus").exists() is kept


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"made_by": "someone"}', '{"made_by": "twin demo"}'])
def test_prepare_refuses_a_foreign_folder_and_touches_nothing(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    (tmp_path / "corpus").mkdir()
    with pytest.raises(BadInput, match="was not made by"):
        prepare(tmp_path, Settings())
    assert (tmp_path / "corpus").exists()
    assert (tmp_path / "manifest.json").read_text() == text
    with pytest.raises(BadInput, match="was not made by"):
        prepare(tmp_path / "manifest.json", Settings())


def test_prepare_removes_a_link_and_not_what_it_points_to(tmp_path):
    out, elsewhere = tmp_path / "demo", tmp_path / "precious"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("keep")
    prepare(out, Settings())
    (out / "model").symlink_to(elsewhere)
    prepare(out, Settings(seed=1))
    assert (elsewhere / "file").read_text() == "keep"


class Page(HTMLParser):
    """Open tags, images and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        self.sources += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def judged(plan_by: str, p99_s: float | None, *, half: float = 0.0, keeps_up: bool = True, at: str = "") -> JudgedPlan:
    return JudgedPlan(
        plan_by=plan_by, effort="5 estimates", plan_s=0.5, p99_s=p99_s, p99_ci95_s=half, mean_s=p99_s,
        kept=10 * (keeps_up and p99_s is not None and p99_s <= PROMISE_S), runs=10, keeps_up=keeps_up, beside=None,
        placement={"detect-1": at or plan_by},
    )  # fmt: skip


GIVEN = judged("as given", 2 * PROMISE_S)


@pytest.mark.parametrize(
    ("before", "new", "says"),
    [
        ([], GIVEN, "the promise of 30 ms is broken"),
        ([GIVEN], judged("search", 0.02), "better than as given (60 ms); the promise is kept"),
        ([GIVEN], judged("rates", 0.05), "better than as given (60 ms); the promise of 30 ms is broken"),
        (
            [GIVEN],
            judged("rates", 0.05, half=0.02),
            "nothing for sure: the difference to as given (60 ms) may be chance",
        ),
        ([GIVEN], judged("rule", 1.7), "nothing: as given (60 ms) is better"),
        ([GIVEN], judged("rule", 0.02, keeps_up=False), "the job does not keep up, and as given (60 ms) is better"),
        ([GIVEN, judged("rule", 0.05)], judged("rates", 0.05, at="rule"), "the same plan as rule"),
        ([judged("rule", None, keeps_up=False)], judged("rates", 0.02), "better than rule (-); the promise is kept"),
    ],
)
def test_what_a_step_added_follows_from_its_figures(before, new, says):
    assert says in added([*before, new])


@pytest.mark.parametrize("p99_s", [None, 0.01, 1.0])
def test_a_promise_is_kept_by_plans_that_keep_up_within_it(p99_s):
    assert judged("a", p99_s).keeps_promise is (p99_s == 0.01)
    assert not judged("a", p99_s, keeps_up=False).keeps_promise


def test_the_promise_is_the_one_that_the_job_is_described_by():
    assert f"within {PROMISE} in 99 of 100 cases" in scenario_file.load(SCENARIO).description


def test_plans_are_told_by_runs_and_the_search_is_no_worse_than_any_start():
    """Told small: the rate model in place of a learned one, which is any cost model to the story."""
    scenario, lines = scenario_file.load(SCENARIO).with_run(horizon_s=10.0, warmup_s=2.0), list[str]()
    story = tell(scenario, RateModel(), estimates=100, runs=12, replications=3, seed=1, say=lines.append)
    assert len(story.judged) == len(story.plans) == len(lines) == 6
    assert story.judged[0].placement == {f"detect-{number}": "cloud" for number in range(1, 7)}
    for one, plan in zip(story.judged, story.plans, strict=True):
        p99s = [
            simulate(scenario.with_plan(plan).with_run(seed=child_seed(1, index))).metrics.e2e_latency_s.p99
            for index in range(3)
        ]
        assert one.p99_s == pytest.approx(sum(p99s) / 3)
        assert one.kept == sum(p99 <= PROMISE_S for p99 in p99s)
    searched = story.judged[-1]
    for start in story.judged[:-1]:
        assert not start.clearly_better(searched), f"{start.plan_by} was a start of the search"
    assert story.best_plan == story.plans[story.judged.index(story.best)]
    assert ("keeps the promise" in story.verdict) is story.best.keeps_promise


def test_a_page_is_read_at_the_width_of_a_phone_and_shows_the_job_on_its_hosts():
    """On a narrow page each table cell has its heading beside it, so that no table needs its width."""
    scenario = scenario_file.load(SCENARIO).with_run(horizon_s=6.0, warmup_s=2.0)
    story = tell(scenario, RateModel(), estimates=20, runs=2, replications=2, seed=1, say=lambda _: None)
    error = {"metric": "e2e_latency_s", "model": "flat-raw", "rows": 10, "q50": 1.2, "q95": 3.0, "accuracy": None}
    table = SimpleNamespace(rows=[SimpleNamespace(**error)], runs=10)
    run = simulate(scenario)
    outcome = DemoOutcome(
        settings=Settings(), story=story, given=run, best=run, training_rows=1, accuracy=table, predictions={},
        curve={}, seconds={"training": 1.0},
    )  # fmt: skip
    text = page(outcome, dict.fromkeys(PICTURES, b"x"), Path("demo"))
    tags = Page()
    tags.feed(text)
    assert tags.open == [] and "$" not in text
    assert text.count("<svg") == 2 and "detect-1" in text[text.index("<svg") :]
    body = text[text.index("<body") :]
    assert body.count("<td") == body.count("<td data-of=") > 50
    assert "@media (max-width: 40rem)" in text and "content: attr(data-of)" in text
    assert "Flat Vector" in body
    contradicted = [each for each in story.judged if each.beside is not None and not each.beside.agrees]
    assert ("Careful: " in body) == bool(contradicted)


@pytest.mark.slow
@pytest.mark.spark
def test_the_whole_loop(tmp_path):
    out = tmp_path / "demo"
    done = subprocess.run([sys.executable, "-c", SMALL, str(out)], cwd=ROOT, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} == {*OWN, "manifest.json"}
    assert json.loads((out / "manifest.json").read_text())["finished"] is True
    with (out / "plans.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 6
    assert float(rows[0]["p99_s"]) > PROMISE_S  # as given, the way to the cloud and back is too long
    best = scenario_file.load(str(out / "best-plan.yaml"))
    assert best.query == scenario_file.load(SCENARIO).query
    assert (out / "promise.png").read_bytes().startswith(b"\x89PNG")
    page = Page()
    text = (out / "report.html").read_text()
    page.feed(text)
    assert page.open == []
    assert len(page.sources) == len(PICTURES)
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)  # self-contained
    assert "simulated" in text
    assert "$" not in text
