"""`twin sensitivity`: which inputs of a scenario matter for a metric."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtwin.cli.asking import AskingOne
from streamtwin.cli.given import ScenarioName


def sensitivity(
    scenario: ScenarioName,
    asking: AskingOne,
    input_: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="PATH=LOW..HIGH", help="An input and its interval; LOW..HIGH:log. Repeatable."),
    ] = None,
    metric: Annotated[str, typer.Option(metavar="NAME", help="The metric to explain.")] = "e2e_latency_s",
    trajectories: Annotated[int, typer.Option(metavar="N", help="Runs of Morris' screening.")] = 10,
    samples: Annotated[int, typer.Option(metavar="N", help="Samples for Sobol's indices; a power of 2.")] = 64,
    replications: Annotated[int, typer.Option(metavar="N", help="Runs of each point.")] = 2,
) -> None:
    """Which inputs matter: screening (Morris), then how much of the variance each explains (Sobol); a tornado figure.

    Examples: `twin sensitivity rush-hour --input workload.arrivals.gates.rate_per_s=600..1200
    --input cluster.hosts.edge-2.cpu_percent=80..120 --input cluster.hosts.edge-2.latency_ms=5..50 --out answer`
    """
    loaded = asking.scenario(scenario, "sensitivity")
    from scenarios.questions import sensitivity as asked
    from scenarios.questions import single_run
    from scenarios.questions.measures import full_name
    from streamtwin.answers.sensitivity import told

    budget = asked.SampleBudget(trajectories, samples, replications)
    budget.check()
    inputs = asked.inputs(input_ or [], loaded)
    model = asked.Model(loaded, inputs, full_name(metric, loaded, "--metric"), replications, loaded.run.seed)
    question = {"command": "sensitivity", "scenario": single_run.key(loaded), "inputs": input_, "seed": loaded.run.seed}
    with asking.bench() as bench:
        bench.check(loaded)
        asking.keep(bench, question)
        answer = asked.sensitivity(model, budget, bench, asking.terminal)
    asking.answered(answer, told)
