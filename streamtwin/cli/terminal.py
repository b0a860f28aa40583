"""Output of a command: results on stdout, everything else on stderr.

With --json the result is one JSON document and nothing else may reach stdout, whatever a library prints: stdout is
redirected to stderr while the command runs, and the document goes to the real one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from scenarios.executing.progress import Lines, Progress, bar
from scenarios.files.documents import document
from streamtwin.cli.options import Options

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optimizers.interface import PlanningProgress

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same result.")]
ScenarioSeed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Same seed, same result. Default: the scenario's own.")
]


class Terminal(Options):
    """Output streams of one command, with the options --json and --quiet."""

    def __init__(self, *, as_json: AsJson = False, quiet: Quiet = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self._start_s = time.monotonic()
        self._out: IO[str] = _claim_stdout() if as_json else sys.stdout

    def note(self, text: str) -> None:
        """Prints a line on stderr, unless --quiet is given."""
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def stage(self, text: str) -> None:
        """Prints a line of progress with the seconds since the command began."""
        self.note(f"[{time.monotonic() - self._start_s:5.1f} s] {text}")

    @property
    def waiting(self) -> Callable[[str], None] | None:
        """Function that tells a person who waits how far a run is; None if nobody reads it."""
        return None if self.quiet or self.as_json else self.stage

    @contextmanager
    def progress(self, what: str) -> Iterator[Progress]:
        """Context with a function that shows (done, total) as the work goes on. what: the things that are counted."""
        if self.quiet or not sys.stderr.isatty():
            with Lines(self.stage).progress(what) as report:
                yield report
            return
        with bar(what) as report:
            yield report

    @contextmanager
    def search(self, objective: str) -> Iterator[Callable[[PlanningProgress], None]]:
        """Context with a function that shows the progress of the search for a plan."""
        from streamtwin.tables.chosen_plan import now_and_then, one_line

        if self.quiet or not sys.stderr.isatty():
            yield now_and_then(lambda text: self.stage(f"    {text}"), objective)
            return
        with one_line(objective) as report:
            yield report

    def result(self, found: Any, *renderables: RenderableType) -> None:
        """Prints the result, a result type or a mapping: with --json its document, otherwise the renderables."""
        if self.as_json:
            json.dump(document(found), self._out, allow_nan=False)
            self._out.write("\n")
            self._out.flush()
            return
        from rich.console import Console

        width = None if self._out.isatty() else 120
        console = Console(file=self._out, width=width, highlight=False, soft_wrap=False)
        for number, renderable in enumerate(renderables):
            if number:
                console.print()
            console.print(renderable)
        self._out.flush()

    def file(self, text: str, out: Path | None, found: Any, *renderables: RenderableType) -> None:
        """Writes a result that is a file (YAML, a schema) to `out`, and prints `found` as `result` does; without `out`,
        prints the text, unwrapped and uncoloured. Raises BadInput if `out` exists or cannot be written."""
        if out is not None:
            from scenarios.files.traces import write_text

            write_text(text, out)
        elif not self.as_json:
            self._out.write(text if text.endswith("\n") else f"{text}\n")
            self._out.flush()
            return
        self.result(found, *renderables)


def _claim_stdout() -> IO[str]:
    sys.stdout.flush()
    real = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return real
