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
from scenarios.planning.validation import ValidationRow
from streamtwin.demo.folder import OWN, prepare
from streamtwin.demo.loop import DemoOutcome, Settings
from streamtwin.demo.page import credit, page, unlearned
from twin.errors import BadInput
from twin.simulation import simulate

ROOT = Path(__file__).resolve().parents[2]
SMALL = """
import sys
from pathlib import Path
from streamtwin.demo.loop import Settings, play
from streamtwin.demo.folder import prepare, write
from scenarios.executing import Lines
planning = dict(budget=60, sim_budget=4, replications=2, references=2)
settings = Settings(runs=60, members=1, patience=2, master="local[2]", **planning)
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


def row(optimizer: str, simulated: float, *, behind: bool = False, ci95: float = 0.0) -> ValidationRow:
    plan = scenario_file.load("smart-grid").plan.model_dump(mode="json")["placement"]
    state = {"simulated": simulated, "ci95": ci95, "backpressured": behind, "success": True}
    told = {"predicted": simulated, "regret": 0.0, "plan_s": 0.5, "evaluations": 10, "references": 3, "plan": plan}
    return ValidationRow(
        scenario="s", optimizer=optimizer, cost_model="m", objective="e2e_latency_s", status="feasible", **state, **told
    )


@pytest.mark.parametrize(
    ("learned", "others", "says"),
    [
        (
            row("l", 1.0),
            [row("search, rate model", 1.003)],
            "added nothing here: without it a plan as good was found",
        ),
        (row("l", 1.0, ci95=0.2), [row("heuristic", 1.1)], "added nothing"),
        (
            row("l", 1.0),
            [row("search, rate model", 0.8)],
            "added nothing here: without it a better plan was found",
        ),
        (row("l", 1.0), [row("search, rate model", 1.5)], "without learning the best plan found was worse"),
        (
            row("l", 1.0),
            [row("search, rate model", 0.5, behind=True)],
            "no plan chosen without learning keeps up",
        ),
        (row("l", 9.0, behind=True), [row("heuristic", 1.5)], "learning made it worse"),
        (row("l", 9.0, behind=True), [row("search, 40 simulations", 1.5)], ""),
    ],
)
def test_learning_gets_the_credit_that_it_deserves(learned, others, says):
    assert says in credit(learned, unlearned([*others, row("search, learned model", 0.1)])).lower()


def test_a_page_is_read_at_the_width_of_a_phone_and_shows_the_query_on_its_hosts():
    """On a narrow page each table cell has its heading beside it, so that no table needs its width."""
    scenario = scenario_file.load("smart-grid")
    rows = [row("naive (as in the file)", 40.0, behind=True), row("search, learned model", 1.0)]
    error = {"metric": "e2e_latency_s", "model": "flat-raw", "rows": 10, "q50": 1.2, "q95": 3.0, "accuracy": None}
    table = SimpleNamespace(rows=[SimpleNamespace(**error)], runs=10)
    outcome = DemoOutcome(
        settings=Settings(), scenario=scenario, naive=simulate(scenario), learned=simulate(scenario), training_rows=1,
        accuracy=table, predictions={}, curve={}, rows=rows, seconds={"training": 1.0},
    )  # fmt: skip
    text = page(outcome, dict.fromkeys(("regret.png", "predictions.png", "training.png"), b"x"), Path("demo"))
    tags = Page()
    tags.feed(text)
    assert tags.open == [] and "$" not in text
    assert text.count("<svg") == 2 and "house-average" in text[text.index("<svg") :]
    body = text[text.index("<body") :]
    assert body.count("<td") == body.count("<td data-of=") > 50
    assert "@media (max-width: 40rem)" in text and "content: attr(data-of)" in text
    assert "e2e_latency_s" not in body and "Flat Vector" in body


@pytest.mark.slow
@pytest.mark.spark
def test_the_whole_loop(tmp_path):
    out = tmp_path / "demo"
    done = subprocess.run([sys.executable, "-c", SMALL, str(out)], cwd=ROOT, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} == {*OWN, "manifest.json"}
    assert json.loads((out / "manifest.json").read_text())["finished"] is True
    with (out / "regret.csv").open() as table:
        rows = list(csv.DictReader(table))
    assert len(rows) == 6
    assert rows[0]["backpressured"] == "True"  # the naive plan of this scenario cannot keep up
    assert min(float(row["regret"]) for row in rows) >= 0
    assert scenario_file.load(str(out / "learned-plan.yaml")).query == scenario_file.load("smart-grid").query
    assert (out / "regret.png").read_bytes().startswith(b"\x89PNG")
    page = Page()
    text = (out / "report.html").read_text()
    page.feed(text)
    assert page.open == []
    assert len(page.sources) == 3
    assert all(source.startswith("data:image/png;base64,") for source in page.sources)  # self-contained
    assert "simulated" in text
    assert "$" not in text
