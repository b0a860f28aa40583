"""Scenarios of Nexmark's queries for the library, made of what was measured at light loads.

    python -m benchmarks.real.nexmark.library runs scenarios/library --machine "two cores of an AMD EPYC"

`runs` is what `python -m benchmarks.real.nexmark --out runs` measured. A scenario has the operators of the SQL plan, as
imported at the lightest load, and their costs as calibrated on the two lightest. It runs at the lightest one, as keys
and partial results are those that were seen there. The first task manager is the machine of the measurement, which ran
the whole job; what others used of it meanwhile is left out. The other task managers, for which there are plans to
choose from, and the network between them, are assumed.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.real.local import flink
from benchmarks.real.nexmark import measuring
from benchmarks.real.nexmark.judging import calibrated
from benchmarks.real.nexmark.measuring import Measured, read
from scenarios.files.scenario_file import dump
from scenarios.questions.knobs import significant
from twin.errors import BadInput
from twin.files import write_text
from twin.scenario import Scenario
from twin.spec import parse

LIGHT = 2
"""Number of the lightest loads that costs are calibrated on."""
DIGITS = 3
"""Significant digits of what was measured: what is repeated differs in the second."""
TASK_MANAGERS = ("tm-1", "tm-2", "tm-3")
ASSUMED = {"bandwidth_mbps": 1000, "latency_ms": 0.5, "price_per_hour": 0.1}
"""What task managers have beside the cores and the memory of the machine."""
UNTOLD = re.compile(r"(query\.operators\.[^=;\s]+)=")
"""Paths in notes of an import of what Flink does not tell."""
RUN = {"horizon_s": 40, "warmup_s": 20}
"""Windows last 10 s, and watermarks are 4 s late, so that first results come after some 15 s."""


def light_of(folder: Path) -> list[Measured]:
    """Points of a query at its lightest loads, from a folder with one for each rate. Raises BadInput for fewer."""
    rates = sorted(int(each.name) for each in folder.glob("*") if each.name.isdigit())[:LIGHT]
    if len(rates) < LIGHT:
        raise BadInput(f"{folder} has {len(rates)} of the {LIGHT} loads that costs are calibrated on; measure it")
    return [read(folder / str(rate)) for rate in rates]


def scenario_of(query: str, light: Sequence[Measured], machine: str) -> Scenario:
    """Scenario of a query from its lightest loads, in order. machine: what the description says of it. Raises BadInput
    if they cannot be calibrated."""
    job = light[0].job.scenario
    (host,) = job.cluster.hosts
    power = {"cpu_percent": host.cpu_percent, "ram_mb": significant(host.ram_mb, DIGITS)}
    fitted = calibrated(light, light[0])
    data = fitted.model_dump(mode="json") | {
        "name": f"nexmark-{query}",
        "query": _rounded(fitted.query.model_dump(mode="json")),
        "engine": fitted.engine.model_copy(update={"service_scv": significant(fitted.engine.service_scv, DIGITS)}),
        "cluster": {"hosts": [{"name": name, **power, **ASSUMED} for name in TASK_MANAGERS]},
        "plan": {"placement": dict.fromkeys(job.plan.placement, TASK_MANAGERS[0]), "fused": job.plan.fused},
        "run": RUN,
    }
    made = parse(Scenario, data, where=query)
    words = _description(query, made, light, machine)
    return made.model_copy(update={"description": " ".join(words)})


def _rounded(value: Any) -> Any:
    """The same, with numbers that are not whole to few digits."""
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    if isinstance(value, float) and math.isfinite(value) and not value.is_integer():
        return significant(value, DIGITS)
    return value


def _description(query: str, made: Scenario, light: Sequence[Measured], machine: str) -> Iterator[str]:
    rates = [each.rate_per_s for each in light]
    yield f"Nexmark {query} as Flink SQL: {measuring.query(query).says}."
    yield (
        "Operators are those of the SQL plan. Costs were calibrated at "
        f"{' and '.join(f'{rate:,.0f}' for rate in rates)} events a second on {machine} with Flink "
        f"{flink.VERSION}; a task has the cost of all that is chained in it at its first operator. Of 50 events 46 "
        "are bids, 3 auctions and 1 a person. Keys and partial results are as at the lower rate, at which it runs. The "
        "first task manager is the machine that was measured; the others, and the network between them, are assumed."
    )
    assumed = [path for note in light[0].job.notes for path in UNTOLD.findall(note) if not path.endswith(".ttl_s")]
    if assumed:
        yield f"Flink does not tell {_listed(assumed)}, which {'are' if len(assumed) > 1 else 'is'} assumed."
    endless = [each.name for each in made.query.operators if each.keeps_rows and getattr(each, "ttl_s", 0.0) is None]
    if endless:
        yield (
            f"Rows of {_listed(endless)} stay for ever, so its state grows without bound; "
            "ttl_s bounds it, as table.exec.state.ttl does."
        )


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def main() -> None:
    """Writes the scenarios of all queries that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="a folder that was measured")
    parser.add_argument("library", type=Path, help="a folder for scenarios")
    parser.add_argument("--machine", required=True, help="what descriptions say of the machine")
    parser.add_argument("--queries", default=",".join(measuring.names()), help="default: all")
    given = parser.parse_args()
    for query in given.queries.split(","):
        try:
            made = scenario_of(measuring.checked(query), light_of(given.runs / f"{query}-1"), given.machine)
        except BadInput as error:
            print(f"{query}: no scenario; {error}")
            continue
        write_text(given.library / f"{made.name}.yaml", dump(made))
        print(f"{query}: {given.library / made.name}.yaml")


if __name__ == "__main__":
    main()
