"""Questions about plans: `twin optimize`, `validate`, `benchmark` and `improve`, and the options of searches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from streamtwin.options import Options, listed, option, seconds, share
from streamtwin.questions.question import Form, FormField, Question, Runs
from twin.errors import BadInput

if TYPE_CHECKING:
    from models.dataset import Dataset, RowSplit
    from models.prediction import LearnedCostModel
    from optimizers.objectives import Requirements
    from optimizers.space import Space
    from scenarios.benchmarking import SuiteJudged
    from scenarios.improving import ModelImproved
    from scenarios.planning.validation import PlansJudged, ValidationRow
    from scenarios.questions.optimize import PlanSearch
    from twin.scenario import Scenario

TIME_LIMIT = partial(option, None, "End with the best so far after S seconds.", "S", "--time-limit", parser=seconds)


@dataclass(frozen=True)
class Searching(Options):
    """Options of the search for plans."""

    budget: str | None = option(
        None,
        "Let runs decide, for so many CPU seconds or runs. Without: predictions decide, at once.",
        "20|40runs",
    )
    objective: str | None = option(
        None,
        "processing_latency_s, e2e_latency_s, throughput_per_s, traffic_bytes_per_s, subtasks_changed, price; with a "
        "budget any measure.",
    )
    estimates: int | None = option(None, "Plans to predict. Default: 1000.", "N", min=1)
    seconds: float | None = TIME_LIMIT()


@dataclass(frozen=True)
class PlanRules(Options):
    """Options that limit the plans that may be chosen, and that require more of them than keeping up."""

    pin: Sequence[str] = option((), "Operators that stay.", "OP,...")
    allow: Sequence[str] = option((), "Hosts for an operator. Repeatable.", "OP=HOST,...")
    parallelism: Literal["fixed", "free"] | None = option(None, "Whether numbers of subtasks may change.")
    rules: Literal["none", "costream"] = option("none", "costream: never to a weaker kind of host.")
    together: bool = option(False, "Each operator on one socket.", flag="--together")
    part_chains: bool = option(
        False,
        "Chains may be parted.",
        flag="--part-chains",
    )
    moves: int | None = option(None, "Most operators that may move.", "K", "--most-moves", min=0)
    head_room: float | None = option(
        None,
        "Bear 1 + H times the rates. Default of milp-hosts: 0.2.",
        "H",
        parser=share,
    )
    at_most: Sequence[str] = option(
        (),
        "Limit, such as e2e_latency_s=500ms; with a budget, of any measure. Repeatable.",
        "MEASURE=VALUE",
    )
    prices: Sequence[str] = option((), "Prices of hosts. Default: those in the file, or 1.", "HOST=P,...", "--price")

    def space(self) -> Space:
        """Space of plans that the options allow. Raises BadInput if an option cannot be read."""
        from optimizers.space import Space

        return Space(
            pinned=frozenset(name for text in self.pin for name in listed(text)),
            allowed=_allowed(self.allow),
            spread=False if self.together else None,
            costream_rules=self.rules == "costream",
            most_moves=self.moves,
            part_chains=self.part_chains,
            free_subtasks=None if self.parallelism is None else self.parallelism == "free",
        )

    def requirements(self) -> Requirements:
        """Requirements of the options on a plan. Raises BadInput if an option cannot be read."""
        from optimizers.objectives import LIMITED, Requirements

        limits = _numbers("--at-most", self.at_most, "e2e_latency_s=500ms")
        predicted = {name for name in limits if name in LIMITED}
        return Requirements(
            head_room=self.head_room,
            at_most={name: most for name, most in limits.items() if name in predicted},
            measured={name: most for name, most in limits.items() if name not in predicted},
            prices=_numbers("--price", self.prices, "cloud-1=2.5"),
        )


def _allowed(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    hosts_by_operator: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, equals, hosts = text.partition("=")
        if not equals or not name.strip() or not listed(hosts):
            raise BadInput(f"--allow {text!r}: write OP=HOST,... with one host at least, such as parse=edge-1,fog-1")
        if name.strip() in hosts_by_operator:
            raise BadInput(f"--allow names {name.strip()!r} twice; give all of its hosts at once, {name}=HOST,HOST")
        hosts_by_operator[name.strip()] = listed(hosts)
    return hosts_by_operator


def _numbers(flag: str, texts: Sequence[str], example: str) -> dict[str, float]:
    from twin.quantities import number

    numbers: dict[str, float] = {}
    for text in [part for several in texts for part in several.split(",")]:
        name, _, value = (part.strip() for part in text.partition("="))
        if name in numbers:
            raise BadInput(f"{flag} names {name!r} twice; give it once")
        try:
            numbers[name] = number(value, name)
        except ValueError as error:
            wrong = f"; {error}" if value else ""
            raise BadInput(f"{flag} {text!r}: write a name and a number, such as {example}{wrong}") from None
    return numbers


USUAL = "local-search"


def _objectives(_now: Scenario | None = None) -> Mapping[str, str]:
    from streamtwin.tables.chosen_plan import OBJECTIVES

    return OBJECTIVES


def _optimizers(_now: Scenario | None = None) -> Mapping[str, str]:
    """Words for optimizers by name, the usual one first."""
    from streamtwin import catalogue

    known = sorted(catalogue.optimizers().items(), key=lambda each: each[0] != USUAL)
    return {name: f"{name}: {words}" for name, words in known}


def known_optimizers(begun: str) -> list[str]:
    """Names of optimizers that begin with `begun`, for completion."""
    from streamtwin import catalogue

    return [name for name in catalogue.optimizers() if name.startswith(begun)]


Percentile = Annotated[float | None, typer.Option("--percentile", metavar="P", help="Of execution times. Default: 50.")]
COST_MODELS_HELP = "rates, rates:peak, learned, folders, FILE.py:CLASS."
REPLICATIONS_HELP, REFERENCES_HELP = "Simulated runs of each plan.", "Random plans simulated for comparison."


@dataclass(frozen=True, kw_only=True)
class OptimizePlan(Question):
    """Chooses where each operator runs; the result is a scenario file that runs.

    The scenario's own plan is a candidate, and is kept where nothing better is found. Ctrl-C ends the search with the
    best plan so far, which is printed and written; the exit status is then 130.

    Examples: `twin optimize smart-grid --out better.yaml`, then `twin run better.yaml` ·
    `twin optimize smart-grid --budget 20` · `twin optimize smart-grid --budget 40runs --objective e2e_latency_s.p99` ·
    `twin optimize smart-grid --optimizer milp --cost-model learned` ·
    `twin optimize edge-filter --objective price --head-room 0.1 --price edge-1=2`. More: docs/plans.md, docs/driving.md
    """

    optimizer: str | None = option(
        None, "See `twin list`. Default: local-search.", "NAME|FILE.py:CLASS", autocompletion=known_optimizers
    )
    model: str = option("rates", "The cost model.", "rates[:peak]|learned|DIR|FILE.py:CLASS", "--cost-model")
    profiled: bool = option(False, "Profile operators and plan with that.", flag="--profiled")
    profile: Path | None = option(None, "Plan with what `twin profile` wrote.", "FILE")
    percentile: Percentile = None

    command = "optimize"
    shown_by = "plans.told_of_plan"
    form = Form(
        "Find a better plan",
        2,
        {
            "objective": FormField("for", choices=_objectives, allowed=_objectives),
            "optimizer": FormField("by", choices=_optimizers, allowed=_optimizers),
        },
    )

    def search(self, scenario: Scenario, searching: Searching, rules: PlanRules, runs: Runs) -> PlanSearch:
        """Search for a plan of the scenario, which notes what its prediction lacks. Raises BadInput for options that
        make no sense."""
        from optimizers.objectives import USUAL_METRIC, prices_h
        from optimizers.registry import optimizer_by_name
        from scenarios.planning import planner
        from scenarios.planning.cost_models import cost_model
        from scenarios.planning.searching import SEARCHED, Goal, budget_of
        from scenarios.questions.optimize import PlanSearch, buying

        if self.optimizer == SEARCHED:
            raise BadInput("--optimizer searched: leave it out and give a budget, --budget 20 in CPU seconds or 40runs")
        space, requirements = rules.space(), rules.requirements()
        space.check(scenario)
        optimizer, objective = buying(self.optimizer, searching.objective)
        budget = None if searching.budget is None else budget_of(searching.budget)
        if budget is None and requirements.measured:
            raise BadInput(planner.unpredicted(f"--at-most {next(iter(requirements.measured))}"))
        if budget is None or objective is None:
            objective = planner.objective_of([optimizer_by_name(optimizer)], objective)
        if budget is not None:
            Goal.of(scenario, objective or USUAL_METRIC, requirements)  # raises for wrong names, before long work
        prices_h(scenario, requirements.prices)
        costs = cost_model(self.model)
        search = PlanSearch(
            job=scenario,
            profiled=None,
            optimizer=optimizer,
            objective=objective,
            model=self.model,
            costs=costs,
            space=space,
            requirements=requirements,
            estimates=searching.estimates,
            budget=budget,
            seconds=searching.seconds,
        )
        if budget is None:
            _say_blindness(runs, scenario.name, planner.blindness(scenario, [costs]))
        if budget is None and (beyond := planner.beyond(scenario, costs)):
            runs.note(f"note: cost model {costs.name} was trained on other {', '.join(beyond)}; it extrapolates")
        return replace(search, profiled=self._as_profiled(scenario, runs))

    def _as_profiled(self, scenario: Scenario, runs: Runs) -> Scenario | None:
        """Job with the costs of its profiles; None if no profile was asked for, so that the job is planned as it is."""
        from streamtwin.connect import profiles

        if self.profiled and self.profile is not None:
            raise BadInput(f"--profiled measures anew and --profile {self.profile} does not; give one of them")
        if not self.profiled and self.profile is None:
            if self.percentile is not None:
                raise BadInput(
                    f"--percentile {self.percentile:g} needs a profile; give --profiled or --profile FILE too"
                )
            return None
        chosen = profiles.check_percentile(profiles.MEDIAN if self.percentile is None else self.percentile)
        if self.profile is not None:
            return profiles.instantiate(scenario, profiles.load(self.profile).operators, chosen)
        with runs.audience.progress("operators profiled") as report:
            found = profiles.profile(scenario.deployment, seed=scenario.run.seed, progress=report)
        return profiles.instantiate(scenario, found, chosen)


@dataclass(frozen=True, kw_only=True)
class ValidatePlans(Question):
    """Simulates the plan of every optimizer and cost model: its regret against the best known plan.

    All may look at as many plans by predictions (--estimates), or take as long (--time-limit). The optimizer `searched`
    is the search by runs, which has a --budget of its own.

    Examples: `twin validate smart-grid` ·
    `twin validate smart-grid word-count --optimizers milp,searched --budget 40runs --out board` ·
    `twin validate smart-grid --optimizers milp,local-search --cost-model rates,learned` ·
    `twin validate smart-grid --optimizers milp,my_file.py:MyOptimizer` ·
    `twin validate smart-grid advertisement --optimizers governor,costream --cost-model rates,model --replications 10`
    """

    optimizers: str = option(
        "as-given,random,governor,local-search", "See `twin list`; as-given keeps the plan.", "A,B,..."
    )
    models: str = option("rates", COST_MODELS_HELP, "A,B,...", "--cost-model")
    replications: int = option(5, REPLICATIONS_HELP, min=1)
    references: int = option(30, REFERENCES_HELP, min=0)
    race: bool = option(True, "Stop simulating references that are clearly beaten.", flag="--race/--no-race")
    searching: Searching
    rules: PlanRules

    command = "validate"
    shown_by = "plans.told"

    def ask(self, scenarios: Sequence[Scenario], seed: int, runs: Runs) -> PlansJudged:
        """Judges plans for each scenario. Raises BadInput for options that make no sense."""
        from scenarios.planning import planner, validation
        from scenarios.planning.cost_models import cost_models, with_loads
        from scenarios.planning.searching import SEARCHED, budget_of, in_a_table
        from scenarios.planning.validation import validate
        from twin.scenario import config_hash
        from twin.simulation import simulate

        searching, space, requirements = self.searching, self.rules.space(), self.rules.requirements()
        budget = None if searching.budget is None else budget_of(searching.budget)
        chosen = planner.optimizers(self.optimizers, budget)
        if budget is not None and SEARCHED not in {each.name for each in chosen}:
            raise BadInput(
                f"--budget {searching.budget} is for the optimizer searched; name it in --optimizers, or give "
                "--estimates for how many plans predictions may look at"
            )
        if requirements.measured:
            raise BadInput(planner.unpredicted(f"--at-most {next(iter(requirements.measured))}"))
        objective = planner.objective_of(chosen, searching.objective)
        estimates = planner.estimates_of(chosen, searching.estimates)
        costs = list(cost_models(self.models).values())
        hashes = [config_hash(scenario) for scenario in scenarios]
        asked: dict[str, Any] = {"command": self.command, "scenarios": hashes}
        asked |= {"optimizers": self.optimizers, "cost_models": self.models, "budget": searching.budget}
        asked |= {"estimates": estimates, "seconds": searching.seconds}
        asked |= {"replications": self.replications, "references": self.references}
        asked |= {"objective": objective, "seed": seed}
        rows: list[ValidationRow] = []
        blind: dict[str, dict[str, tuple[str, ...]]] = {}
        with runs.executor(asked) as executor:
            for scenario in scenarios:
                runs.audience.stage(f"{scenario.name}: planning, then {self.replications} simulated runs a plan")
                blind[scenario.name] = planner.blindness(scenario, costs)
                _say_blindness(runs, scenario.name, blind[scenario.name])
                rows += validate(
                    [scenario],
                    chosen,
                    with_loads(costs, scenario),
                    simulate,
                    self.replications,
                    seed,
                    objective=objective,
                    budget=estimates,
                    references=self.references,
                    space=space,
                    requirements=requirements,
                    seconds=searching.seconds,
                    planner_of=in_a_table,
                    racing=self.race,
                    executor=executor,
                )
        return validation.PlansJudged(
            objective=objective, rows=tuple(rows), standings=validation.standings(rows), blind_to=blind
        )


@dataclass(frozen=True, kw_only=True)
class BenchmarkSuite(Question):
    """Compares optimizers and cost models on the fixed suite, by simulated regret against the best plan known.

    Some families ask for no placement but for a balance of key groups, or for scaling: all balancing solvers, or all
    policies, answer these. With --out, judged problems are kept, and the same command goes on from there.

    Examples: `twin benchmark --families edge-linear --most 3` · `twin benchmark --out board` ·
    `twin benchmark --optimizers milp,my_file.py:MyOptimizer --cost-model rates,learned`
    """

    families: str | None = option(None, "Families of `twin list`. Default: all.", "A,B,...")
    optimizers: str | None = option(None, "Optimizers by name, or FILE.py:CLASS for your own.", "A,B,...")
    models: str = option("rates,learned", COST_MODELS_HELP, "A,B,...", "--cost-model")
    most: int | None = option(None, "Problems of each family. Default: all.", "N", min=1)
    estimates: int | None = option(None, "Plans that predictions may look at. Default: 300.", "N", min=1)
    seconds: float | None = TIME_LIMIT()
    replications: int = option(3, REPLICATIONS_HELP, min=1)
    references: int = option(30, REFERENCES_HELP, min=0)

    command = "benchmark"
    shown_by = "plans.told_of_suite"

    def ask(self, seed: int, runs: Runs) -> SuiteJudged:
        """Judges the problems of the families. Raises BadInput for options that make no sense."""
        from scenarios.benchmarking import BUDGET, BenchmarkRequest, SuiteJudged, judged_rows, pieces
        from scenarios.planning import planner, validation
        from scenarios.planning.cost_models import cost_models, is_learned
        from scenarios.suite import MEMBERS, VERSION, families

        named = [] if self.optimizers is None else planner.optimizers(self.optimizers)
        costs = cost_models(self.models)  # raises for wrong names before anything is judged
        request = BenchmarkRequest(
            optimizers=self.optimizers,
            cost_models=self.models,
            budget=planner.estimates_of(named, self.estimates, BUDGET),
            seconds=self.seconds,
            replications=self.replications,
            references=self.references,
            seed=seed,
        )
        wanted = families(self.families)
        if runs.master is not None and any(is_learned(model) for model in costs.values()):
            raise BadInput(f"--master {runs.master}: learned cost models are not sent there; give --cost-model rates")
        asked: dict[str, Any] = {"suite": VERSION, "families": wanted, "most": self.most, **asdict(request)}
        judging = runs.executor({"command": self.command, **asked}, "the judged problems")
        with runs.audience.progress("problems") as report, judging as executor:
            found = judged_rows(pieces(wanted, self.most), request, runs.out, executor, report)
        every = [row for name, its in found.items() if MEMBERS[name].asks == "placement" for row in its]
        return SuiteJudged(
            **asked,
            standings=validation.standings(every),
            by_family={name: validation.standings(its) for name, its in found.items()},
            rows=tuple(row for its in found.values() for row in its),
        )


@dataclass(frozen=True, kw_only=True)
class ImproveModel(Question):
    """Active learning: simulates where the ensemble disagrees and where optimizers go, learns on, and does so again.

    Regret and errors are over jobs that no round learns from, whose plans are all simulated. The model after each
    round is in DIR/models; interrupted, the same command goes on.

    Examples: `twin improve model --on edge-linear --against random` ·
    `twin improve learned --on my-job.yaml --rounds 5 --out improved-job` ·
    `twin optimize my-job.yaml --cost-model improved-job/models/active-5`
    """

    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A folder that `twin train` wrote, or `learned`: the shipped one.")
    ]
    on: Annotated[str, typer.Option(metavar="FAMILY", help="A family of `twin list`, or a scenario, which is varied.")]
    rounds: int = option(3, "Rounds of choosing, simulating and learning.", "K", min=1)
    by: str = option("active", "Which plans are simulated: active, disputed, favoured, random.", "NAME")
    against: str | None = option(None, "A second way to compare with, such as random.", "NAME")
    jobs: int = option(8, "New jobs of each round.", "N", min=1)
    each: int = option(6, "Runs of each new job.", "N", "--runs", min=1)
    pool: int = option(200, "Candidate plans of each job.", "N", min=1)
    judges: int = option(8, "Jobs that the model is tested on.", "N", min=1)
    plans: int = option(30, "Simulated plans of each test job.", "N", min=2)
    rehearse: Path | None = option(None, "The dataset of MODEL, so that it forgets less.", "OLD")

    command = "improve"
    shown_by = "improvement.told"

    def ask(self, seed: int, out: Path, runs: Runs) -> ModelImproved:
        """Improves the model; those of all rounds are in `out`. Raises BadInput for options that make no sense."""
        from scenarios.improving import LearningPlan, ModelImproved, history, job_pool, require_ensemble, strategy

        strategies = list(dict.fromkeys([self.by, *([self.against] if self.against is not None else [])]))
        for flag, name in zip(("--by", "--against"), strategies, strict=False):
            strategy(name, flag)
        if self.each > self.pool:
            raise BadInput(
                f"--runs {self.each} of a job cannot be chosen from --pool {self.pool} plans; give a larger pool"
            )
        start = model_of(self.model)
        require_ensemble(start)
        old = None if self.rehearse is None else _rehearsed(start, self.rehearse)
        where = job_pool(self.on, seed)
        if self.judges > where.most:
            raise BadInput(f"--judges {self.judges}: {self.on} has {where.most} jobs to judge on; give no more")
        asked: dict[str, Any] = {"command": self.command, "model": self.model, "weights": _weights(start)}
        asked |= {"on": self.on, "seed": seed, "jobs": self.jobs, "runs": self.each, "pool": self.pool}
        asked |= {"judges": self.judges, "plans": self.plans}
        asked |= {"rehearse": None if self.rehearse is None else str(self.rehearse)}
        question = {name: None if value is None else str(value) for name, value in asked.items()}
        with runs.bench(question, keeps="the finished runs and models") as bench:
            how, size = LearningPlan(self.jobs, self.each, self.pool, seed, old), (self.judges, self.plans)
            rows, words = history(start, where, strategies, self.rounds, how, size, bench, out, runs.audience)
        return ModelImproved(**asked, rounds=self.rounds, rows=rows, compared=words)


def model_of(name: str | Path) -> LearnedCostModel:
    """Cost model in a folder, or the shipped one. Raises BadInput if there is none."""
    from models import prediction, shipped

    return shipped.model() if str(name) == shipped.NAME else prediction.load(Path(name))


def _rehearsed(model: LearnedCostModel, rows: Path) -> tuple[Dataset, RowSplit]:
    from scenarios import learning

    old = learning.rows_of(rows)
    return old, learning.training_split(model, old)


def _weights(model: LearnedCostModel) -> str:
    """Hash (12 hex digits) of all weights of the networks."""
    import hashlib

    import jax
    import numpy as np

    digest = hashlib.sha256()
    for leaf in jax.tree.leaves([ensemble.members for ensemble in model.ensembles]):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()[:12]


def _say_blindness(runs: Runs, scenario: str, blind: Mapping[str, Sequence[str]]) -> None:
    """Notes for each cost model the features of the scenario that it ignores."""
    for name, words in blind.items():
        runs.note(f"note ({scenario}): the cost model {name} ignores {'; '.join(words)}")


QUESTIONS: tuple[type[Question], ...] = (OptimizePlan, ValidatePlans, BenchmarkSuite, ImproveModel)
