"""`twin whatif` and `twin compare`: variants of a scenario, or scenarios, beside each other with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamtwin.cli import asking
from streamtwin.cli.asking import Master, Metric, OutFolder, Precision, Replications, Workers
from streamtwin.cli.given import ScenarioName, Set, known_scenarios
from streamtwin.cli.terminal import AsJson, Quiet, ScenarioSeed, Terminal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    from streamtwin.tables import comparison_tables

    metrics = asking.metric_names(metric, (each.scenario for each in variants))
    cases = {each.label: single_run.key(each.scenario) for each in variants}
    asked = {"command": command, "variants": cases, "seed": seed}
    with asking.keeping(out), made_by as bench:
        check(bench, variants)
        bench.kept = folder.opened(out, asked)
        document = compared(bench, variants, metrics, wanted, seed, terminal)
    for line in comparison_tables.notes(document):
        terminal.note(line)
    if out is not None:
        asking.write(terminal, out, document, comparison_tables.csv_rows(document), _figure(document))
    terminal.result(document, comparison_tables.of_comparison(document))


def _figure(document: Mapping[str, Any]) -> Figure:
    """Over the values of the first knob if it takes numbers, a line for each combination of all else."""
    from figures.comparison import comparison
    from scenarios.questions.variants import label, short

    rows = document["variants"]
    numeric = [name for row in rows for name, value in row["settings"].items() if _number(value)]
    over = numeric[0] if numeric else None
    drawn = [row for row in rows if over in row["settings"]] if over else rows
    table: dict[str, list[Any]] = {key: [] for key in ("metric", "variant", "series", "x", "mean", "half_width")}
    for row in drawn:
        for metric, cell in row["metrics"].items():
            others = {name: value for name, value in row["settings"].items() if name != over}
            half = cell["half_width95"]
            entry = (metric, row["variant"], label(others), row["settings"].get(over, math.nan) if over else math.nan)
            for key, value in zip(table, (*entry, cell["mean"], math.nan if half is None else half), strict=True):
                table[key].append(value)
    return comparison(table, short(over) if over else "")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
