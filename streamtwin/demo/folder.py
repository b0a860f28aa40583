"""Folder of the demo: recognised by its manifest; only files that the demo itself wrote are replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from figures.answers import search_path
from figures.plans import learning_curve, plans_beside_a_promise, predicted_vs_simulated
from scenarios.files import scenario_file
from scenarios.files.documents import as_csv
from scenarios.files.run_folder import png, writing
from streamtwin.demo.loop import DemoOutcome, Settings
from streamtwin.demo.page import page
from streamtwin.demo.story import PROMISE_S, JudgedPlan
from twin.errors import BadInput
from twin.files import parse_json, write_text
from twin.version import VERSION

MANIFEST = "manifest.json"
MADE_BY = "twin demo"
KEPT = "corpus"
"""Part of an unfinished demo that the next one of the same settings uses again."""
REPORT = "report.html"
GIVEN, PLAN = "given-plan.yaml", "best-plan.yaml"
TABLE = "plans.csv"
PICTURES = ("promise.png", "search.png", "predictions.png", "training.png")
OWN = (KEPT, "dataset", "model", GIVEN, PLAN, TABLE, *PICTURES, REPORT)
EARLIER = ("naive-plan.yaml", "learned-plan.yaml", "regret.csv", "regret.png")
"""What demos of earlier versions left, which goes when a demo is made anew."""


def prepare(out: Path, settings: Settings) -> None:
    """Makes `out` ready for the demo: it must be new, empty, or the demo's own, and is cleared of an earlier demo.

    A corpus of the same settings stays if that demo did not finish. Raises BadInput if `out` holds anything else.
    """
    found = _manifest(out)
    if found is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} was not made by '{MADE_BY}', so it is left alone; name another folder with --out")
    resume = found is not None and not found["finished"] and found["about"] == _about(settings)
    for name in (*OWN, *EARLIER):
        if not (resume and name == KEPT):
            _remove(out / name)
    with writing(out, "name another folder with --out"):
        out.mkdir(parents=True, exist_ok=True)
        _write_manifest(out, settings, finished=False)


def write(out: Path, outcome: DemoOutcome) -> None:
    """Writes the table, the pictures, the plans and the report, and last the manifest of a finished demo."""
    story = outcome.story
    told = story.searched.told
    figures = (
        plans_beside_a_promise(promise_table(story.judged), PROMISE_S, "latency of 99 of 100 stops"),
        search_path(told.table, told.runs, "p99 of a stop [s]"),
        predicted_vs_simulated(outcome.predictions, "end-to-end latency [s]"),
        learning_curve(outcome.curve),
    )
    pictures = {name: png(figure) for name, figure in zip(PICTURES, figures, strict=True)}
    for name, picture in pictures.items():
        (out / name).write_bytes(picture)
    (out / TABLE).write_text(as_csv([asdict(each) for each in story.judged]), encoding="utf-8")
    (out / GIVEN).write_text(scenario_file.dump(story.scenario), encoding="utf-8")
    (out / PLAN).write_text(scenario_file.dump(story.scenario.with_plan(story.best_plan)), encoding="utf-8")
    (out / REPORT).write_text(page(outcome, pictures, out), encoding="utf-8")
    _write_manifest(out, outcome.settings, finished=True)


def promise_table(judged: Sequence[JudgedPlan]) -> dict[str, list[Any]]:
    """Table that `figures.plans` draws."""
    nan = float("nan")
    return {
        "plan": [each.plan_by for each in judged],
        "latency_s": [nan if each.p99_s is None else each.p99_s for each in judged],
        "ci95_s": [each.p99_ci95_s or 0.0 for each in judged],
        "backpressured": [not each.keeps_up for each in judged],
    }


def _about(settings: Settings) -> dict[str, Any]:
    return {"version": VERSION, **asdict(settings)}


def _manifest(out: Path) -> dict[str, Any] | None:
    try:
        found = parse_json((out / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(found, dict) and found.get("made_by") == MADE_BY and {"finished", "about"} <= found.keys()
    return found if ours else None


def _write_manifest(out: Path, settings: Settings, *, finished: bool) -> None:
    body = {"made_by": MADE_BY, "finished": finished, "about": _about(settings)}
    write_text(out / MANIFEST, json.dumps(body, indent=2) + "\n")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
