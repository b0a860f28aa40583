"""The `twin` command: its sub-commands, which are files of `streamtwin/cli`, and its exit status.

Exit status: 0 done; 2 bad input (one line on stderr: what, value, remedy); 130 interrupted, by Ctrl-C or SIGTERM; 1
anything else (one line; the traceback with --traceback or TWIN_TRACEBACK=1). Heavy libraries are imported inside the
commands that need them.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from streamtwin.cli import calibrating, importing, learning, library, questions, runs
from streamtwin.cli.terminal import INTERRUPTED, Interrupted, end_with_stdin, ended_as_interrupted, in_words, leave
from streamtwin.options import add
from streamtwin.package import PACKAGES
from streamtwin.questions.runs import QUESTIONS
from twin import VERSION
from twin.errors import BadInput, Unfinished, one_line, suggest

UsageError: Any = typer.BadParameter.__base__
ClickException: Any = UsageError.__base__
"""Base classes of errors of the click that typer uses, whether click is installed or is a part of typer."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a system whose disk, or whose user's share of it, is full."""
app = typer.Typer(
    name="twin",
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
REAL_SYSTEMS = "Real systems"
COMMANDS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "Start here": {"demo": library.demo, "serve": library.serve},
    "Scenarios": {
        "list": library.list_all,
        "show": library.show,
        "schema": library.schema,
        "run": runs.run,
        "export": runs.export,
    },
    "Questions": {
        **{each.command: questions.command(each) for each in QUESTIONS},
        "shadow": questions.shadow,
        "report": runs.report,
    },
    "Cost model": {
        "corpus": learning.corpus,
        "dataset": learning.dataset,
        "train": learning.train,
        "evaluate": learning.evaluate,
        "improve": questions.improve,
    },
    "Plans": {
        "profile": questions.profile,
        "optimize": questions.optimize,
        "validate": questions.validate,
        "benchmark": questions.benchmark,
    },
    "Published experiments": {"reproduce": library.reproduce},
    REAL_SYSTEMS: {
        "validate-runs": importing.validate_runs,
        "calibrate": calibrating.calibrate,
        "use-profile": calibrating.use_profile,
    },
    "Other": {"version": library.version},
}
"""Commands, by their heading in the help."""
IMPORTERS: Mapping[str, Callable[..., None]] = {
    "run-graph": importing.run_graph,
    "flink": importing.flink,
    "flink-config": importing.flink_config,
    "kafka-streams": importing.kafka_streams,
    "lstopo": importing.lstopo,
    "numactl": importing.numactl,
    "mlc": importing.mlc_alone,
    "metrics": importing.metrics,
}
"""Commands of `twin import`."""
imports = typer.Typer(no_args_is_help=True, help="Turns what another tool wrote into a scenario file.")
for panel, commands in COMMANDS.items():
    for name, function in commands.items():
        add(app, name, panel, function)
for name, function in IMPORTERS.items():
    add(imports, name, None, function)
app.add_typer(imports, name="import", rich_help_panel=REAL_SYSTEMS)


@app.callback(invoke_without_command=True)
def _twin(
    context: typer.Context,
    show_version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    _traceback: Annotated[  # taken out by `main`, wherever it stands; declared here for --help
        bool, typer.Option("--traceback", help="On an internal error, print the traceback (TWIN_TRACEBACK=1).")
    ] = False,
) -> None:
    """A digital twin of stream processing systems: simulate a job, learn its cost, choose where it runs.

    Start with `twin demo`, or `twin list` and `twin run smart-grid`.
    """
    if show_version:
        print(VERSION)
    elif context.invoked_subcommand is None:
        print(context.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    warnings.formatwarning = _in_one_line  # type: ignore[assignment]
    end_with_stdin()
    show_traceback = "--traceback" in words or os.environ.get("TWIN_TRACEBACK", "") not in ("", "0")
    try:
        with ended_as_interrupted():
            status = app([word for word in words if word != "--traceback"], prog_name="twin", standalone_mode=False)
        sys.stdout.flush()
        if status == INTERRUPTED:  # typer has caught the exception
            status = _say(in_words(None), INTERRUPTED)
    except (KeyboardInterrupt, typer.Abort):
        status = _say(in_words(None), INTERRUPTED)
    except Interrupted as interrupted:
        status = _say(in_words(interrupted), INTERRUPTED)
    except BadInput as error:
        first, *others = error.mistakes or (str(error),)
        status = _say(first, 2)
        for mistake in others:
            print(f"  {one_line(mistake)}", file=sys.stderr, flush=True)
    except Unfinished as error:
        status = _say(str(error), 1)
    except ClickException as error:
        text = _one_line(error, words)
        status = _say(text, 2) if text else 2
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 0
    except OSError as error:
        status = _of_files(error, show_traceback)
    except ImportError as error:
        if (error.name or "").partition(".")[0] in PACKAGES:
            raise  # `streamtwin.command` tells which foreign module is in our place
        status = _unexpected(error, show_traceback)
    except Exception as error:
        status = _unexpected(error, show_traceback)
    leave(status if isinstance(status, int) else 0)


def _in_one_line(message: Warning | str, _category: type[Warning], *_place: Any) -> str:
    """Line that a warning is on stderr."""
    return f"twin: {one_line(str(message))}\n"


def _of_files(error: OSError, show_traceback: bool) -> int:
    """Says what the system refused: a full disk, or a file that is none. Other errors of the system are unexpected."""
    if error.errno in FULL:
        where = f" at {error.filename}" if error.filename else ""
        return _say(f"the disk is full{where} ({error.strerror}); free some space, and give the same command again", 1)
    if error.filename is None or isinstance(error, FileNotFoundError):
        return _unexpected(error, show_traceback)
    return _say(f"{error.filename} cannot be used: {error.strerror}; move it away, or name another place", 2)


def _unexpected(error: Exception, show_traceback: bool) -> int:
    if show_traceback:
        traceback.print_exception(error)
    return _say(f"internal error: {type(error).__name__}: {error} (add --traceback for details)", 1)


def _one_line(error: Any, words: Sequence[str]) -> str:
    """Line on an error of the command line; empty if the help was printed instead."""
    message = " ".join(error.format_message().split()).rstrip(".")
    if not isinstance(error, UsageError) or not message:
        return message
    command = error.ctx.command_path if error.ctx else "twin"
    return f"{message}{_given(error, words)}; see '{command} --help'{_similar(error)}"


def _given(error: Any, words: Sequence[str]) -> str:
    """Words for the value that an option was given, where the message leaves it out."""
    for option in getattr(getattr(error, "param", None), "opts", ()):
        if option in words[:-1]:
            return f", got {words[words.index(option) + 1]!r}"
    return ""


def _similar(error: Any) -> str:
    """Hint for an unknown option: that it is retired, or the nearest one of the command if the message has none."""
    from twin.words import LEAVE_OUT, OPTIONS, RETIRED, newer

    name = getattr(error, "option_name", None)
    if name and name.lstrip("-") in RETIRED:
        return f" ({LEAVE_OUT})"
    if name and name.lstrip("-") in OPTIONS:
        return f" ({OPTIONS[name.lstrip('-')]})"
    if not name or getattr(error, "possibilities", None) or error.ctx is None:
        return ""
    today = f"--{newer(name.lstrip('-'))}"
    known = [option for parameter in error.ctx.command.params for option in parameter.opts if option.startswith("--")]
    if today in known and today != name:
        return f" (it is {today} now)"
    hint = suggest(name, known)
    return f" ({hint})" if hint.startswith("did you mean") else ""


def _say(text: str, status: int) -> int:
    print(f"twin: {one_line(text)}", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    main()
