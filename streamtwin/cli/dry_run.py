"""`twin dry-run`: a change of a running job, tried before it is made."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtwin.cli import asking
from streamtwin.cli.asking import Master, OutFolder, Workers
from streamtwin.cli.given import ScenarioName, Set
from streamtwin.cli.terminal import AsJson, Quiet, ScenarioSeed, Terminal

Rescale = Annotated[
    list[str] | None,
    typer.Option("--rescale", metavar="OPERATOR=N", help="Replicas, or their places: OPERATOR=HOST,HOST. Repeatable."),
]
Migrate = Annotated[
    list[str] | None,
    typer.Option("--migrate", metavar="OPERATOR=HOST", help="To a host or socket; OPERATOR[1]=HOST: one replica."),
]
Fail = Annotated[list[str] | None, typer.Option("--fail", metavar="HOST", help="A host dies; the job restarts.")]
Failover = Annotated[
    str | None,
    typer.Option("--failover", metavar="WHAT", help="With --fail: restart the region, the full job, or compare both."),
]


def register(app: typer.Typer) -> None:
    """Adds the command of this file."""
    app.command("dry-run", rich_help_panel="Questions")(dry_run)


def dry_run(
    scenario: ScenarioName,
    rescale: Rescale = None,
    migrate: Migrate = None,
    fail: Fail = None,
    at: Annotated[
        float | None, typer.Option("--at", metavar="S", help="When, in simulated seconds. Default: a third of the run.")
    ] = None,
    recover_after: Annotated[
        float, typer.Option("--recover-after", metavar="S", help="With --fail: seconds until the job runs again.")
    ] = 10.0,
    failover: Failover = None,
    set_: Set = None,
    replications: Annotated[int, typer.Option("--replications", metavar="N", help="Pairs of runs.")] = 5,
    out: OutFolder = None,
    workers: Workers = None,
    master: Master = None,
    seed: ScenarioSeed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """A change of a running job: how long it pauses, lags and catches up, and which results come late or twice.

    Examples: `twin dry-run failover --rescale per-page=8 --at 100` ·
    `twin dry-run failover --fail worker-1 --set events=[]` ·
    `twin dry-run failover --migrate "per-page[0]=worker-3" --replications 10 --out answer` ·
    `twin dry-run checkpointed-shop --fail worker-3 --failover both --set events=[]`
    """
    terminal = Terminal(as_json=as_json, quiet=quiet)
    terminal.stage(f"dry run: reading {scenario}")
    from scenarios.questions import dry_run as asked
    from scenarios.questions import folder, single_run
    from scenarios.questions.change_options import Change, planned
    from streamtwin.answers.dry_run import told

    asking.wanted(replications, None)
    given = asked.finer(asking.adjusted(scenario, set_, seed))
    change = planned(given, Change(rescale or (), migrate or (), fail or (), at, recover_after, failover))
    case = {"command": "dry-run", "case": single_run.key(change.scenario), "seed": given.run.seed}
    with asking.keeping(out), asking.bench(terminal, workers, master, asked.look(change.at_s)) as bench:
        bench.check(change.scenario)
        bench.kept = folder.opened(out, case)
        answer = asked.dry_run(bench, given, change, replications, given.run.seed, terminal)
    asking.answered(terminal, answer, told(answer), out)
