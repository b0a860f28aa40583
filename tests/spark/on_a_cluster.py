"""A question and a corpus on one Spark master, as a program: python -m tests.spark.on_a_cluster MASTER FOLDER"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from scenarios.executing import Lines
from scenarios.learning import CorpusRecipe
from scenarios.measures import Measures
from scenarios.questions.bench import Bench, Samples, Wanted, replicate
from scenarios.questions.kept import Kept
from spark.corpus import write_corpus
from spark.executor import OnSpark, fan_out
from spark.session import session
from tests.scenarios.questions.jobs import shop
from twin.simulation import simulate
from twin.work import Executor

RUNS = 4


def asked(made_by: Executor, kept: Kept | None = None) -> Samples:
    """Answer on two variants of a job with a join, from runs of about half a second."""
    cases = [shop(horizon_s=6), shop(horizon_s=6).with_policy("ds2")]
    with Bench(made_by, kept=kept) as bench:
        return replicate(bench, cases, ["e2e_latency_s.mean"], Wanted(RUNS), 5, Lines(lambda _text: None))


def measured(found: Samples) -> list[list[Measures]]:
    """Measures of the runs of each variant."""
    return [[dict(outcome.measures) for outcome in outcomes] for outcomes in found.outcomes]


class OnThis(OnSpark):
    """Executor on a session that goes on."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark.sparkContext.master)
        self._spark = spark


def corpus(spark: SparkSession, folder: Path) -> None:
    """Writes a corpus of eight runs in four chunks, and prints where workers have our packages from."""
    make, spec = CorpusRecipe(8, seed=3, scenario="edge-filter", horizon_s=12.0).plan()
    write_corpus(spark, folder, spec, make, simulate, chunk_runs=2)
    fan_out(spark, lambda _: sys.modules[Executor.__module__].__file__, range(4), lambda _, where: print(where))


if __name__ == "__main__":
    at, place = sys.argv[1], Path(sys.argv[2])
    (place / "question").mkdir()
    with session(at) as running:
        found = asked(OnThis(running), Kept(place / "question"))
        (place / "answer.json").write_text(json.dumps(measured(found)))
        corpus(running, place / "corpus")
