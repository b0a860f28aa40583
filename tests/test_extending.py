"""Tests of the guide to additions: a copy of the house gets each file and the lines that the guide names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.twin.toys.a_third import third
from twin.partitionings import Partitioning

ROOT = Path(__file__).resolve().parents[1]
TOYS = Path(__file__).parent / "twin" / "toys"
QUESTION = '''
@dataclass(frozen=True, kw_only=True)
class FindTypical(OfScenario):
    """What a metric typically is: its mean over runs."""

    metric: str = option("e2e_latency_s", "The metric.", "NAME")
    replications: int = option(5, "Runs.", "N", min=2)

    command = "typical"
    shown_by = "typical_told.told"
    form = Form("What is typical?", 99, {"metric": FormField("metric", "e2e_latency_s")})

    def ask(self, scenario: Scenario, runs: Runs) -> Any:
        from scenarios.questions.kept import key
        from scenarios.measures import full_name
        from scenarios.questions.typical import typical

        metric = full_name(self.metric, scenario, runs.named("metric", "--metric"))
        with runs.bench({"command": self.command, "case": key(scenario), "seed": scenario.run.seed}) as bench:
            return typical(scenario, metric, self.replications, bench)


QUESTIONS: '''
ADDED = {
    "twin/arrivals/sawtooth.py": {
        "twin/workload.py": [
            ("from twin.arrivals.laws", "from twin.arrivals.sawtooth import Sawtooth\nfrom twin.arrivals.laws"),
            ("Constant | Poisson |", "Constant | Poisson | Sawtooth |"),
        ]
    },
    "optimizers/policies/once.py": {
        "optimizers/policies/__init__.py": [
            ('        "relieve": ', '        "once": "optimizers.policies.once:OnceSpec",\n        "relieve": '),
        ]
    },
    "scenarios/questions/typical.py": {},
    "streamtwin/answers/typical_told.py": {
        "streamtwin/questions/runs.py": [
            ("QUESTIONS: ", QUESTION),
            ("...] = (\n    WhatIf,", "...] = (\n    FindTypical,\n    WhatIf,"),
        ]
    },
    "streamtwin/cli/importing_rate.py": {
        "streamtwin/cli/app.py": [
            ("calibrating, importing, ", "calibrating, importing, importing_rate, "),
            ('    "metrics": ', '    "rate": importing_rate.rate,\n    "metrics": '),
        ]
    },
}
"""Edits for each new file: by changed file, a text and its replacement, which make the new name known."""
PARTITIONING = (TOYS / "a_third.py").read_text(encoding="utf-8").partition("import Ends, Partitioning\n\n\n")[2]
EDITED = {
    "twin/partitionings.py": [
        ("HASH = ", f"{PARTITIONING}HASH = "),
        ("        REBALANCE,\n", "        REBALANCE,\n        A_THIRD,\n"),
    ]
}
"""Edits without a new file."""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    house = tmp_path_factory.mktemp("house")
    for package in ("twin", "models", "optimizers", "scenarios", "streamtwin", "spark", "figures"):
        shutil.copytree(ROOT / package, house / package, ignore=shutil.ignore_patterns("*.pyc"))
    for file in ADDED:
        shutil.copy(next(ROOT.glob(f"tests/**/toys/{Path(file).name}")), house / file)
    for lines in (EDITED, *ADDED.values()):
        for place, changes in lines.items():
            text = (house / place).read_text(encoding="utf-8")
            for before, after in changes:
                assert before in text
                text = text.replace(before, after, 1)
            (house / place).write_text(text, encoding="utf-8")
    return house


def printed(house: Path, *words: str | Path) -> str:
    """What Python prints in the house."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=house,
        env={**os.environ, "PYTHONPATH": str(house)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def found(house: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(printed(house, TOYS / "use_additions.py").splitlines()[-1])
    return answer


def test_an_arrival_law_is_a_file_and_a_name(found: dict[str, Any]) -> None:
    """The new law has 100 a second for the first half of 2 s and 300 for the second: 200 on average."""
    assert found["arrived"] == pytest.approx(200.0 * found["seconds"], rel=0.02)
    assert found["law in the schema"]


def test_a_partitioning_is_a_function_and_a_name(found: dict[str, Any]) -> None:
    """One subtask of four bears 125 a second: with a third of the records for it the job bears 375, dealt evenly
    500."""
    assert found["first of four"] == pytest.approx(1 / 3, abs=0.02)
    assert found["borne_per_s"] == pytest.approx([375.0, 375.0], rel=0.04)


def test_what_is_dealt_in_turn_has_even_shares() -> None:
    with pytest.raises(ValueError, match=r"'thirds' deals in turn, .* for 2 subtasks are uneven \(0.333, 0.667\)"):
        Partitioning("thirds", third)


def test_a_policy_is_a_file_and_a_name(found: dict[str, Any]) -> None:
    assert found["reasons"] == ["once"]
    assert "once" in found["policies"]


def test_an_importer_is_a_file_and_a_name(found: dict[str, Any]) -> None:
    assert found["imported"] == 70.0


ASKED = """
import json, streamtwin as st
from scenarios.files.scenario_file import load
from streamtwin.serve.page import questions
job = load("word-count").with_run(horizon_s=5, warmup_s=1)
answer = st.typical(job, replications=2)
print(json.dumps([answer.document, answer.sentences, list(questions(job))[-1]]))
"""


def test_a_question_is_three_files(house: Path) -> None:
    """Two new files and a class make the command, its JSON with a schema, the folder, the page and the function."""
    words = ("typical", "word-count", "--horizon", "5", "--set", "run.warmup_s=1", "--replications", "2", "--quiet")
    told = json.loads(printed(house, "-m", "streamtwin", *words, "--json", "--out", "answer"))
    document, (sentence,), form = json.loads(printed(house, "-c", ASKED))
    assert document == told and told["metric"] == "e2e_latency_s.mean" and len(told["values"]) == 2
    assert printed(house, "-m", "streamtwin", *words, "--out", "answer").strip() == sentence
    assert set(json.loads(printed(house, "-m", "streamtwin", "schema", "typical"))["required"]) == set(told)
    assert "What is typical?" in form and 'name="metric"' in form
    printed(house, "-m", "streamtwin", "report", "answer", "--quiet")
    assert sentence in (house / "answer.html").read_text(encoding="utf-8")
