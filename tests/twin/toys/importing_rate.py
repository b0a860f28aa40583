"""`twin import rate`: a job of one source from a file that holds its rate alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def rate(source: Annotated[Path, typer.Argument()], out: Annotated[Path, typer.Option("--out")]) -> None:
    """A number of records a second as a scenario.

    Example: `twin import rate rate.txt --out job.yaml`
    """
    from scenarios.files import scenario_file
    from twin.scenario import Scenario
    from twin.spec import parse

    host = {"name": "a", "cpu_percent": 100, "ram_mb": 4000, "bandwidth_mbps": 1000, "latency_ms": 1}
    document = {
        "name": "rate",
        "query": {
            "operators": [{"kind": "source", "name": "source"}, {"kind": "sink", "name": "sink"}],
            "streams": [{"producer": "source", "consumer": "sink"}],
        },
        "cluster": {"hosts": [host]},
        "plan": {"placement": {"source": "a", "sink": "a"}},
        "workload": {"arrivals": {"source": {"law": "constant", "rate_per_s": float(source.read_text())}}},
    }
    out.write_text(scenario_file.dump(parse(Scenario, document)))
