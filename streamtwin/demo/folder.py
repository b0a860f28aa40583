"""Folder of the demo: recognised by its manifest; only files that the demo itself wrote are replaced."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from figures.learning import learning_curve, predicted_vs_simulated
from figures.plans import placement_regret
from scenarios.files import scenario_file
from scenarios.files.documents import as_csv
from scenarios.files.run_folder import png, writing
from scenarios.planning.validation import ValidationRow
from streamtwin.demo.loop import DemoOutcome, Settings, learned_plan
from streamtwin.demo.page import page
from twin.errors import BadInput
from twin.files import parse_json, write_text
from twin.version import VERSION

MANIFEST = "manifest.json"
MADE_BY = "twin demo"
KEPT = "corpus"
"""Part of an unfinished demo that the next one of the same settings uses again."""
REPORT = "report.html"
PLAN = "learned-plan.yaml"
OWN = (
    KEPT,
    "dataset",
    "model",
    "naive-plan.yaml",
    PLAN,
    "regret.csv",
    "regret.png",
    "predictions.png",
    "training.png",
    REPORT,
)


def prepare(out: Path, settings: Settings) -> None:
    """Makes `out` ready for the demo: it must be new, empty, or the demo's own, and is cleared of an earlier demo.

    A corpus of the same settings stays if that demo did not finish. Raises BadInput if `out` holds anything else.
    """
    found = _manifest(out)
    if found is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} was not made by '{MADE_BY}', so it is left alone; name another folder with --out")
    resume = found is not None and not found["finished"] and found["about"] == _about(settings)
    for name in OWN:
        if not (resume and name == KEPT):
            _remove(out / name)
    with writing(out, "name another folder with --out"):
        out.mkdir(parents=True, exist_ok=True)
        _write_manifest(out, settings, finished=False)


def write(out: Path, outcome: DemoOutcome) -> None:
    """Writes the table, the pictures, the plans and the report, and last the manifest of a finished demo."""
    rows = outcome.rows
    pictures = {
        "regret.png": png(placement_regret(regret_table(rows), "end-to-end latency")),
        "predictions.png": png(predicted_vs_simulated(outcome.predictions, "end-to-end latency [s]")),
        "training.png": png(learning_curve(outcome.curve)),
    }
    for name, picture in pictures.items():
        (out / name).write_bytes(picture)
    (out / "regret.csv").write_text(as_csv([asdict(row) for row in rows]), encoding="utf-8")
    (out / "naive-plan.yaml").write_text(scenario_file.dump(outcome.scenario), encoding="utf-8")
    (out / PLAN).write_text(scenario_file.dump(outcome.scenario.with_plan(learned_plan(rows))), encoding="utf-8")
    (out / REPORT).write_text(page(outcome, pictures, out), encoding="utf-8")
    _write_manifest(out, outcome.settings, finished=True)


def regret_table(rows: Sequence[ValidationRow]) -> dict[str, list[Any]]:
    """Table that `figures.plans` draws."""
    nan = float("nan")
    return {
        "plan": [row.optimizer for row in rows],
        "latency_s": [nan if row.simulated is None else row.simulated for row in rows],
        "ci95_s": [row.ci95 or 0.0 for row in rows],
        "backpressured": [bool(row.backpressured) for row in rows],
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
