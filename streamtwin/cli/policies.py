"""`twin compare-policies`: compares policies that control a job, on the same load."""

from __future__ import annotations

from typing import Annotated

import typer

from streamtwin.cli.asking import AskingOne
from streamtwin.cli.given import ScenarioName


def compare_policies(
    scenario: ScenarioName,
    asking: AskingOne,
    policies: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="Two or more, 'none' among them if wanted; with options: '{name: ds2, margin: 0.1}'. The first is "
            "what the others are compared with. Repeatable.",
        ),
    ] = None,
    slo: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Highest end-to-end latency for 99 % of results: 500ms.")
    ] = None,
    replications: Annotated[int, typer.Option(metavar="N", help="Runs of each policy.")] = 5,
) -> None:
    """Compares policies on one load: backlog, latency, SLO, replicas, migrations, oscillations, all with intervals.

    Examples: `twin compare-policies rush-hour-scaling --policies none,ds2,flink-autoscaler --slo 5s` ·
    `twin compare-policies wikipedia-top-k --policies balance,flux --replications 3` ·
    `twin compare-policies rush-hour-scaling --policies "ds2,{name: ds2, calm_periods: 3}" --out answer`
    """
    from scenarios.questions import single_run
    from scenarios.questions.control_measures import judge
    from scenarios.questions.policies_compared import compared, variants
    from scenarios.questions.replications import Wanted
    from scenarios.questions.whatif import check
    from streamtwin.answers.policies import told
    from twin.quantities import duration_s

    wanted, slo_s = Wanted(replications), None if slo is None else duration_s(slo, "--slo")
    wanted.check()
    given = asking.scenario(scenario, "comparing policies")
    candidates = variants(given, policies or ())
    cases = {variant.label: single_run.key(variant.scenario) for variant in candidates}
    with asking.bench(judge(slo_s)) as bench:
        check(bench, candidates)
        asking.keep(bench, {"command": "compare-policies", "variants": cases, "seed": given.run.seed, "slo_s": slo_s})
        answer = compared(bench, candidates, slo_s, wanted, given.run.seed, asking.terminal)
    asking.answered(answer, told)
