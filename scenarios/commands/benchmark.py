"""`twin benchmark`: optimizers and cost models on the fixed suite of placement problems."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scenarios.commands.asking import Master, OutFolder, Workers, write
from scenarios.commands.planning import Drive, Seconds, fitting
from scenarios.commands.terminal import AsJson, Quiet, Seed, Terminal

if TYPE_CHECKING:
    from scenarios.planning.validation import ValidationRow

USUAL = "milp,branch-and-bound,local-search,costream,exhaustive,governor,first-fit,spread,random,as-given"


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command("benchmark", rich_help_panel="Plans")(benchmark)


def benchmark(
    families: Annotated[
        str | None, typer.Option("--families", metavar="A,B,...", help="Of `twin list`; default: all.")
    ] = None,
    optimizers: Annotated[
        str, typer.Option("--optimizers", metavar="A,B,...", help="Names, or FILE.py:CLASS for your own.")
    ] = USUAL,
    models: Annotated[
        str, typer.Option("--cost-model", metavar="A,B,...", help="Of rates, sim, learned, staged, and model folders.")
    ] = "rates,learned,staged",
    drive: Drive = None,
    most: Annotated[
        int | None, typer.Option("--most", min=1, metavar="N", help="Scenarios of each family; default: all.")
    ] = None,
    budget: Annotated[int, typer.Option("--budget", min=1, help="Plans that a cost model may be asked about.")] = 300,
    seconds: Seconds = None,
    replications: Annotated[int, typer.Option("--replications", min=1, help="Simulated runs of each plan.")] = 3,
    references: Annotated[int, typer.Option("--references", min=0, help="More plans that are simulated.")] = 30,
    out: OutFolder = None,
    workers: Workers = None,
    master: Master = None,
    seed: Seed = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compares optimizers and cost models on the fixed suite; regret is in the simulator, to the best plan known.

    Examples: `twin benchmark --families edge-linear --most 3` · `twin benchmark --out board` ·
    `twin benchmark --optimizers milp,my_file.py:MyOptimizer --cost-model rates,learned`
    """
    from scenarios.asking import folder
    from scenarios.executing.chosen import executor
    from scenarios.planning import leader_board, planner
    from scenarios.planning.cost_models import cost_models
    from scenarios.planning.validation import validate
    from scenarios.suite.members import VERSION
    from scenarios.suite.registry import families as families_of
    from scenarios.telling import tables
    from twin.simulation import simulate

    terminal = Terminal(as_json=as_json, quiet=quiet)
    chosen, costs, wanted = planner.optimizers(optimizers), list(cost_models(models).values()), families_of(families)
    asked: dict[str, Any] = {"suite": VERSION, "families": [each.name for each in wanted], "optimizers": optimizers}
    asked |= {"cost_models": models, "drive": drive, "most": most, "budget": budget, "seconds": seconds}
    runner = executor(workers, master, terminal.stage)
    folder.opened(
        out, {"command": "benchmark", **asked, "replications": replications, "references": references, "seed": seed}
    )
    rows: dict[str, list[ValidationRow]] = {each.name: [] for each in wanted}
    with terminal.progress("scenarios") as report, runner:
        total, done = sum(len(each.seeds[:most]) for each in wanted), 0
        for family in wanted:
            for scenario in family.scenarios(most):
                rows[family.name] += validate(
                    [scenario],
                    chosen,
                    costs,
                    simulate,
                    replications,
                    seed,
                    budget=budget,
                    references=references,
                    space=family.space,
                    seconds=seconds,
                    lead=lambda optimizer, model: planner.led(optimizer, model, fitting(drive, model), seed, 0),
                    racing=True,
                    executor=runner,
                )
                done += 1
                report(done, total)
    every = [row for found in rows.values() for row in found]
    boards = {name: [asdict(each) for each in leader_board.standings(found)] for name, found in rows.items()}
    overall = [asdict(each) for each in leader_board.standings(every)]
    document = {**asked, "standings": overall, "by_family": boards, "rows": [asdict(row) for row in every]}
    if out is not None:
        from figures.distributions import distributions

        figure = distributions(leader_board.samples(every), "simulated cost over the best known", log=True)
        write(terminal, out, document, leader_board.csv_rows(map(asdict, every)), figure)
    shown = [tables.of_standings(board, f"{name}: regret in the simulator") for name, board in boards.items()]
    terminal.result(document, *shown, tables.of_standings(overall))
