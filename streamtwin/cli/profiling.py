"""Command `twin profile`: the cost of each operator of a job, measured alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.given import ScenarioName, Set, scenario_of
from streamtwin.cli.terminal import ScenarioSeed, Terminal

if TYPE_CHECKING:
    from streamtwin.connect.profiles import OperatorProfile
    from streamtwin.tables.wide import Wide

Percentile = Annotated[
    float | None, typer.Option("--percentile", metavar="P", help="Percentile of execution times to use. Default: 50.")
]


def profile(
    scenario: ScenarioName,
    terminal: Terminal,
    set_: Set = None,
    samples: Annotated[int, typer.Option(min=1, help="Tuples that each operator is measured on.")] = 10_000,
    percentile: Percentile = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the profiles, for `twin optimize --profile`.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the distributions of times (PNG).")] = None,
    seed: ScenarioSeed = None,
) -> None:
    """Runs each operator alone, on a core of its own: the distribution of its time per tuple, and more.

    Examples: `twin profile briskstream-wc` · `twin profile briskstream-lr --out lr.json --figure lr.png`, then
    `twin optimize briskstream-lr --optimizer rlas --profile lr.json --percentile 90`
    """
    from scenarios.files.traces import check_free, write_bytes, write_text
    from streamtwin.connect.profiles import MEDIAN, check_percentile, dump, profiles_of
    from streamtwin.connect.profiles import profile as measured

    check_free(out, figure)
    chosen = check_percentile(MEDIAN if percentile is None else percentile)
    loaded = scenario_of(scenario, set_, seed=seed)
    seed = loaded.run.seed
    with terminal.progress("operators profiled") as report:
        found = measured(loaded.deployment, samples, seed, report)
    profiles = profiles_of(loaded, found, samples, seed)
    if out is not None:
        write_text(dump(profiles), out)
        terminal.note(f"profiles written to {out}; plan with: twin optimize {scenario} --profile {out}")
    if figure is not None:
        from figures.distributions import profile_times
        from scenarios.files.pictures import png

        write_bytes(png(profile_times({name: each.times_s for name, each in found.items()})), figure)
        terminal.note(f"figure written to {figure}")
    document = {**profiles.model_dump(mode="json"), "percentile": chosen}
    terminal.result(document, _table(loaded.name, found, chosen))


def _table(name: str, found: Mapping[str, OperatorProfile], percentile: float) -> Wide:
    from streamtwin.tables import tables

    shown = dict.fromkeys((5.0, percentile, 95.0, 99.0))
    columns = {"operator": "operator", "samples": "samples", "mean": "mean"}
    columns |= {str(each): f"{each:g} %" for each in sorted(shown)}
    columns |= {"memory": "memory (B)", "input": "input (B)", "output": "output (B)", "selectivity": "results/input"}
    rows = [
        {
            "operator": operator,
            "samples": each.samples,
            "mean": tables.seconds(each.mean_s),
            **{str(point): tables.seconds(each.time_s(point)) for point in shown},
            "memory": each.memory_bytes,
            "input": each.input_bytes,
            "output": each.output_bytes,
            "selectivity": each.selectivity,
        }
        for operator, each in found.items()
    ]
    return tables.of_rows(f"{name}: time a tuple on one reference core, and what it reads and makes", columns, rows)
