"""Active learning: a cost model chooses plans to simulate, and learns from their runs, where it is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from models.checkpoint import Ensemble, read_all, save
from models.dataset import Dataset, RowSplit, of_deployments, split
from models.pipeline import FineTuning, fine_tune, rehearsing
from models.prediction import LearnedCostModel
from optimizers.interface import Problem
from optimizers.selection import Estimated, best_first, ranks
from optimizers.space import ALL_PLANS, Space, SpacePlans, as_plans
from scenarios.executing import Audience, Progress
from scenarios.files import registry, scenario_file
from scenarios.files.documents import CLOSED
from scenarios.learning import steps
from scenarios.planning.bench import half_width95
from scenarios.questions.bench import Bench
from scenarios.questions.kept import RunOutcome
from scenarios.spaces.registry import ScenarioFamily
from scenarios.suite import FAMILIES
from twin.errors import BadInput, suggest
from twin.files import new_folder
from twin.metrics import BINARY_METRICS, METRICS, REGRESSION_METRICS, CostModel, Narrowable
from twin.plan import ExecutionPlan
from twin.randomness import child_seed, random_stream
from twin.scenario import Scenario, config_hash

# jobs ----------------------------------------------------------------------------------------------------------------
# Jobs on which a model is to improve: any number to learn on, and others on which it is judged, the test set.
#
# In a family of the suite, its members judge, and jobs of later seeds teach. For a single scenario, both are
# variations with other rates and hosts. All plans of the test set are simulated once, and a model is judged by its
# choice: regret is against the best of the job's simulated plans. A choice that is backpressured or fails where
# another plan does not counts as FAR times the best.


LATER = 1_000_000
"""Distance of the seeds of jobs that teach from a family's first seed: far from members of all versions."""
JUDGES = 2**31
"""Number of the child seed whose children are the variations that judge."""


@dataclass(frozen=True, slots=True)
class JobPool:
    """Jobs to learn on and to judge on. teaching, judging: the job of a number, from 0. most: number of judging jobs.
    space: of their plans."""

    name: str
    teaching: Callable[[int], Scenario]
    judging: Callable[[int], Scenario]
    most: int
    space: Space

    def plans(self, job: Scenario, seed: int, count: int) -> list[ExecutionPlan]:
        """Different plans of a job, drawn uniformly; all of them, if there are no more than `count`."""
        space = SpacePlans(job, replace(self.space, free_subtasks=False))
        return list(as_plans(job, space.sample(random_stream(seed, "plans"), count)))


def job_pool(name: str, seed: int) -> JobPool:
    """Pool of a family of the suite, or of a scenario by name or file. Raises BadInput for any other name."""
    if name in FAMILIES:
        family = FAMILIES[name]
        return JobPool(
            name,
            teaching=lambda number: family.make(family.seeds[0] + LATER + 1000 * seed + number),
            judging=lambda number: family.make(family.seeds[number]),
            most=len(family.seeds),
            space=family.space,
        )
    try:
        base = scenario_file.load(name)
    except BadInput as error:
        near: Mapping[str, object] = {**FAMILIES, **dict.fromkeys(registry.names())}
        raise BadInput(
            f"--on {name!r} is no family of the suite, nor a scenario ({error}); {suggest(name, near)}"
        ) from None
    teaching, judging = (ScenarioFamily(base, child_seed(seed, child)) for child in (0, JUDGES))
    return JobPool(name, teaching, judging, most=1000, space=ALL_PLANS)


OBJECTIVE = "processing_latency_s"
MEAN = f"{OBJECTIVE}.mean"
FAR = 10.0
"""Largest ratio of a choice's cost to the best."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement of a model on one job. regret: of its choice, FAR - 1 at most. spoilt: whether the choice is of a worse
    kind than the best plan. errors: q-errors of the latency, for the plans that have one."""

    regret: float
    spoilt: bool
    errors: np.ndarray


@dataclass(frozen=True, slots=True)
class JudgingJob:
    """Job of the test set, with its plans and the outcome of each."""

    job: Scenario
    plans: Sequence[ExecutionPlan]
    outcomes: Sequence[RunOutcome]

    def judged(self, model: CostModel) -> Judgement:
        """Judges a model by the plan that it would choose. Raises BadInput as the model's `predict`."""
        costs = np.array([outcome.measures[MEAN] for outcome in self.outcomes])
        kinds = np.array([kind_of(outcome) for outcome in self.outcomes])
        order, _, said = seen(model, self.job, self.plans)
        best = np.lexsort((costs, kinds))[0]
        chosen = order[0]
        spoilt = bool(kinds[chosen] != kinds[best])
        ratio = costs[chosen] / costs[best] if np.isfinite(costs[best]) else 1.0
        known = np.isfinite(costs)
        errors = np.maximum(said / costs, costs / said)[known]
        return Judgement(FAR - 1 if spoilt else float(min(ratio, FAR)) - 1, spoilt, errors)


