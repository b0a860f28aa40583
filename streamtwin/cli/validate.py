"""`twin validate`: prove by simulation what optimizers choose."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.asking import Master, OutFolder, Workers, write
from streamtwin.cli.given import Set, scenario_of
from streamtwin.cli.plan_requirements import AtMost, HeadRoom, Prices, plan_requirements
from streamtwin.cli.plan_space import Allow, Moves, Pin, Replicas, Ruled, Rules, Together, plan_space
from streamtwin.cli.search_options import Budget, Drive, Objective, Prove, Seconds, say_blindness
from streamtwin.cli.terminal import AsJson, Quiet, Seed, Terminal

if TYPE_CHECKING:
    from scenarios.planning.validation import ValidationRow


def validate(
    scenarios: Annotated[
        list[str], typer.Argument(metavar="SCENARIO...", help="Names from `twin list`, or YAML files.")
    ],
    set_: Set = None,
    optimizers: Annotated[
        str, typer.Option("--optimizers", metavar="A,B,...", help="See `twin list`; as-given keeps the plan.")
    ] = "as-given,random,governor,local-search",
    models: Annotated[
        str,
        typer.Option("--cost-model", metavar="A,B,...", help="Among rates, sim, learned, staged, model folders."),
    ] = "rates",
    drive: Drive = None,
    objective: Objective = None,
    budget: Budget = 1000,
    seconds: Seconds = None,
    prove: Prove = 0,
    pin: Pin = None,
    allow: Allow = None,
    replicas: Replicas = None,
    rules: Ruled = Rules.NONE,
    together: Together = False,
    moves: Moves = None,
    head_room: HeadRoom = None,
    at_most: AtMost = None,
    prices: Prices = None,
    replications: Annotated[int, typer.Option("--replications", min=1, help="Simulated runs of each plan.")] = 5,
    references: Annotated[
        int,
        typer.Option("--references", min=0, help="Random plans simulated for comparison."),
    ] = 30,
    race: Annotated[
        bool, typer.Option("--race/--no-race", help="Stop simulating references that are clearly beaten.")
    ] = True,
    out: OutFolder = None,
    workers: Workers = None,
    master: Master = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
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
    from streamtwin.tables import tables
    from twin.scenario import config_hash
    from twin.simulation import simulate

    terminal = Terminal(as_json=as_json, quiet=quiet)
    space = plan_space(pin, allow, replicas, rules, together, moves)
    requirements = plan_requirements(head_room, at_most, prices)
    chosen = planner.optimizers(optimizers)
    objective = planner.purpose(chosen, objective)
    costs = list(cost_models(models).values())
    loaded = [scenario_of(name, set_) for name in scenarios]
    question = {"scenarios": [config_hash(each) for each in loaded], "optimizers": optimizers, "cost_models": models}
    asked = {"budget": budget, "seconds": seconds, "prove": prove, "drive": drive, "replications": replications}
    runner = executor(workers, master, terminal.stage)
    folder.opened(
        out,
        {"command": "validate", **question, **asked, "references": references, "objective": objective, "seed": seed},
    )
    rows: list[ValidationRow] = []
    blind: dict[str, dict[str, tuple[str, ...]]] = {}
    with runner:
        for each in loaded:
            terminal.stage(f"{each.name}: planning, then {replications} simulated runs a plan")
            blind[each.name] = planner.blindness(each, costs)
            say_blindness(terminal, each.name, blind[each.name])
            rows += judged(
                [each],
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
                seconds=seconds,
                lead=lambda optimizer, model: planner.led(optimizer, model, planner.fitting(drive, model), seed, prove),
                racing=race,
                executor=runner,
            )
    listed = [asdict(row) for row in rows]
    board = [asdict(each) for each in leader_board.standings(rows)]
    document = {"objective": objective, "rows": listed, "standings": board, "blind_to": blind}
    if out is not None:
        from figures.distributions import distributions

        figure = distributions(leader_board.samples(rows), "simulated cost over the best known", log=True)
        write(terminal, out, document, leader_board.csv_rows(listed), figure)
    total = [tables.of_standings(board)] if len(loaded) > 1 else []
    terminal.result(document, *tables.of_regrets(listed), *total)
