"""What can be reported: a folder of a run, a folder of an answer, or a scenario, which is run for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from scenarios.files.run_folder import holds_run, read_run
from scenarios.report.answer_page import answer_page, holds_answer
from scenarios.report.page import OURS
from scenarios.report.run_page import run_page
from twin.errors import BadInput
from twin.scenario import Scenario
from twin.simulation import simulate


def of_folder(folder: Path) -> str:
    """The page of a run or an answer. Raises BadInput if the folder holds neither."""
    if holds_answer(folder):
        return answer_page(folder)
    if holds_run(folder):
        return run_page(*read_run(folder))
    raise BadInput(
        f"{folder} holds neither a run ('twin run --out') nor an answer ('twin whatif --out', and other questions)"
    )


def of_scenario(scenario: Scenario, progress: Callable[[int, int], None] | None = None) -> str:
    """The page of one run of the scenario. Raises BadInput as `twin.simulation.simulate`."""
    return run_page(scenario.name, scenario, simulate(scenario, progress=progress))


def check_ours(out: Path) -> None:
    """Raises BadInput if `out` is there and is no report, or cannot be written."""
    if out.is_dir() or not out.parent.is_dir():
        raise BadInput(f"{out} is a folder, or in none; name a file with --out, such as report.html")
    if out.exists() and OURS not in out.read_text(encoding="utf-8", errors="replace")[:1000]:
        raise BadInput(f"{out} exists and is no report; name another file with --out")
