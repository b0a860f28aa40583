"""`twin sensitivity`: which inputs of a scenario matter for a metric."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtwin.cli import asking
from streamtwin.cli.asking import Master, OutFolder, Workers
from streamtwin.cli.given import ScenarioName, Set
from streamtwin.cli.terminal import AsJson, Quiet, ScenarioSeed, Terminal

InputTexts = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="PATH=LOW..HIGH", help="An input and its interval; LOW..HIGH:log. Repeatable."),
]


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command("sensitivity", rich_help_panel="Questions")(sensitivity)


def sensitivity(
    scenario: ScenarioName,
    input_: InputTexts = None,
    metric: Annotated[str, typer.Option("--metric", metavar="NAME", help="The metric to explain.")] = "e2e_latency_s",
    trajectories: Annotated[int, typer.Option("--trajectories", metavar="N", help="Runs of Morris' screening.")] = 10,
    samples: Annotated[int, typer.Option("--samples", metavar="N", help="For Sobol's indices; a power of 2.")] = 64,
    replications: Annotated[int, typer.Option("--replications", metavar="N", help="Runs of each point.")] = 2,
    set_: Set = None,
    out: OutFolder = None,
    workers: Workers = None,
    master: Master = None,
    seed: ScenarioSeed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Which inputs matter: screening (Morris), then how much of the variance each explains (Sobol); a tornado figure.

    Examples: `twin sensitivity rush-hour --input workload.arrivals.gates.rate_per_s=600..1200
    --input cluster.hosts.edge-2.cpu_percent=80..120 --input cluster.hosts.edge-2.latency_ms=5..50 --out answer`
    """
    terminal = Terminal(as_json=as_json, quiet=quiet)
    terminal.stage(f"sensitivity: reading {scenario}")
    from scenarios.questions import folder, single_run
    from scenarios.questions import sensitivity as asked
    from scenarios.questions.measures import full_name
    from streamtwin.answers.sensitivity import told

    loaded = asking.adjusted(scenario, set_, seed)
    budget = asked.Budget(trajectories, samples, replications)
    budget.check()
    inputs = asked.inputs(input_ or [], loaded)
    named = full_name(metric, loaded, "--metric")
    question = {"command": "sensitivity", "scenario": single_run.key(loaded), "inputs": input_, "seed": loaded.run.seed}
    with asking.keeping(out), asking.bench(terminal, workers, master) as bench:
        bench.check(loaded)
        bench.kept = folder.opened(out, question)
        model = asked.Model(loaded, inputs, named, replications, loaded.run.seed)
        answer = asked.sensitivity(model, budget, bench, terminal)
    asking.answered(terminal, answer, told(answer), out)
