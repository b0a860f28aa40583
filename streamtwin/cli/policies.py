"""`twin compare-policies`: controllers beside each other on the same load."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtwin.cli import asking
from streamtwin.cli.asking import Master, OutFolder, Workers
from streamtwin.cli.given import ScenarioName, Set
from streamtwin.cli.terminal import AsJson, Quiet, ScenarioSeed, Terminal

Policies = Annotated[
    list[str] | None,
    typer.Option(
        "--policies",
        metavar="NAMES",
        help="Two or more, 'none' among them if wanted; with options: '{name: ds2, margin: 0.1}'. The first is what "
        "the others are compared with. Repeatable.",
    ),
]
Slo = Annotated[
    str | None, typer.Option("--slo", metavar="DURATION", help="End-to-end latency that 99 % of results keep: 500ms.")
]


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command("compare-policies", rich_help_panel="Questions")(compare_policies)


def compare_policies(
    scenario: ScenarioName,
    policies: Policies = None,
    slo: Slo = None,
    set_: Set = None,
    replications: Annotated[int, typer.Option("--replications", metavar="N", help="Runs of each policy.")] = 5,
    out: OutFolder = None,
    workers: Workers = None,
    master: Master = None,
    seed: ScenarioSeed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Policies on one load: backlog, latency, SLO, replicas, migrations, oscillations, and how sure that is.

    Examples: `twin compare-policies rush-hour-scaling --policies none,ds2,flink-autoscaler --slo 5s` ·
    `twin compare-policies wikipedia-top-k --policies balance,flux --replications 3` ·
    `twin compare-policies rush-hour-scaling --policies "ds2,{name: ds2, calm_periods: 3}" --out answer`
    """
    terminal = Terminal(as_json=as_json, quiet=quiet)
    terminal.stage(f"comparing policies: reading {scenario}")
    from scenarios.questions import folder, single_run
    from scenarios.questions.control_measures import judge
    from scenarios.questions.policies_compared import compared, seconds, variants
    from scenarios.questions.whatif import check
    from streamtwin.answers.policies import told

    wanted, slo_s = asking.wanted(replications, None), None if slo is None else seconds(slo)
    given = asking.adjusted(scenario, set_, seed)
    found = variants(given, policies or ())
    cases = {each.label: single_run.key(each.scenario) for each in found}
    asked = {"command": "compare-policies", "variants": cases, "seed": given.run.seed, "slo_s": slo_s}
    with asking.keeping(out), asking.bench(terminal, workers, master, judge(slo_s)) as bench:
        check(bench, found)
        bench.kept = folder.opened(out, asked)
        answer = compared(bench, found, slo_s, wanted, given.run.seed, terminal)
    asking.answered(terminal, answer, told(answer), out)
