"""Arguments that several commands take, and their output: results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from scenarios.executing import Lines, Report, bar
from streamtwin.options import Options, seconds
from streamtwin.package import ENDS_WITH_STDIN

if TYPE_CHECKING:
    from rich.console import RenderableType

    from optimizers.interface import PlanningProgress
    from scenarios.files.run_folder import KeptRun
    from twin.scenario import Scenario


# output --------------------------------------------------------------------------------------------------------------
# Output of a command: results on stdout, everything else on stderr.
#
# With --json the result is one JSON document and nothing else may reach stdout, whatever a library prints: stdout is
# redirected to stderr while the command runs, and the document goes to the real one.
#
#  Interruption of commands by Ctrl-C or SIGTERM: the words on what is kept, and the end of the process.


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
        if quiet:
            os.environ["STREAMTWIN_QUIET"] = "1"
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
    def progress(self, what: str) -> Iterator[Report]:
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
            from scenarios.files.documents import document

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
            from scenarios.files.run_folder import write_text

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


INTERRUPTED = 130


class Interrupted(BaseException):
    """Interruption of a command that has kept, printed or written something, which its message names."""


@contextmanager
def kept(what: str) -> Iterator[None]:
    """Context in which an interruption keeps `what`: raises Interrupted on KeyboardInterrupt."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"the same command goes on, {what} are kept") from None


@contextmanager
def _handled(number: signal.Signals, by: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Context in which a signal is handled by `by`; without effect in a thread, or where the signal is ignored."""
    before = signal.getsignal(number)
    if before is signal.SIG_IGN or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(number, by)
    try:
        yield
    finally:
        signal.signal(number, before)


def end_with_stdin() -> None:
    """Ends this process and its group as soon as its standard input is closed, if ENDS_WITH_STDIN is set."""
    if os.environ.pop(ENDS_WITH_STDIN, ""):
        threading.Thread(target=_end_at_its_end, args=(sys.stdin.fileno(),), daemon=True).start()


def _end_at_its_end(number: int) -> None:
    while os.read(number, 1):
        continue
    os.killpg(os.getpgrp(), signal.SIGKILL)


def ended_as_interrupted() -> AbstractContextManager[None]:
    """Context in which SIGTERM (by timeout, a batch system, a shut-down) interrupts the command as Ctrl-C does."""
    return _handled(signal.SIGTERM, signal.default_int_handler)


@contextmanager
def hearing(say: Callable[[str], None]) -> Iterator[Callable[[], bool]]:
    """Context with a function that tells whether Ctrl-C was pressed; only the second one interrupts."""
    pressed = threading.Event()

    def press(_signal: int, _frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        say("interrupted; ending with the best plan so far, Ctrl-C again ends at once")

    with _handled(signal.SIGINT, press):
        yield pressed.is_set


def in_words(interrupted: Interrupted | None) -> str:
    """Line on an interruption. None: nothing is kept."""
    return f"interrupted; {interrupted or 'nothing half-made is left, the same command begins anew'}"


def leave(status: int) -> NoReturn:
    """Ends the process. After an interruption threads of JAX or a solver may still run, and an interpreter that shuts
    down beside them crashes; so the shut-down, which has nothing left to do, is skipped.
    """
    if (status == INTERRUPTED and "jax" in sys.modules) or _solver_left_behind():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _solver_left_behind() -> bool:
    solving = sys.modules.get("optimizers.program")
    return solving is not None and solving.left_behind()


# arguments -----------------------------------------------------------------------------------------------------------
# Arguments that several commands take: a scenario with some of its values replaced, or a run.


def known_scenarios(begun: str) -> list[str]:
    """Names of scenarios of the library that begin with `begun`, for completion; the shell itself completes files."""
    from scenarios.files import registry

    return [name for name in registry.names() if name.startswith(begun)]


def known_documents(begun: str) -> list[str]:
    """Names of commands whose output has a schema that begin with `begun`, for completion."""
    from streamtwin.schemas import DOCUMENTS

    return [name for name in DOCUMENTS if name.startswith(begun)]


ScenarioName = Annotated[
    str,
    typer.Argument(metavar="SCENARIO", help="A name from `twin list`, or a YAML file.", autocompletion=known_scenarios),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="A folder of `twin run --out`, or a scenario, which is run for it.",
        autocompletion=known_scenarios,
    ),
]
Horizon = Annotated[
    float | None, typer.Option("--horizon", metavar="S", parser=seconds, help="Simulated seconds, or as in 2min.")
]
NewYaml = Annotated[Path | None, typer.Option("--out", metavar="YAML", help="New file. Default: stdout.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace one value; operators and hosts by name. Repeatable."),
]
Events = Annotated[
    list[str] | None,
    typer.Option(
        "--event", metavar="EVENT", help="Add an event, in YAML: 'kind: failure, at_s: 60, host: H'. Repeatable."
    ),
]


def scenario_of(
    name: str,
    assignments: Sequence[str] | None,
    events: Sequence[str] | None = None,
    policy: str | None = None,
    **options: object,
) -> Scenario:
    """Scenario of a name or file. The values of --set replace its own, and those of other options theirs; the result is
    checked.

    events: further events, in YAML. policy: another one, whose options --set can then change. options: values by the
    name of a run setting; None if an option was not given. Raises BadInput if a value is not valid.
    """
    from scenarios.files import scenario_file
    from scenarios.files.scenario_file import set_values

    given = [] if policy is None else [(f"policy={policy}", "--set")]
    given += [(each, "--set") for each in assignments or ()]
    given += [
        (f"run.{setting}={value}", f"--{setting.removesuffix('_s')}")
        for setting, value in options.items()
        if value is not None
    ]
    texts, flags = [text for text, _ in given], [flag for _, flag in given]
    return with_events(set_values(scenario_file.load(name), texts, flags), events)


def with_events(scenario: Scenario, events: Sequence[str] | None) -> Scenario:
    """Scenario with further events, in YAML. Raises BadInput if one is not valid."""
    if not events:
        return scenario
    from scenarios.questions.variants import with_all_events

    return with_all_events(scenario, events)


def run_of(
    target: str,
    assignments: Sequence[str] | None,
    plan: str | None = None,
    seed: int | None = None,
    policy: str | None = None,
    events: Sequence[str] | None = None,
    horizon_s: float | None = None,
) -> KeptRun:
    """Run in a folder, or else a run, made now, of the scenario of that name or file.

    Raises BadInput if a value is not valid, or if values are given for a run that is finished already.
    """
    from scenarios.files.run_folder import KeptRun, read_run
    from twin.errors import BadInput
    from twin.simulation import simulate

    if Path(target).is_dir():
        if plan is not None or assignments or events or policy is not None or (seed, horizon_s) != (None, None):
            given = "--plan, --policy, --set, --event, --seed and --horizon"
            raise BadInput(f"{target} is a finished run; {given} need a scenario")
        return read_run(Path(target))
    scenario = scenario_of(target, assignments, events, policy, seed=seed, horizon_s=horizon_s)
    if plan is not None:
        from scenarios.questions.variants import with_plan_of

        scenario = with_plan_of(scenario, plan)
    return KeptRun(scenario.name, scenario, simulate(scenario))
