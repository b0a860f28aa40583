"""Commands that judge optimizers' plans by simulation: `twin validate` on given jobs, `twin benchmark` on the suite."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtwin.cli.asking import Answering
from streamtwin.cli.given import Events, Set, scenario_of
from streamtwin.cli.interruption import kept
from streamtwin.cli.planning_options import Drive, PlanRules, Searching, Seconds, say_blindness
from streamtwin.cli.terminal import Seed

if TYPE_CHECKING:
    from scenarios.planning.validation import ValidationRow


def validate(
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="Names from `twin list`, or YAML files.")
    ],
    searching: Searching,
    rules: PlanRules,
    answering: Answering,
    set_: Set = None,
    event: Events = None,
    seed: Seed = 0,
    optimizers: Annotated[
        str, typer.Option(metavar="A,B,...", help="See `twin list`; as-given keeps the plan.")
    ] = "as-given,random,governor,local-search",
    models: Annotated[
        str,
        typer.Option("--cost-model", metavar="A,B,...", help="rates, rates:peak, sim, learned, staged, folders."),
    ] = "rates",
    replications: Annotated[int, typer.Option(min=1, help="Simulated runs of each plan.")] = 5,
    references: Annotated[int, typer.Option(min=0, help="Random plans simulated for comparison.")] = 30,
    race: Annotated[
        bool, typer.Option("--race/--no-race", help="Stop simulating references that are clearly beaten.")
    ] = True,
) -> None:
    """Simulates the plan of every optimizer and cost model: its regret against the best known plan.

    All have the same budget, of plans asked about (--budget) or of seconds (--time-limit).

    Examples: `twin validate smart-grid` ·
    `twin validate smart-grid word-count --optimizers milp,local-search --cost-model rates,learned,staged --out board` ·
    `twin validate smart-grid --optimizers milp,my_file.py:MyOptimizer` ·
    `twin validate smart-grid advertisement --optimizers governor,costream --cost-model rates,model --replications 10`
    """
    from scenarios.executing.processes import executor
    from scenarios.planning import leader_board, planner
    from scenarios.planning.cost_models import cost_models, with_loads
    from scenarios.planning.validation import validate as judged
    from scenarios.questions import folder
    from streamtwin.answers.plans import told
    from twin.scenario import config_hash
    from twin.simulation import simulate

    terminal = answering.terminal
    space, requirements = rules.space(), rules.requirements()
    chosen = planner.optimizers(optimizers)
    objective = planner.objective_of(chosen, searching.objective)
    budget = planner.budget_of(chosen, searching.budget)
    costs = list(cost_models(models).values())
    loaded = [scenario_of(name, set_, event) for name in scenarios]
    hashes = [config_hash(scenario) for scenario in loaded]
    question = {"scenarios": hashes, "optimizers": optimizers, "cost_models": models}
    asked = {"budget": budget} | {name: getattr(searching, name) for name in ("seconds", "prove", "drive")}
    asked |= {"replications": replications, "references": references, "objective": objective, "seed": seed}
    runner = executor(answering.workers, answering.master, terminal.stage)
    folder.opened(answering.out, {"command": "validate", **question, **asked})
    rows: list[ValidationRow] = []
    blind: dict[str, dict[str, tuple[str, ...]]] = {}
    with runner:
        for scenario in loaded:
            terminal.stage(f"{scenario.name}: planning, then {replications} simulated runs a plan")
            blind[scenario.name] = planner.blindness(scenario, costs)
            say_blindness(terminal, scenario.name, blind[scenario.name])
            rows += judged(
                [scenario],
                chosen,
                with_loads(costs, scenario),
                simulate,
                replications,
                seed,
                objective=objective,
                budget=budget,
                references=references,
                space=space,
                requirements=requirements,
                seconds=searching.seconds,
                planner_of=planner.planners_by_model(searching.drive, seed, searching.prove or 0),
                racing=race,
                executor=runner,
            )
    answer = leader_board.PlansJudged(
        objective=objective, rows=tuple(rows), standings=leader_board.standings(rows), blind_to=blind
    )
    answering.answered(answer, told)


def benchmark(
    answering: Answering,
    families: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Families of `twin list`. Default: all.")
    ] = None,
    optimizers: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Optimizers by name, or FILE.py:CLASS for your own.")
    ] = None,
    models: Annotated[
        str,
        typer.Option("--cost-model", metavar="A,B,...", help="rates, rates:peak, sim, learned, staged, folders."),
    ] = "rates,learned,staged",
    drive: Drive = None,
    most: Annotated[int | None, typer.Option(min=1, metavar="N", help="Problems of each family. Default: all.")] = None,
    budget: Annotated[
        int | None, typer.Option(min=1, help="Plans that a cost model may estimate. Default: 300.")
    ] = None,
    seconds: Seconds = None,
    replications: Annotated[int, typer.Option(min=1, help="Simulated runs of each plan.")] = 3,
    references: Annotated[int, typer.Option(min=0, help="Random plans simulated for comparison.")] = 30,
    seed: Seed = 0,
) -> None:
    """Compares optimizers and cost models on the fixed suite, by simulated regret against the best plan known.

    Some families ask for no placement but for a balance of key groups, or for scaling: all balancing solvers, or all
    policies, answer these. With --out, judged problems are kept, and the same command goes on from there.

    Examples: `twin benchmark --families edge-linear --most 3` · `twin benchmark --out board` ·
    `twin benchmark --optimizers milp,my_file.py:MyOptimizer --cost-model rates,learned`
    """
    from scenarios.benchmarking.pieces import pieces
    from scenarios.benchmarking.pieces import rows as rows_of
    from scenarios.benchmarking.request import BUDGET, BenchmarkRequest, SuiteJudged
    from scenarios.executing.processes import executor
    from scenarios.planning import leader_board, planner
    from scenarios.planning.cost_models import cost_models, is_learned
    from scenarios.questions import folder
    from scenarios.suite.families import families as families_of
    from scenarios.suite.members import MEMBERS, VERSION
    from streamtwin.answers.plans import told_of_suite
    from twin.errors import BadInput

    terminal, out, master = answering.terminal, answering.out, answering.master
    named = [] if optimizers is None else planner.optimizers(optimizers)
    costs = cost_models(models)  # raises for wrong names before anything is judged
    request = BenchmarkRequest(
        optimizers=optimizers,
        cost_models=models,
        drive=drive,
        budget=planner.budget_of(named, budget, BUDGET),
        seconds=seconds,
        replications=replications,
        references=references,
        seed=seed,
    )
    wanted = families_of(families)
    if master is not None and any(is_learned(model) for model in costs.values()):
        raise BadInput(f"--master {master}: learned cost models are not sent there; give --cost-model rates")
    runner = executor(answering.workers, master, terminal.stage)
    asked: dict[str, Any] = {"suite": VERSION, "families": wanted, "most": most, **asdict(request)}
    with kept(f"the judged problems in {out}") if out is not None else nullcontext():
        folder.opened(out, {"command": "benchmark", **asked})
        with terminal.progress("problems") as report, runner:
            rows = rows_of(pieces(wanted, most), request, out, runner, report)
    by_family = {name: leader_board.standings(found) for name, found in rows.items()}
    every = [row for name, found in rows.items() if MEMBERS[name].asks == "placement" for row in found]
    answer = SuiteJudged(
        **asked,
        standings=leader_board.standings(every),
        by_family=by_family,
        rows=tuple(row for found in rows.values() for row in found),
    )
    answering.answered(answer, told_of_suite)
