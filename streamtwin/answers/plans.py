"""Shows the answers of `twin optimize`, a plan, and of `twin validate` and `twin benchmark`: optimizers compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from scenarios.benchmarking import SuiteJudged
from scenarios.planning import validation
from scenarios.planning.planner import PlanChosen
from scenarios.planning.validation import PlansJudged, Standing, ValidationRow
from scenarios.questions.kept import said_once
from streamtwin.answers import Presentation
from streamtwin.tables.chosen_plan import OBJECTIVES, quantity
from streamtwin.tables.tables import of_regrets, of_rows, of_standings, places
from twin.scenario import Scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_MODEL = "-"
"""Name that stands in place of a cost model where an optimizer needs none."""


def told(answer: PlansJudged) -> Presentation:
    """Presentation of `twin validate`: a table for each scenario, and overall standings if there are several."""
    several = len({row.scenario for row in answer.rows}) > 1
    return Presentation(
        heading="Optimizers in the simulator",
        sentences=[*_best(answer.standings), *careful(answer.rows)],
        tables=[*of_regrets(answer.rows), *([of_standings(answer.standings)] if several else [])],
        rows=validation.csv_rows(answer.rows),
        figure=_figure(answer.rows),
    )


def told_of_suite(answer: SuiteJudged) -> Presentation:
    """Presentation of `twin benchmark`: a table for each family of problems, and one over all placement families."""
    from scenarios.suite import JUDGED, MEMBERS  # it imports optimizers that other questions need not

    boards = [of_standings(board, f"{name}: {JUDGED[MEMBERS[name].asks]}") for name, board in answer.by_family.items()]
    families = [f"{name}: {_best(board)[0]}" for name, board in answer.by_family.items()]
    overall = [of_standings(answer.standings, "all placements: regret in the simulator")] if answer.standings else []
    return Presentation(
        heading="Optimizers in the simulator",
        sentences=_best(answer.standings) if answer.standings else families,
        tables=[*boards, *overall],
        rows=validation.csv_rows(answer.rows),
        figure=_figure([row for row in answer.rows if MEMBERS[_family(row)].asks == "placement"]),
    )


def told_of_plan(answer: PlanChosen, now: Scenario | None = None) -> Presentation:
    """Presentation of a plan on a page. now: the scenario for which it was found, if that is shown there."""
    shows = quantity(answer.objective)
    found = "keeps up" if answer.keeps_up else "does not keep up"
    found += ", but not as required" * (answer.keeps_up and not answer.as_required)
    predicted = "no value" if answer.predicted is None else shows(answer.predicted)
    what = OBJECTIVES.get(answer.objective, answer.objective)
    by = f"as predicted by {answer.cost_model}" if answer.search is None else f"in {answer.cost_model}"
    sentence = f"By {answer.optimizer}: {what}, {predicted} {by}, and the job {found}"
    if answer.given is not None:
        given = "no value" if answer.given.predicted is None else shows(answer.given.predicted)
        keeps = "does not keep up" if answer.given.backpressured or not answer.given.success else "keeps up"
        sentence += f"; as it is now, {given}, and it {keeps}"
    before = {} if now is None else now.plan.model_dump(mode="json")["placement"]
    rows = [
        {
            "operator": name,
            "before": places(before[name]),
            "after": places(where),
            "moves": "moves" * (before[name] != where),
        }
        for name, where in answer.placement.items()
        if name in before
    ]
    columns = {"operator": "operator", "before": "now", "after": f"by {answer.optimizer}", "moves": ""}
    claim = f"{answer.status}: {answer.evaluations:,} plans estimated by {answer.cost_model} in {answer.seconds:.2f} s."
    notes = [f"The cost model ignores {'; '.join(answer.blind_to)}."] if answer.blind_to else []
    notes += [f"{answer.refusal[0].upper()}{answer.refusal[1:]}."] if answer.refusal else []
    tables = [of_rows("where operators run", columns, rows)] if rows else []
    return Presentation(heading="A better plan", sentences=[f"{sentence}.", claim], notes=notes, tables=tables)


def _best(standings: Sequence[Standing]) -> list[str]:
    first = standings[0]
    if first.mean is None:
        return ["No optimizer found a plan that keeps up as well as the best known one."]
    mean = f"a mean regret of {first.mean:.1%} against the best plans known"
    by = "" if first.cost_model == NO_MODEL else f" by {first.cost_model}"
    return [f"{first.optimizer}{by} is the best of {len(standings)}: {mean}."]


def careful(rows: Sequence[ValidationRow]) -> list[str]:
    """Sentences on predictions that contradict the runs, each with the plans that it is about."""
    several = len({row.scenario for row in rows}) > 1
    wrong = [row for row in rows if row.beside is not None and not row.beside.agrees]
    return said_once(
        (f"{row.scenario}: {row.optimizer}" if several else row.optimizer, row.beside.careful)
        for row in wrong
        if row.beside is not None
    )


def _family(row: ValidationRow) -> str:
    return row.scenario.rpartition("-")[0]


def _figure(rows: Iterable[ValidationRow]) -> Callable[[], Figure] | None:
    samples = validation.samples(rows)

    def draw() -> Figure:
        from figures.charts import distributions

        return distributions(samples, "simulated cost over the best known", log=True)

    return draw if samples else None
