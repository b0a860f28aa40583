"""`twin dry-run`: tries a change of a running job in the simulator before it is made."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtwin.cli.asking import AskingOne
from streamtwin.cli.given import ScenarioName, seconds


def dry_run(
    scenario: ScenarioName,
    asking: AskingOne,
    rescale: Annotated[
        list[str] | None,
        typer.Option(metavar="OPERATOR=N", help="Replicas, or their places: OPERATOR=HOST,HOST. Repeatable."),
    ] = None,
    migrate: Annotated[
        list[str] | None,
        typer.Option(metavar="OPERATOR=HOST", help="To a host or socket; OPERATOR[1]=HOST: one replica."),
    ] = None,
    fail: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="This host fails, and the job restarts.")
    ] = None,
    at: Annotated[
        float | None,
        typer.Option(metavar="S", parser=seconds, help="Simulated time of the change. Default: a third of the run."),
    ] = None,
    recover_after: Annotated[
        float | None,
        typer.Option(metavar="S", parser=seconds, help="With --fail: seconds until the job runs again. Default: 10."),
    ] = None,
    failover: Annotated[
        str | None, typer.Option(metavar="region|full|both", help="With --fail: what restarts; both: a comparison.")
    ] = None,
    lost: Annotated[
        str | None,
        typer.Option(
            metavar="spread|wait",
            help="With --fail: the host stays lost; its subtasks spread over others, or the job waits.",
        ),
    ] = None,
    replications: Annotated[int, typer.Option(metavar="N", help="Pairs of runs.")] = 5,
) -> None:
    """Tries a change of a running job: how long it pauses, lags and catches up, and which results come late or twice.

    Examples: `twin dry-run failover --rescale per-page=8 --at 100` ·
    `twin dry-run failover --fail worker-1 --set events=[]` ·
    `twin dry-run failover --migrate "per-page[0]=worker-3" --replications 10 --out answer` ·
    `twin dry-run checkpointed-shop --fail worker-3 --failover both --set events=[]`
    """
    from scenarios.questions import dry_run as asked
    from scenarios.questions import single_run
    from scenarios.questions.change_options import USUAL_RECOVERY_S, ChangeOptions, planned
    from scenarios.questions.replications import Wanted
    from streamtwin.answers.dry_run import told

    Wanted(replications).check()
    given = asked.finer(asking.scenario(scenario, "dry run"), recover_after or USUAL_RECOVERY_S)
    change = planned(given, ChangeOptions(rescale or (), migrate or (), fail or (), at, recover_after, failover, lost))
    case = {"command": "dry-run", "case": single_run.key(change.scenario), "seed": given.run.seed}
    with asking.bench(asked.look(change.at_s)) as bench:
        bench.check(change.scenario)
        asking.keep(bench, case)
        answer = asked.dry_run(bench, given, change, replications, given.run.seed, asking.terminal)
    asking.answered(answer, told)
