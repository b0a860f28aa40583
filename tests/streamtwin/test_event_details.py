"""What a table says that events did."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from streamtwin.tables.run_tables import of_run
from tests.twin.event_jobs import job
from twin.simulation import simulate


def test_the_first_replica_is_named_as_any_other() -> None:
    moves = [{"kind": "migration", "operator": "compute", "at_s": 2, "key_groups": [3], "to_replica": 0}]
    run = simulate(job(events=moves, horizon_s=4))
    console = Console(width=200, record=True, file=StringIO())
    console.print(*of_run("job", run))
    assert "to_replica 0" in console.export_text()