def kind_of(outcome: RunOutcome) -> int:
    """Kind of a run: 0 if it keeps up, 1 if it is backpressured, 2 if it fails."""
    return 2 if not outcome.measures["success"] else int(outcome.measures["backpressured"])


def seen(model: CostModel, job: Scenario, plans: Sequence[ExecutionPlan]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[P] each, for plans of a job by a model: rows from the best plan down, the members' disagreement, latency (s)."""
    narrow = model.only((OBJECTIVE, *BINARY_METRICS)) if isinstance(model, Narrowable) else model
    estimates = narrow.predict(job, plans)
    estimated = Estimated(plans, estimates[OBJECTIVE], *(estimates[name] for name in BINARY_METRICS))
    problem = Problem(scenario=job, cost_model=model, objective=OBJECTIVE)
    return best_first(ranks(problem, estimated)), estimates.spread, estimates[OBJECTIVE]


def judging_jobs(bench: Bench, pool: JobPool, jobs: int, plans: int, seed: int, report: Progress) -> list[JudgingJob]:
    """First judging jobs of a pool, their plans simulated on the same random numbers."""
    made = [pool.judging(number) for number in range(jobs)]
    chosen = [pool.plans(job, child_seed(seed, number), plans) for number, job in enumerate(made)]
    runs = [(job.with_plan(plan), seed) for job, its in zip(made, chosen, strict=True) for plan in its]
    outcomes = iter(bench.outcomes(runs, report))
    return [JudgingJob(job, its, [next(outcomes) for _ in its]) for job, its in zip(made, chosen, strict=True)]


# a round -------------------------------------------------------------------------------------------------------------
# Rounds of active learning: the model chooses plans to simulate, and is fine-tuned on all runs so far; then again.
#
# Plans are chosen where members of the ensemble disagree, or where plans look best; the strategy `random` is the
# baseline that the others must beat. Each fine-tuning starts from the model as given, so that the result depends on
# the runs and not on their order. An interrupted command goes on where it was: the bench keeps finished runs, and
# `folder` finished models.


VALID = 0.2
"""Share of the new rows that validate: they stop the training, and fit the gates."""
STEPS, PER_STEP = 400, 128
"""Least number of steps of a fine-tuning that validation does not stop, and rows of each step."""


@dataclass(frozen=True, slots=True)
class LearningPlan:
    """Sizes of the rounds. jobs: new jobs a round. each: runs of each of these. pool: plans of a job to choose from.
    rehearsed: rows that the model was trained on; as many of these as of new rows are mixed in."""

    jobs: int
    each: int
    pool: int
    seed: int
    rehearsed: tuple[Dataset, RowSplit] | None = None


@dataclass(frozen=True, slots=True)
class LearningRound:
    """Model after a round. number: 0 is the model as given. runs: number of runs that it learned from."""

    number: int
    runs: int
    model: LearnedCostModel


def rounds(
    start: LearnedCostModel,
    pool: JobPool,
    strategy: str,
    count: int,
    how: LearningPlan,
    bench: Bench,
    folder: Path,
    audience: Audience,
) -> Iterator[LearningRound]:
    """Yields the model as given, and after each of `count` rounds. Raises BadInput as the model's `predict`, and if the
    runs teach nothing."""
    model, learned, outcomes = start, list[Scenario](), list[RunOutcome]()
    yield LearningRound(0, 0, start)
    for number in range(1, count + 1):
        chosen = list(_chosen(model, pool, strategy, number, how))
        with audience.progress(f"runs of round {number}, {strategy}") as report:
            outcomes += bench.outcomes([(job, how.seed) for job in chosen], report)
        learned += chosen
        model = _improved(start, learned, outcomes, how, folder / f"{strategy}-{number}", audience)
        yield LearningRound(number, len(learned), model)


def _chosen(
    model: LearnedCostModel, pool: JobPool, strategy: str, number: int, how: LearningPlan
) -> Iterator[Scenario]:
    """Scenarios of each new job, under the plans that the strategy chooses."""
    for index in range((number - 1) * how.jobs, number * how.jobs):
        job, seed = pool.teaching(index), child_seed(how.seed, index)
        plans = pool.plans(job, seed, how.pool)
        order, spread, _ = seen(model, job, plans)
        rows = STRATEGIES[strategy](spread, order, random_stream(seed, "strategy"), how.each)
        yield from (job.with_plan(plans[row]) for row in rows)


def rows_of(jobs: Sequence[Scenario], outcomes: Sequence[RunOutcome]) -> Dataset:
    """Dataset of runs; latencies and rates are labels only of runs that succeeded."""
    labels = np.array([[_label(outcome, metric) for metric in METRICS] for outcome in outcomes])
    failed = labels[:, METRICS.index("success")] == 0
    columns = [METRICS.index(metric) for metric in REGRESSION_METRICS]
    labels[np.ix_(failed, columns)] = np.nan
    return of_deployments(jobs, labels, [config_hash(job) for job in jobs])


def _label(outcome: RunOutcome, metric: str) -> float:
    return outcome.measures.get(metric, outcome.measures.get(f"{metric}.mean", np.nan))


def _improved(
    start: LearnedCostModel,
    jobs: Sequence[Scenario],
    outcomes: Sequence[RunOutcome],
    how: LearningPlan,
    folder: Path,
    audience: Audience,
) -> LearnedCostModel:
    if folder.is_dir():
        try:
            return LearnedCostModel(folder.name, read_all(folder))
        except BadInput as error:
            audience.stage(f"learning again: {error}")
    rows = rows_of(jobs, outcomes)
    parts = split(rows, how.seed, valid=VALID, test=0.0)
    if how.rehearsed is not None:
        rows, parts = rehearsing(rows, parts, *how.rehearsed, how.seed)
    with audience.progress(f"steps at most of learning from {len(jobs)} runs") as report:
        told = steps({ensemble.name: len(ensemble.members) for ensemble in start.ensembles}, report)
        ensembles = fine_tune(start.ensembles, rows, parts, _pace(len(parts.train)), how.seed, told)
    _write(ensembles, folder)
    return LearnedCostModel(folder.name, ensembles)


def _pace(rows: int) -> FineTuning:
    """Fine-tuning with as many passes over the rows as make STEPS."""
    return FineTuning(epochs=max(FineTuning().epochs, -(-STEPS * PER_STEP // max(rows, PER_STEP))))


def _write(ensembles: Sequence[Ensemble], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with new_folder(folder, replacing=True) as aside:
        for ensemble in ensembles:
            save(ensemble, aside)


Strategy = Callable[[np.ndarray, np.ndarray, np.random.Generator, int], np.ndarray]
"""Function (spread [P]: disagreement of the members, order [P]: rows from the best plan down, random stream, count) ->
`count` rows of the plans to simulate."""


def disputed(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Plans about which the members of the ensemble disagree most."""
    del order, rng
    return np.argsort(-spread, kind="stable")[:count]


def favoured(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Plans that an optimizer would choose: the best by the model."""
    del spread, rng
    return order[:count]


def active(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Plans of which half are the best by the model, and the others are disputed most among the rest."""
    first = favoured(spread, order, rng, (count + 1) // 2)
    left = spread.copy()
    left[first] = -1.0
    return np.concatenate([first, disputed(left, order, rng, count - len(first))])


def at_random(spread: np.ndarray, order: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Plans that are chosen at random."""
    del order
    return rng.permutation(len(spread))[:count]


STRATEGIES: Mapping[str, Strategy] = {
    "active": active,
    "disputed": disputed,
    "favoured": favoured,
    "random": at_random,
}


def strategy(name: str, option: str) -> Strategy:
    """Strategy of that name. Raises BadInput for an unknown one; option: that named it."""
    if name not in STRATEGIES:
        raise BadInput(f"{option} {name!r} is no strategy; {suggest(name, STRATEGIES)}")
    return STRATEGIES[name]


# all rounds ----------------------------------------------------------------------------------------------------------
# Rounds in which a model improves, by one or two strategies, all judged by the same test set.


COLUMNS = {
    "strategy": "runs chosen",
    "round": "round",
    "runs": "runs",
    "regret_words": "regret, mean",
    "regret_median": "median",
    "spoilt": "worse kind",
    "error_median": "q-error, median",
    "error_p95": "95 %",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundRow:
    """Judgement of one model on all jobs of the test set. runs: number of runs it learned from. regret, ci95: mean over
    the jobs, and half of its 95 % interval."""

    strategy: str
    round: int
    runs: int
    regret: float
    ci95: float | None
    regret_median: float
    spoilt: int
    error_median: float
    error_p95: float

    @classmethod
    def of(cls, strategy: str, number: int, runs: int, answers: Sequence[Judgement]) -> RoundRow:
        """Row of a round, from one judgement for each job."""
        regrets = np.array([answer.regret for answer in answers])
        errors = np.concatenate([answer.errors for answer in answers])
        median, p95 = np.quantile(errors, (0.5, 0.95)) if len(errors) else (np.nan, np.nan)
        return cls(
            strategy=strategy,
            round=number,
            runs=runs,
            regret=float(regrets.mean()),
            ci95=half_width95(regrets),
            regret_median=float(np.median(regrets)),
            spoilt=sum(answer.spoilt for answer in answers),
            error_median=float(median),
            error_p95=float(p95),
        )

    @property
    def shown(self) -> dict[str, Any]:
        """Values of the columns in `COLUMNS`, as text."""
        around = "" if self.ci95 is None else f" ± {self.ci95:.1%}"
        return {
            **asdict(self),
            "regret_words": f"{self.regret:.1%}{around}",
            "regret_median": f"{self.regret_median:.1%}",
        }


def compared(first: Sequence[float], second: Sequence[float], names: tuple[str, str]) -> str:
    """Sentence that compares the regrets of two strategies. first, second: mean regrets by job."""
    apart = np.array(first) - np.array(second)
    half = half_width95(apart)
    mean = float(apart.mean())
    words = f"regret after the rounds, {names[0]} minus {names[1]}: {mean:+.2%}"
    if half is None:
        return f"{words} in one job, which says nothing about other jobs"
    verdict = "no more than chance" if abs(mean) <= half else f"{names[0 if mean < 0 else 1]} is better"
    return f"{words} ± {half:.2%} (95 % interval over {len(apart)} jobs): {verdict}"


JUDGING_SEED = 2**30
"""Number of the child seed that draws the plans of the test set, and seeds their runs."""
MODELS = "models"


@CLOSED
@dataclass(frozen=True, slots=True, kw_only=True)
class ModelImproved:
    """The answer of `twin improve`. weights: hash of the networks that it began with. rows: in the order of the rounds.
    compared: a sentence about two strategies; empty for one."""

    command: str
    model: str
    weights: str
    on: str
    seed: int
    jobs: int
    runs: int
    pool: int
    judges: int
    plans: int
    rehearse: str | None
    rounds: int
    rows: tuple[RoundRow, ...]
    compared: str


def require_ensemble(model: LearnedCostModel) -> None:
    """Raises BadInput for a model with a single network, which cannot disagree with itself."""
    if min(len(ensemble.members) for ensemble in model.ensembles) < 2:
        raise BadInput(f"model {model.name!r} has one network, which agrees with itself; train it with --members 3")


def history(
    start: LearnedCostModel,
    pool: JobPool,
    strategies: Sequence[str],
    count: int,
    how: LearningPlan,
    size: tuple[int, int],
    bench: Bench,
    out: Path,
    audience: Audience,
) -> tuple[tuple[RoundRow, ...], str]:
    """Runs all rounds; returns their rows, and a sentence that compares two strategies (empty for one). size: number of
    jobs of the test set, and of plans of each. Raises BadInput as `rounds` does.
    """
    judges, plans = size
    seen(start, pool.judging(0), [pool.judging(0).plan])  # it may refuse, before any run is made
    audience.stage(f"simulating the test set: {judges} jobs, {plans} plans each at most")
    with audience.progress("runs of the test set") as report:
        judging = judging_jobs(bench, pool, judges, plans, child_seed(how.seed, JUDGING_SEED), report)
    rows, by_job = list[RoundRow](), dict[str, list[list[float]]]()
    for strategy in strategies:
        for done in rounds(start, pool, strategy, count, how, bench, out / MODELS, audience):
            answers = [job.judged(done.model) for job in judging]
            rows.append(RoundRow.of(strategy, done.number, done.runs, answers))
            if done.number:
                by_job.setdefault(strategy, []).append([answer.regret for answer in answers])
            audience.stage(f"{strategy}, round {done.number}: regret {rows[-1].regret:.1%}")
    if len(strategies) < 2:
        return tuple(rows), ""
    first, second = (np.mean(by_job[strategy], axis=0).tolist() for strategy in strategies)
    return tuple(rows), compared(first, second, (strategies[0], strategies[1]))
