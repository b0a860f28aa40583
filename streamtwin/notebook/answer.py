"""What-if questions from Python: variants on common random numbers, as a data frame with intervals and words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scenarios.executing.chosen import executor
from scenarios.executing.progress import Audience, Lines
from scenarios.files.documents import document
from scenarios.files.scenario_file import load
from scenarios.questions.bench import Bench
from scenarios.questions.measures import USUAL, full_name
from scenarios.questions.replications import Wanted
from scenarios.questions.variants import Variant, VariantsQuestion, as_variants, variants
from scenarios.questions.whatif import check, compared
from streamtwin.answers.comparison import told
from streamtwin.answers.presentation import Presentation
from streamtwin.notebook.frames import frame
from streamtwin.report.html_tables import tables
from streamtwin.report.page import paragraph
from twin.errors import BadInput
from twin.executor import Executor
from twin.scenario import Scenario

if TYPE_CHECKING:
    from pandas import DataFrame

Knobs = Mapping[str, Sequence[Any] | str]
"""By path or 'replicas of OPERATOR': values, or a range as on the command line ("1k..50k:10")."""
SILENT = Lines(lambda _text: None)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question. result: what the command of that name gives; told: how that is shown."""

    result: Any
    told: Presentation

    @property
    def document(self) -> Mapping[str, Any]:
        """What the command prints with --json."""
        return document(self.result)

    @property
    def frame(self) -> DataFrame:
        """What the command writes as table.csv: of variants a line a metric, with intervals, differences and words."""
        return frame(self.told.rows)

    @property
    def sentences(self) -> list[str]:
        """The answer in words."""
        return list(self.told.sentences)

    @property
    def warnings(self) -> list[str]:
        """What a reader should know besides."""
        return list(self.told.notes)

    def __repr__(self) -> str:
        return f"<Answer: {' '.join(self.sentences)}>"

    def _repr_html_(self) -> str:
        return "".join((*map(paragraph, self.sentences), *tables(self.told.tables)))


def whatif(
    scenario: Scenario | str,
    vary: Knobs | None = None,
    *,
    plans: Sequence[str] = (),
    policies: Sequence[str] = (),
    events: Sequence[str] = (),
    metrics: Sequence[str] = USUAL,
    replications: int = 10,
    precision: float | None = None,
    seed: int | None = None,
    workers: int = 1,
    master: str | None = None,
    audience: Audience = SILENT,
) -> Answer:
    """Variants of a scenario, all combinations of what is varied, beside the scenario itself: `twin whatif`.

    plans: files; policies: names; events: in YAML. precision: half of each interval as a share of its mean, for which
    runs are added. workers: processes; with more than one, a script needs `if __name__ == "__main__":`. master: a
    Spark master that makes the runs instead. Raises BadInput for what cannot be.
    """
    given = load(scenario) if isinstance(scenario, str) else scenario
    knobs = [
        f"{path}={values if isinstance(values, str) else _listed(values)}" for path, values in (vary or {}).items()
    ]
    found = variants(given, VariantsQuestion(knobs, plans, policies, events))
    wanted = Wanted(replications, precision)
    return _answer(
        found, metrics, wanted, given.run.seed if seed is None else seed, _made_by(workers, master, audience), audience
    )


def compare(
    scenarios: Mapping[str, Scenario],
    *,
    metrics: Sequence[str] = USUAL,
    replications: int = 10,
    precision: float | None = None,
    seed: int | None = None,
    workers: int = 1,
    master: str | None = None,
    audience: Audience = SILENT,
) -> Answer:
    """Scenarios by label on the same random numbers, the first of which the others are compared with: `twin compare`.

    Such as one scenario under several plans. Raises BadInput for fewer than two, two that are the same, or no labels.
    """
    if not isinstance(scenarios, Mapping):
        raise BadInput("compare: scenarios without labels; give them as {'as given': one, 'better': another}")
    found = as_variants([Variant(label, scenario) for label, scenario in scenarios.items()])
    wanted = Wanted(replications, precision)
    return _answer(
        found,
        metrics,
        wanted,
        found[0].scenario.run.seed if seed is None else seed,
        _made_by(workers, master, audience),
        audience,
    )


def _answer(
    found: Sequence[Variant], metrics: Sequence[str], wanted: Wanted, seed: int, made_by: Executor, audience: Audience
) -> Answer:
    wanted.check()
    named = [[full_name(each, case.scenario, f"metrics, {case.label}") for each in metrics] for case in found]
    with Bench(made_by) as bench:
        check(bench, found)
        result = compared(bench, found, list(dict.fromkeys(named[0])), wanted, seed, audience)
    return Answer(result, told(result))


def _made_by(workers: int, master: str | None, audience: Audience) -> Executor:
    return executor(workers if master is None else None, master, audience.stage)


def _listed(values: Sequence[Any]) -> str:
    """As the command line lists them."""
    return ",".join(json.dumps(value) for value in values)
