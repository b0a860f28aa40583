"""What pages say of the papers follows from their rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from papers.albic import collocating, fig5, said
from papers.albic import grid as balancing
from papers.briskstream import fig14, planners, scaling
from papers.costream import fig9, fig10, fig11, generalising, judging
from papers.costream import planners as choosers
from papers.enorm import consolidation, fig12, fig13, fig16, fusing, punctuations
from papers.enorm import fig9 as fig9_of_enorm
from papers.enorm import fig10 as fig10_and_11
from papers.interface import ExperimentResult, Table, items
from papers.registry import EXPERIMENTS
from papers.shapes import against
from papers.writing import page
from scenarios.files.documents import plain
from twin.version import VERSION

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def verdicts(rows: list[dict[str, str]]) -> list[str]:
    return [row["verdict"] for row in rows]


def test_a_gain_beside_its_range_differs_and_another_server_is_not_compared() -> None:
    rows = [
        {"application": "WC", "server": "A", "planner": planner, "gain": gain}
        for planner, gain in (("RLAS_fix(L)", 0.2), ("RLAS_fix(U)", 6.0))
    ]
    assert verdicts(planners.belief_shapes(rows)) == ["agrees", "differs", "not comparable"]


def test_one_better_random_plan_makes_the_difference() -> None:
    row = {"better": 0, "best_again": 0.99, "plans": 1000}
    assert verdicts(fig14.shapes([row])) == ["agrees"]
    assert verdicts(fig14.shapes([row, row | {"better": 1, "best_again": 1.01}])) == ["differs"]


def line(model: str, median: float | None, accuracy: float, seed: int) -> dict[str, object]:
    found: dict[str, object] = {"model": model, "training_seed": seed, "backpressured_accuracy": accuracy}
    return found | {f"{metric}_q50": median for metric in ("throughput_per_s", "e2e_latency_s")}


def test_models_are_compared_seed_by_seed_and_not_without_labels() -> None:
    rows = [
        line(judging.PAPERS, 1.1, 0.9, 1),
        line(judging.FLAT, 1.2, 0.95, 1),
        line(judging.PAPERS, 1.3, 0.97, 2),
        line(judging.FLAT, 1.4, 0.96, 2),
    ]
    found = {row["what"].split(":")[0]: row for row in judging.rivals(rows)[:-1]}
    assert found["T"]["verdict"] == "agrees" and found["T"]["ours"].startswith("2 of 2")
    assert found["RO"]["verdict"] == "differs" and found["RO"]["ours"].startswith("1 of 2")
    assert found["Lp"]["verdict"] == found["S"]["verdict"] == "not comparable"


def test_plans_that_are_no_faster_differ_and_latencies_that_do_not_exist_are_endless() -> None:
    def rows(ours: float | None, flat: float) -> list[dict[str, object]]:
        pairs = ((choosers.PAPER, ours), (choosers.FLAT, flat))
        return [
            {"type": name, "planner": planner, "speed_up": value}
            for name in ("linear", "2-way join", "all")
            for planner, value in pairs
        ]

    assert verdicts(fig9.shapes(rows(2.0, 1.5)))[:3] == ["agrees"] * 3
    assert verdicts(fig9.shapes(rows(None, 1.5)))[:2] == ["agrees"] * 2
    assert verdicts(fig9.shapes(rows(1.0, 1.0)))[:2] == ["differs"] * 2


def test_monitoring_that_is_sooner_than_the_papers_differs() -> None:
    row = {"slow_down": 100.0, "overhead_s": 80.0}
    assert verdicts(fig10.shapes([row, row | {"overhead_s": None}]))[:2] == ["agrees"] * 2
    assert verdicts(fig10.shapes([row, {"slow_down": 0.9, "overhead_s": 40.0}]))[:2] == ["differs"] * 2


def test_fine_tuning_is_judged_without_rehearsal_and_chains_by_their_order() -> None:
    def tuned(learned: str, *medians: float) -> dict[str, object]:
        cells = {f"chain{length}_q50": value for length, value in zip((2, 3, 4), medians, strict=True)}
        return {"model": judging.PAPERS, "learned": learned, **cells}

    before, after = tuned("no chains", 1.2, 1.6, 2.3), tuned("and 300 chains", 1.1, 1.1, 1.2)
    rehearsed = tuned("and 300 chains with rehearsal", 9.0, 9.0, 9.0)
    assert verdicts(fig11.shapes([before, after, rehearsed]))[:2] == ["agrees"] * 2
    assert verdicts(fig11.shapes([tuned("no chains", 2.3, 1.6, 1.0), after]))[:2] == ["differs"] * 2


def test_chains_and_ranges_are_judged_by_the_papers_own_extremes() -> None:
    def chain(model: str, median: float, right: float) -> dict[str, object]:
        return {"queries": median, "model": model, "throughput_per_s_q50": median, "success_right": right}

    rising = [chain(model, each, 1.0) for each in (1.1, 1.3, 1.9) for model in (judging.PAPERS, judging.FLAT)]
    assert verdicts(generalising.chain_shapes(rising))[-2:] == ["agrees", "differs"]

    def beyond(model: str, name: str, median: float) -> dict[str, object]:
        medians = {f"{metric}_q50": median for metric in ("throughput_per_s", "processing_latency_s")}
        return {"model": model, "range": f"{name}: of something", **medians}

    for slow, verdict in ((1.5, "agrees"), (1.1, "differs")):
        rows = [
            beyond(model, name, median)
            for name, median in (("weaker-cpu", 1.2), ("weaker-latency", slow))
            for model in (judging.PAPERS,)
        ] + [beyond(generalising.PUBLISHED, "weaker-cpu", 1.6), beyond(generalising.PUBLISHED, "weaker-latency", 3.2)]
        assert verdicts(generalising.range_shapes(rows))[:2] == [verdict] * 2


def test_remote_memory_is_the_main_reason_where_it_is_half_of_each_gap() -> None:
    def verdict(*without: float) -> str:
        rows = [{"server": "A", "of_ideal": 0.8, "without_of_ideal": share} for share in without]
        return verdicts(scaling.gap_shapes([*rows, {"server": "A", "of_ideal": 1.1, "without_of_ideal": 1.1}]))[1]

    assert verdict(0.91, 0.95) == "agrees"
    assert verdict(0.91, 0.81) == "differs" and verdict() == "differs"


def test_a_search_above_flux_differs_and_so_do_answers_that_solving_longer_betters() -> None:
    cell = {"before": 20.0, "flux": 1.5, "search": 0.5, "milp": 0.5, "cpu_s": 0.1}
    assert verdicts(balancing.shapes([cell, cell | {"flux": 0.5}])) == ["agrees"] * 2
    assert verdicts(balancing.shapes([cell, cell | {"flux": 0.4, "milp": -1.0}])) == ["differs"] * 2


def test_scale_in_that_is_never_even_or_takes_twice_as_long_differs() -> None:
    def rows(integrated: dict[str, float | None]) -> list[dict[str, object]]:
        first = {"kind": "scale-in first", "tolerable": 11, "mean": 18.0, "rounds": 10}
        return [{"kind": "integrated", "tolerable": 8, "mean": 6.0, "rounds": 12} | integrated, first]

    assert verdicts(fig5.shapes(rows({}))) == ["agrees"] * 2
    assert verdicts(fig5.shapes(rows({"tolerable": None, "rounds": 20}))) == ["differs"] * 2
    assert verdicts(fig5.shapes(rows({"mean": 12.0, "rounds": None}))) == ["differs"] * 2


def test_courses_of_real_job_1_are_judged_by_what_the_paper_calls_stable() -> None:
    def even(milp: float, flux: float, two: float, cpu: float) -> list[str]:
        most = {"none": 20.0, "Flux": flux, "MILP": milp, "two choices": two}
        rows = [{"way": way, "planned_most": most[way], "cpu": cpu if way == "two choices" else 40.0} for way in most]
        return verdicts(said.evenness(rows))

    for verdict, found in (("agrees", even(0.5, 2.7, 4.7, 50.0)), ("differs", even(1.5, 0.9, 0.9, 40.0))):
        assert found == [verdict, verdict, "not comparable", verdict, verdict]

    def moved(flux: float) -> list[str]:
        ways = {"Flux": flux, "MILP": 10.0}
        return verdicts(said.migrations([{"way": k, "mean": v, "at_limit": v} for k, v in ways.items()]))

    assert moved(11.0) == ["agrees"] * 2 and moved(10.0) == ["differs"] * 2
    rows = [
        {"limit": limit, "planned": mean, "planned_most": 2 * mean, "pauses": 1.0 / mean, "pause": 20.0}
        for limit, mean in (("5", 0.9), ("10", 0.6), ("no limit", 0.1))
    ]
    assert verdicts(said.limits(rows)) == ["agrees"] * 2
    assert verdicts(said.limits([row | {"planned": 0.4, "planned_most": 0.5} for row in rows])) == ["differs"] * 2
    assert verdicts(said.pauses(rows)) == ["agrees", "not comparable"]
    assert verdicts(said.pauses(rows[:2]))[0] == "differs"


def test_albic_is_compared_with_cola_job_by_job() -> None:
    def rows(albic: dict[str, float]) -> list[dict[str, object]]:
        job = {"topology": "pairs", "percent": 50}
        found = []
        for nodes in (20, 40):
            cola = {"mean": 8.0, "after_40": 55.0, "migrations": 500.0}
            found.append(job | {"nodes": nodes, "way": "COLA"} | cola)
            ours = cola | {"mean": 1.0} | (albic if nodes == 40 else {})
            found += [job | {"nodes": nodes, "way": way} | ours for way in collocating.ALBICS]
        return found

    count = len(collocating.ALBICS)
    assert verdicts(collocating.shapes(rows({}))) == ["agrees", "differs"] * count
    assert verdicts(collocating.shapes(rows({"mean": 9.0, "after_40": 60.0}))) == ["differs", "agrees"] * count


def test_real_jobs_are_compared_with_cola_and_with_what_the_paper_gives_in_words() -> None:
    def rows(**albic: float) -> list[dict[str, object]]:
        cola = {"after_1": 60.0, "after_40": 60.0, "distance": 5.0, "most": 9.0, "index": 75.0, "migrations": 190.0}
        ways = {way: {"distance": 3.0, "most": 8.0, "index": 50.0} | albic for way in said.COMPARED}
        return [{"way": way} | cola | changed for way, changed in (ways | {"COLA": {}}).items()]

    trend = 3 * len(said.COMPARED)
    for figure in (said.delays, said.weather):
        assert set(verdicts(figure(rows()))) <= {"agrees", "not comparable"}
        assert verdicts(figure(rows(after_40=30.0, most=10.0, index=101.0)))[:trend] == ["differs"] * trend
    assert verdicts(said.delays(rows(after_40=90.0)))[trend] == "differs"
    assert verdicts(said.routes(rows()))[trend:] == ["differs", "not comparable"]


def test_enorms_pauses_and_operations_are_judged_size_by_size() -> None:
    pauses = [{"disruptive": each, "instant": 0.0} for each in (0.2, 0.6, 2.0)]
    assert verdicts(fig10_and_11.pause_shapes(pauses)) == ["agrees"] * 2
    assert verdicts(fig10_and_11.pause_shapes([*pauses, {"disruptive": 2.0, "instant": 0.1}])) == ["differs"] * 2

    def operations(split: float, smooth: float, *pauses: float) -> list[str]:
        times = dict(zip(fig10_and_11.OPERATIONS, (split, 100.0, smooth), strict=True))
        rows = [
            {"what": what, "paused": pause if "disruptive" in what else 0.0, "completed": done}
            for pause in pauses
            for what, done in times.items()
        ]
        return verdicts(fig10_and_11.operation_shapes(rows))

    assert operations(31.0, 315.0, 1.0, 2.0) == ["agrees"] * 3
    assert operations(61.0, 700.0, 2.0, 2.0) == ["differs"] * 3


def test_enorms_throughput_latency_and_overhead_are_judged_by_its_words() -> None:
    def overhead(instant: float, share: float) -> list[str]:
        row = {"instant": instant, "disruptive": 1.0, "instant_share": share, "disruptive_share": 1e-4}
        return verdicts(fig12.shapes([{"keys": keys} | row for keys in fig12.KEYS]))

    assert overhead(1.05, 2e-4) == ["agrees"] * 3 and overhead(2.0, 0.1) == ["differs"] * 3

    def latency(rarely: float, often: float) -> list[str]:
        means = (400.0, rarely, often, 10.0)
        return verdicts(fig13.shapes([{"way": way, "mean": mean} for way, mean in zip(fig13.WAYS, means, strict=True)]))

    assert latency(300.0, 100.0) == ["agrees"] * 2 and latency(30.0, 40.0) == ["differs"] * 2

    def fused(cheap: float, dear: float) -> list[str]:
        rows = [{"fused": count, "faster": each} for each in (cheap, dear) for count in (0, len(fig16.STAGES))]
        return verdicts(fig16.shapes(rows))

    assert fused(3.6, 1.1) == ["agrees"] * 2 and fused(2.9, 2.9) == ["differs"] * 2

    def throughput(combined: float, split: float) -> list[str]:
        rows = [
            {"windows": windows, "keys": keys, "combined": 40.0, "split": 39.0, "ratio": 40.0 / 39.0}
            for windows in (2, 6)
            for keys in fig9_of_enorm.KEYS
        ]
        last = {"combined": combined, "split": split, "ratio": combined / split}
        return verdicts(fig9_of_enorm.shapes([*rows[:4], rows[4] | last, *rows[5:]]))

    assert throughput(39.5, 35.0) == ["agrees"] * 4 and throughput(30.0, 38.0) == ["differs"] * 4
    fit = {"form": "split", "paper_s": 512.0}
    assert verdicts(fig9_of_enorm.fit_shapes([fit | {"time_s": each} for each in (506.0, 490.0)])) == [
        "agrees",
        "differs",
    ]


def test_enorms_counts_are_judged_at_each_size() -> None:
    def fused(best: Callable[..., float], comm: float) -> list[str]:
        rows = [
            {"operators": size, "score": score, "mean": comm if (score, size) == ("COMM", 100) else value}
            for size in fusing.OPERATORS
            for score, value in {"COMM": 10.0, "PA": 9.0, "baseline": 9.0, "baseline, unfused only": 12.0}.items()
        ]
        return verdicts(fusing.shapes("the best", best, rows))

    assert fused(max, 10.0) == ["agrees", "agrees", "differs"] and fused(max, 9.0) == ["differs"] * 3
    assert fused(min, 10.0) == ["differs", "differs", "agrees"]
    hour = {"windows": consolidation.HOUR, "merged": 86, "alone": 240}
    assert verdicts(consolidation.shapes([hour])) == ["agrees"]
    assert verdicts(consolidation.shapes([hour | {"merged": 87}])) == ["differs"]
    rows = [{"rule": rule, "unlike": 0.0} for rule in punctuations.RULES]
    assert verdicts(punctuations.shapes(rows)) == ["agrees"]
    assert verdicts(punctuations.shapes([*rows, rows[0] | {"unlike": 0.002}])) == ["differs"]


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
    """Verdicts and notes are computed, and nothing is written by hand."""
    experiment, folder = EXPERIMENTS[name], RESULTS / name
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    if manifest["version"] != VERSION:
        pytest.skip("made by an earlier version")
    tables = {}
    for key, spec in experiment.tables.items():
        tables[key] = table(folder, key)
        if getattr(spec, "shapes", None):
            tables["against"] = against(spec.shapes(tables[key].rows), simulated=not experiment.about)
            assert plain(tables["against"].rows) == list(table(folder, "against").rows)
    first = next(iter(tables.values())).rows
    notes = items(experiment.notes if isinstance(experiment.notes, str) else experiment.notes(first))
    result = ExperimentResult(tables, dict.fromkeys(experiment.figures), notes, experiment.about)
    assert page(experiment, result, manifest) == (folder / "README.md").read_text(encoding="utf-8")
