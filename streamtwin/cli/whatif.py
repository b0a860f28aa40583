"""`twin whatif` and `twin compare`: variants of a scenario, or scenarios, beside each other with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtwin.cli import asking
from streamtwin.cli.asking import Master, Metric, OutFolder, Precision, Replications, Workers
from streamtwin.cli.given import ScenarioName, Set, known_scenarios
from streamtwin.cli.terminal import AsJson, Quiet, ScenarioSeed, Terminal

if TYPE_CHECKING:
    from scenarios.questions.bench import Bench
    from scenarios.questions.variants import Variant

Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary",
        metavar="PATH=V1,V2",
        help="Values that a path, or 'replicas of OPERATOR', takes: a list, 1k..50k:10, 1k..50k:10:log or 1..8. "
        "Several make a grid.",
    ),
]
Plan = Annotated[
    list[str] | None, typer.Option("--plan", metavar="FILE", help="A scenario file with another plan. Repeatable.")
]
Policies = Annotated[
    list[str] | None,
    typer.Option("--policy", metavar="NAME", help="A policy that reconfigures the job; see `twin list`. Repeatable."),
]
EventText = Annotated[
    list[str] | None,
    typer.Option("--event", metavar="EVENT", help="A variant with one more event, in YAML. Repeatable."),
]


def register(app: typer.Typer) -> None:
    """Adds the commands of this file."""
    app.command("whatif", rich_help_panel="Questions")(whatif)
    app.command("compare", rich_help_panel="Questions")(compare)


def whatif(
    scenario: ScenarioName,
    vary: Vary = None,
    plan: Plan = None,
    policy: Policies = None,
    event: EventText = None,
    set_: Set = None,
    metric: Metric = None,
    replications: Replications = 10,
    precision: Precision = None,
    out: OutFolder = None,
    workers: Workers = None,
    master: Master = None,
    seed: ScenarioSeed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """What would happen if: variants of a scenario on the same random numbers, and whether they differ.

    Examples: `twin whatif smart-grid --vary workload.arrivals.meters.rate_per_s=500..3k:6` ·
    `twin whatif rush-hour-scaling --policy ds2,relieve --vary run.period_s=5,10` ·
    `twin whatif failover --event "kind: slow-down, at_s: 60, host: edge-1, factor: 3" --precision 5%` ·
    `twin whatif smart-grid --plan better.yaml --out answer`
    """
    terminal = Terminal(as_json=as_json, quiet=quiet)
    terminal.stage(f"what if: reading {scenario}")
    from scenarios.questions.variants import Question, variants

    question = Question(vary or (), plan or (), policy or (), event or ())
    loaded = asking.adjusted(scenario, set_, seed)
    found = variants(loaded, question)
    made_by = asking.bench(terminal, workers, master)
    _answer(terminal, "whatif", found, metric, asking.wanted(replications, precision), loaded.run.seed, out, made_by)


def compare(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="A B...",
            help="Names from `twin list`, or YAML files; the others are compared with the first.",
            autocompletion=known_scenarios,
        ),
    ],
    set_: Set = None,
    metric: Metric = None,
    replications: Replications = 10,
    precision: Precision = None,
    out: OutFolder = None,
    workers: Workers = None,
    master: Master = None,
    seed: ScenarioSeed = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Two scenarios, or more, on the same random numbers: by how much they differ, and whether that is chance.

    Examples: `twin compare smart-grid-local smart-grid-global` · `twin compare before.yaml after.yaml --precision 2%`
    """
    terminal = Terminal(as_json=as_json, quiet=quiet)
    terminal.stage(f"reading {', '.join(scenarios)}")
    from scenarios.questions.scenarios_compared import variants

    found = variants(scenarios, set_ or ())
    first = found[0].scenario
    chosen = first.run.seed if seed is None else seed
    made_by = asking.bench(terminal, workers, master)
    _answer(terminal, "compare", found, metric, asking.wanted(replications, precision), chosen, out, made_by)


def _answer(
    terminal: Terminal,
    command: str,
    variants: Sequence[Variant],
    metric: Sequence[str] | None,
    wanted: Any,
    seed: int,
    out: Path | None,
    made_by: Bench,
) -> None:
    from scenarios.questions import folder, single_run
    from scenarios.questions.whatif import check, compared
    from streamtwin.answers.comparison import told

    metrics = asking.metric_names(metric, (each.scenario for each in variants))
    cases = {each.label: single_run.key(each.scenario) for each in variants}
    asked = {"command": command, "variants": cases, "seed": seed}
    with asking.keeping(out), made_by as bench:
        check(bench, variants)
        bench.kept = folder.opened(out, asked)
        answer = compared(bench, variants, metrics, wanted, seed, terminal)
    asking.answered(terminal, answer, told(answer), out)
