"""Tests of data cards: they count what is in deployments and labels, in any order, and name every failure."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scenarios.spaces.generator import COSTREAM, random_scenario
from scenarios.spaces.registry import SPACES
from spark.corpus import write_corpus
from spark.pipeline import write_card, write_dataset
from tests.spark.fakes import Broken, make
from twin.corpus.card import card, card_text, spread
from twin.corpus.manifest import CorpusSpec
from twin.errors import BadInput
from twin.scenario import RunSettings, Scenario

RECIPE = {"command": "twin corpus OUT --runs 40", "seed": 0}
SCENARIOS = [random_scenario(SPACES["costream"], seed, RunSettings()) for seed in range(40)]


def run_rows(scenarios: list[Scenario]) -> list[dict[str, Any]]:
    """Rows of runs of which every tenth failed."""
    return [
        {
            "run": f"run{index:02d}",
            "status": "failed" if index % 10 == 9 else "ok",
            "error": f"ValueError: no {index} luck (join.py:9)" if index % 10 == 9 else None,
            "cpu_s": 0.5,
            "deployment": scenario.deployment.model_dump_json(exclude_none=True),
        }
        for index, scenario in enumerate(scenarios)
    ]


def label_rows(scenarios: list[Scenario]) -> list[dict[str, Any]]:
    found = []
    for index in [index for index in range(len(scenarios)) if index % 10 != 9]:
        latency_s = None if index % 4 == 0 else 0.5 + index
        costs = {"throughput_per_s": float(index), "processing_latency_s": latency_s, "e2e_latency_s": latency_s}
        flags = {"backpressured": index % 2 == 0, "success": index % 4 != 0, "records_out": 10 * index}
        found.append({"run": f"run{index:02d}", **costs, **flags})
    return found


def test_parameters_are_those_of_the_deployments() -> None:
    found = card(RECIPE, run_rows(SCENARIOS), label_rows(SCENARIOS))
    parameters = found["parameters"]
    sources = Counter(len(each.query.sources) for each in SCENARIOS)
    assert parameters["sources"]["shares"] == {str(n): count / 40 for n, count in sorted(sources.items())}
    filters = [each for scenario in SCENARIOS for each in scenario.query.operators if each.kind == "filter"]
    assert parameters["filter selectivity"]["max"] == max(each.selectivity for each in filters)
    assert parameters["filter function"]["values"] == len(filters)
    used = [{places[0] for places in scenario.plan.placement.values()} for scenario in SCENARIOS]
    assert parameters["RAM of hosts in use"]["values"] == sum(map(len, used))
    assert {float(ram) for ram in parameters["RAM of hosts in use"]["shares"]} <= set(COSTREAM.ram_mb)
    assert parameters["hosts in use"]["shares"] == spread([len(each) for each in used])["shares"]
    for each in parameters.values():
        assert "shares" not in each or sum(each["shares"].values()) == pytest.approx(1)


def test_labels_are_grouped_and_failures_named() -> None:
    found = card(RECIPE, run_rows(SCENARIOS), label_rows(SCENARIOS))
    assert found["runs"] == {"total": 40, "simulated": 36, "failed": 4, "simulation_cpu_s": 20.0}
    assert found["failures"] == [{"error": "ValueError: no 9 luck (join.py:9)", "runs": 4, "first": "run09"}]
    every = found["labels"].pop("all")
    labels = label_rows(SCENARIOS)
    successful = [row for row in labels if row["success"]]
    assert every["rows"] == 36 == sum(group["rows"] for group in found["labels"].values())
    assert every["successful"] == len(successful) / 36
    assert every["few_results"]["< 200"] == sum(row["records_out"] < 200 for row in successful) / len(successful)
    medians = [row["e2e_latency_s"] for row in successful]
    assert min(medians) <= every["e2e_latency_s"]["p1"] <= every["e2e_latency_s"]["p99"] <= max(medians)


def test_the_order_of_runs_does_not_matter() -> None:
    runs, labels = run_rows(SCENARIOS), label_rows(SCENARIOS)
    assert card(RECIPE, runs, labels) == card(RECIPE, runs[::-1], labels[::-1])


def test_the_text_shows_parameters_labels_and_failures() -> None:
    text = card_text(card(RECIPE, run_rows(SCENARIOS), label_rows(SCENARIOS)))
    assert "twin corpus OUT --runs 40" in text
    assert "| ValueError: no 9 luck (join.py:9) | 4 | run09 |" in text
    assert "| 3-way join | e2e_latency_s |" in text
    assert card_text(card(RECIPE, run_rows(SCENARIOS)[9:10], [])).count("No run was simulated.") == 1


@pytest.mark.spark
def test_the_card_of_a_corpus_agrees_with_its_dataset(spark: SparkSession, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    write_corpus(spark, corpus, CorpusSpec(runs=7, seed=7, space="fake"), make, Broken(raising=frozenset({3})))
    path = write_card(spark, corpus, "twin corpus OUT --runs 7")
    found = json.loads((corpus / "card.json").read_text())
    assert found["recipe"]["config_hash"]
    assert path.read_text().startswith("# Data card")
    assert "twin corpus OUT --runs 7" in path.read_text()
    summary = write_dataset(spark, [corpus], tmp_path / "dataset")
    assert (found["runs"]["total"], found["runs"]["failed"]) == (summary.runs, summary.failed) == (7, 1)
    assert found["labels"]["all"]["rows"] == summary.rows
    rates = [1, 2, 3, 4, 5, 6, 7]
    assert found["parameters"]["event rate, linear"]["shares"] == {str(rate): pytest.approx(1 / 7) for rate in rates}


@pytest.mark.spark
def test_an_incomplete_corpus_has_no_card(spark: SparkSession, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    write_corpus(spark, corpus, CorpusSpec(runs=4, seed=7, space="fake"), make, Broken(), chunk_runs=2)
    next((corpus / "chunks").glob("chunk-*1")).rename(tmp_path / "gone")
    with pytest.raises(BadInput, match="holds 2 of its 4 runs"):
        write_card(spark, corpus, "twin corpus OUT --runs 4")
    assert not list(corpus.glob("card.*"))
