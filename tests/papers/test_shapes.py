"""Tests that pages say of the papers what follows from their rows."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from pkgutil import resolve_name

import pytest

from papers.albic import real_jobs, synthetic
from papers.enorm import migration, simple_job
from papers.interface import ExperimentResult, Table, against, items
from papers.registry import EXPERIMENTS
from papers.running import page
from scenarios.files.documents import document
from twin import VERSION

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def verdicts(rows: list[dict[str, str]]) -> list[str]:
    return [row["verdict"] for row in rows]


def test_a_search_above_flux_differs_and_so_do_answers_that_solving_longer_betters() -> None:
    cell = {"before": 20.0, "flux": 1.5, "search": 0.5, "milp": 0.5, "cpu_s": 0.1}
    assert verdicts(synthetic.balance_shapes([cell, cell | {"flux": 0.5}])) == ["agrees"] * 2
    assert verdicts(synthetic.balance_shapes([cell, cell | {"flux": 0.4, "milp": -1.0}])) == ["differs"] * 2


def test_courses_of_real_job_1_are_judged_by_what_the_paper_calls_stable() -> None:
    def even(milp: float, flux: float, two: float, cpu: float) -> list[str]:
        most = {"none": 20.0, "Flux": flux, "MILP": milp, "two choices": two}
        rows = [{"way": way, "planned_most": most[way], "cpu": cpu if way == "two choices" else 40.0} for way in most]
        return verdicts(real_jobs.evenness(rows))

    for verdict, found in (("agrees", even(0.5, 2.7, 4.7, 50.0)), ("differs", even(1.5, 0.9, 0.9, 40.0))):
        assert found == [verdict, verdict, "not comparable", verdict, verdict]

    def moved(flux: float) -> list[str]:
        ways = {"Flux": flux, "MILP": 10.0}
        return verdicts(real_jobs.migrations([{"way": k, "mean": v, "at_limit": v} for k, v in ways.items()]))

    assert moved(11.0) == ["agrees"] * 2 and moved(10.0) == ["differs"] * 2
    rows = [
        {"limit": limit, "planned": mean, "planned_most": 2 * mean, "pauses": 1.0 / mean, "pause": 20.0}
        for limit, mean in (("5", 0.9), ("10", 0.6), ("no limit", 0.1))
    ]
    assert verdicts(real_jobs.limits(rows)) == ["agrees"] * 2
    assert verdicts(real_jobs.limits([row | {"planned": 0.4, "planned_most": 0.5} for row in rows])) == ["differs"] * 2
    assert verdicts(real_jobs.pauses(rows)) == ["agrees", "not comparable"]
    assert verdicts(real_jobs.pauses(rows[:2]))[0] == "differs"


def test_albic_is_compared_with_cola_job_by_job() -> None:
    def rows(albic: dict[str, float]) -> list[dict[str, object]]:
        job = {"topology": "pairs", "percent": 50}
        found = []
        for nodes in (20, 40):
            cola = {"mean": 8.0, "after_40": 55.0, "migrations": 500.0}
            found.append(job | {"nodes": nodes, "way": "COLA"} | cola)
            ours = cola | {"mean": 1.0} | (albic if nodes == 40 else {})
            found += [job | {"nodes": nodes, "way": way} | ours for way in synthetic.ALBICS]
        return found

    count = len(synthetic.ALBICS)
    assert verdicts(synthetic.collocation_shapes(rows({}))) == ["agrees", "differs"] * count
    assert (
        verdicts(synthetic.collocation_shapes(rows({"mean": 9.0, "after_40": 60.0}))) == ["differs", "agrees"] * count
    )


def test_real_jobs_are_compared_with_cola_and_with_what_the_paper_gives_in_words() -> None:
    def rows(**albic: float) -> list[dict[str, object]]:
        cola = {"after_1": 60.0, "after_40": 60.0, "distance": 5.0, "most": 9.0, "index": 75.0, "migrations": 190.0}
        ways = {way: {"distance": 3.0, "most": 8.0, "index": 50.0} | albic for way in real_jobs.COMPARED}
        return [{"way": way} | cola | changed for way, changed in (ways | {"COLA": {}}).items()]

    trend = 3 * len(real_jobs.COMPARED)
    for figure in (real_jobs.delays, real_jobs.weather):
        assert set(verdicts(figure(rows()))) <= {"agrees", "not comparable"}
        assert verdicts(figure(rows(after_40=30.0, most=10.0, index=101.0)))[:trend] == ["differs"] * trend
    assert verdicts(real_jobs.delays(rows(after_40=90.0)))[trend] == "differs"
    assert verdicts(real_jobs.routes(rows()))[trend:] == ["differs", "not comparable"]


def test_enorms_throughput_and_overhead_are_judged_by_its_words() -> None:
    def overhead(instant: float, share: float) -> list[str]:
        row = {"instant": instant, "disruptive": 1.0, "instant_share": share, "disruptive_share": 1e-4}
        return verdicts(migration.cpu_shapes([{"keys": keys} | row for keys in migration.KEYS]))

    assert overhead(1.05, 2e-4) == ["agrees"] * 3 and overhead(2.0, 0.1) == ["differs"] * 3

    def throughput(combined: float, split: float) -> list[str]:
        rows = [
            {"windows": windows, "keys": keys, "combined": 40.0, "split": 39.0, "ratio": 40.0 / 39.0}
            for windows in (2, 6)
            for keys in simple_job.KEYS
        ]
        last = {"combined": combined, "split": split, "ratio": combined / split}
        return verdicts(simple_job.shapes([*rows[:4], rows[4] | last, *rows[5:]]))

    assert throughput(39.5, 35.0) == ["agrees"] * 4 and throughput(30.0, 38.0) == ["differs"] * 4
    fit = {"form": "split", "paper_s": 512.0}
    assert verdicts(simple_job.fit_shapes([fit | {"time_s": each} for each in (506.0, 490.0)])) == [
        "agrees",
        "differs",
    ]


def test_every_experiment_of_a_paper_says_whether_it_agrees() -> None:
    silent = {
        name
        for name, experiment in EXPERIMENTS.items()
        if not any(getattr(spec, "shapes", None) for spec in experiment.tables.values())
    }
    assert {EXPERIMENTS[name].source for name in silent} <= {"a what-if of ours"}


def table(folder: Path, name: str) -> Table:
    found = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return Table(found["title"], found["columns"], tuple(found["rows"]))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_page_is_what_follows_from_its_rows(name: str) -> None:
    """Verdicts and notes of a page are computed from its rows, in pages of any version that has the columns."""
    experiment, folder = EXPERIMENTS[name], RESULTS / name
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    earlier = manifest["version"] != VERSION
    if earlier and not (folder / "against.json").exists():
        pytest.skip("made by an earlier version")
    tables = {}
    for key, spec in experiment.tables.items():
        tables[key] = table(folder, key)
        if getattr(spec, "shapes", None):
            tables["against"] = against(spec.shapes(tables[key].rows), simulated=not experiment.about)
            found, written = document(tables["against"].rows), list(table(folder, "against").rows)
            assert found == written or (earlier and verdicts(found) == verdicts(written))
    if earlier:
        return
    first = next(iter(tables.values())).rows
    notes = items(experiment.notes if isinstance(experiment.notes, str) else experiment.notes(first))
    result = ExperimentResult(tables, dict.fromkeys(experiment.figures), notes, experiment.about)
    assert page(experiment, result, manifest) == (folder / "README.md").read_text(encoding="utf-8")


def test_every_figure_that_an_experiment_names_is_there() -> None:
    """Figures are imported when they are drawn, which only slow runs of experiments do."""
    calls = [
        node
        for path in (RESULTS.parents[1] / "papers").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("columns", "samples")
    ]
    named = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    assert len(named) > 5
    assert not [name for name in named if not callable(resolve_name(f"figures.{name}"))]
