"""Commands that compare: `twin whatif` variants of a scenario, `twin compare` scenarios, `twin compare-policies`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.asking import AskingGiven, AskingOne, Comparing
from streamtwin.cli.given import Places, ScenarioName, known_scenarios, places, scenario_of

if TYPE_CHECKING:
    from scenarios.questions.variants import Variant


def whatif(
    scenario: ScenarioName,
    comparing: Comparing,
    asking: AskingGiven,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=V1,V2",
            help="Values that a path, 'subtasks of OPERATOR' or hosts takes: a list, 1k..50k:10, 1k..50k:10:log or "
            "1..8. Several make a grid.",
        ),
    ] = None,
    on: Places = None,
    plan: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="A scenario file with another plan. Repeatable.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A policy that reconfigures the job; see `twin list`. Repeatable."),
    ] = None,
    event: Annotated[
        list[str] | None, typer.Option(metavar="EVENT", help="A variant with one more event, in YAML. Repeatable.")
    ] = None,
) -> None:
    """What would happen if: variants of a scenario on the same random numbers, and whether they differ.

    Examples: `twin whatif smart-grid --vary workload.arrivals.meters.rate_per_s=500..3k:6` ·
    `twin whatif rush-hour-scaling --vary "subtasks of match=1..4" --on worker-1,worker-2` ·
    `twin whatif rush-hour-scaling --policy ds2,relieve --vary run.period_s=5,10` ·
    `twin whatif failover --event "kind: slow-down, at_s: 60, host: edge-1, factor: 3" --precision 5%` ·
    `twin whatif smart-grid --plan better.yaml --out answer`
    """
    from scenarios.questions.variants import VariantsQuestion, variants

    loaded = asking.scenario(scenario, "what if")
    found = variants(loaded, VariantsQuestion(vary or (), plan or (), policy or (), event or (), places(on)))
    _answer("whatif", found, comparing, loaded.run.seed, asking)


def compare(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Names from `twin list`, or YAML files; the others are compared with the first.",
            autocompletion=known_scenarios,
        ),
    ],
    comparing: Comparing,
    asking: AskingOne,
) -> None:
    """Two scenarios, or more, on the same random numbers: by how much they differ, and whether that is chance.

    Examples: `twin compare smart-grid-local smart-grid-global` · `twin compare before.yaml after.yaml --precision 2%`
    """
    asking.terminal.stage(f"reading {', '.join(scenarios)}")
    from scenarios.questions.variants import Variant, as_variants

    given = [scenario_of(name, asking.set_, asking.event, horizon_s=asking.horizon) for name in scenarios]
    found = as_variants([Variant(name, each) for name, each in zip(scenarios, given, strict=True)])
    seed = found[0].scenario.run.seed if asking.seed is None else asking.seed
    _answer("compare", found, comparing, seed, asking)


def _answer(command: str, variants: Sequence[Variant], comparing: Comparing, seed: int, asking: AskingGiven) -> None:
    from scenarios.questions import single_run
    from scenarios.questions.whatif import compared
    from streamtwin.answers.comparison import told

    wanted, metrics = comparing.wanted(), comparing.metrics(variant.scenario for variant in variants)
    cases = {variant.label: single_run.key(variant.scenario) for variant in variants}
    with asking.bench() as bench:
        asking.keep(bench, {"command": command, "variants": cases, "seed": seed})
        answer = compared(bench, variants, metrics, wanted, seed, asking.terminal)
    asking.answered(answer, told)


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
    from streamtwin.answers.policies import told
    from twin.quantities import duration_s

    wanted, slo_s = Wanted(replications), None if slo is None else duration_s(slo, "--slo")
    wanted.check()
    given = asking.scenario(scenario, "comparing policies")
    candidates = variants(given, policies or ())
    cases = {variant.label: single_run.key(variant.scenario) for variant in candidates}
    with asking.bench(judge(slo_s)) as bench:
        asking.keep(bench, {"command": "compare-policies", "variants": cases, "seed": given.run.seed, "slo_s": slo_s})
        answer = compared(bench, candidates, slo_s, wanted, given.run.seed, asking.terminal)
    asking.answered(answer, told)
