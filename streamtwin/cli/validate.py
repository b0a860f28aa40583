"""`twin validate`: checks by simulation the plans that optimizers choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.asking import Answering
from streamtwin.cli.given import Events, Set, scenario_of
from streamtwin.cli.planning_options import PlanRules, Searching, say_blindness
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
        str, typer.Option("--cost-model", metavar="A,B,...", help="Cost models: rates, sim, learned, staged, folders.")
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
    from scenarios.executing.chosen import executor
    from scenarios.planning import leader_board, planner
    from scenarios.planning.cost_models import cost_models
    from scenarios.planning.validation import validate as judged
    from scenarios.questions import folder
    from streamtwin.answers.plans import told
    from twin.scenario import config_hash
    from twin.simulation import simulate

    terminal = answering.terminal
    space, requirements = rules.space(), rules.requirements()
    chosen = planner.optimizers(optimizers)
    objective = planner.purpose(chosen, searching.objective)
    budget = planner.budgeted(chosen, searching.budget)
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
                costs,
                simulate,
                replications,
                seed,
                objective=objective,
                budget=budget,
                references=references,
                space=space,
                requirements=requirements,
                seconds=searching.seconds,
                lead=lambda optimizer, model: planner.led(
                    optimizer, model, planner.fitting(searching.drive, model), seed, searching.prove or 0
                ),
                racing=race,
                executor=runner,
            )
    answer = leader_board.PlansJudged(
        objective=objective, rows=tuple(rows), standings=leader_board.standings(rows), blind_to=blind
    )
    answering.answered(answer, told)
