"""`twin report`: a run, a scenario or an answer as one page to read and to send."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from streamtwin.cli.given import Events, PolicyName, Set, known_scenarios, run_of
from streamtwin.cli.terminal import ScenarioSeed, Terminal


def report(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A folder of `twin run --out` or of a question, or a scenario to run.",
            autocompletion=known_scenarios,
        ),
    ],
    terminal: Terminal,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The page. Default: NAME.html in the current folder.")
    ] = None,
    plan: Annotated[
        str | None, typer.Option(metavar="FILE", help="Run the scenario under the plan of this file.")
    ] = None,
    policy: PolicyName = None,
    set_: Set = None,
    event: Events = None,
    seed: ScenarioSeed = None,
) -> None:
    """One self-contained page: the query on its hosts, the bottleneck in a sentence, time-lines, tables.

    Examples: `twin report smart-grid` · `twin report rush-hour-scaling --policy ds2` ·
    `twin report smart-grid --plan better.yaml --out better.html` ·
    `twin run failover --out trace`, then `twin report trace` · `twin whatif word-count --policy ds2 --out answer`, then
    `twin report answer`
    """
    terminal.stage(f"report: reading {target}")
    from streamtwin.report.page import check_ours

    page = out if out is not None else Path(f"{Path(target).resolve().stem if Path(target).exists() else target}.html")
    check_ours(page)
    if page.exists():
        terminal.note(f"note: replaces the report {page}")
    html = _html(target, plan, policy, set_, event, seed)
    _write(page, html)
    terminal.result({"page": page, "bytes": len(html.encode())}, f"report written to {page}; open it in a browser")


def _html(
    target: str, plan: str | None, policy: str | None, set_: list[str] | None, event: list[str] | None, seed: int | None
) -> str:
    from streamtwin.report.answer_page import answer_page, holds_answer
    from streamtwin.report.run_page import run_page

    if plan is None and policy is None and not set_ and not event and seed is None and holds_answer(Path(target)):
        return answer_page(Path(target))
    return run_page(*run_of(target, set_, plan, seed, policy, event))


def _write(page: Path, html: str) -> None:
    from twin.atomic import write_text
    from twin.errors import BadInput

    try:
        write_text(page, html)
    except OSError as error:
        raise BadInput(f"{page} cannot be written: {error.strerror}; name another file with --out") from None
