"""What a question is: a frozen dataclass whose fields are its options, with what it asks, and who presents its answer.

The command, the function in Python and the form on the page follow from it. What simulates is imported where it is
needed, so that `twin --help` does not wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_type_hints

from scenarios.executing import Audience, Lines
from streamtwin.options import Options

if TYPE_CHECKING:
    from scenarios.questions.bench import Bench, Of
    from streamtwin.answers import Presentation
    from twin.scenario import Scenario
    from twin.work import Executor

SILENT = Lines(lambda _text: None)
FAR_AT_ONCE = 16
"""Runs that a Spark master is given side by side."""


@dataclass(frozen=True)
class Runs:
    """Where the runs of a question are made and kept, and who hears of the progress.

    workers: number of processes; None: one a core. master: a Spark master that makes the runs instead. out: folder in
    which runs are kept. kept: context of work that an interruption does not lose, with words for it. command: whether
    a command asks, whose options have other names than in Python. note: takes remarks for people.
    """

    workers: int | None
    master: str | None
    audience: Audience
    out: Path | None = None
    kept: Callable[[str], AbstractContextManager[None]] = lambda _what: nullcontext()
    command: bool = False
    note: Callable[[str], None] = lambda _text: None

    @contextmanager
    def bench(
        self, asked: Mapping[str, Any], of: Of | None = None, keeps: str = "the finished runs"
    ) -> Iterator[Bench]:
        """Context with the bench that makes the runs. asked: what the folder is an answer to. of: makes a run, and
        returns its outcome; None: the measures. keeps: words for what is kept.

        Raises BadInput if the folder holds the answer to another question.
        """
        from scenarios.questions.bench import Bench, outcome
        from scenarios.questions.kept import opened

        with self._keeping(keeps), Bench(self._executor(), of or outcome) as made:
            made.kept = opened(self.out, asked)
            yield made

    @contextmanager
    def executor(self, asked: Mapping[str, Any], keeps: str | None = None) -> Iterator[Executor]:
        """Context with what makes the runs, for a question that needs no bench. Raises BadInput as `bench` does."""
        from scenarios.questions.kept import opened

        executor = self._executor()
        with self._keeping(keeps):
            opened(self.out, asked)
            with executor:
                yield executor

    @property
    def at_once(self) -> int:
        """Number of runs that are made side by side where each decides what is run next."""
        return FAR_AT_ONCE if self.master is not None else self.workers or os.cpu_count() or 1

    def _executor(self) -> Executor:
        from scenarios.executing import executor

        return executor(self.workers, self.master, self.audience.stage)

    def _keeping(self, what: str | None) -> AbstractContextManager[None]:
        return nullcontext() if what is None or self.out is None else self.kept(f"{what} in {self.out}")

    def named(self, field: str, flag: str) -> str:
        """Name of an option in messages: of the field, or the command's flag."""
        return flag if self.command else field


class FormField(NamedTuple):
    """Field of a form. value: what stands there at first. about: the unit, or an example for the job on the page.
    choices: words by value for that job. allowed: words by value, where other values could name files; several may be
    given, separated by commas, if there are no choices."""

    label: str
    value: str = ""
    about: Callable[[Scenario], str] | str = ""
    choices: Callable[[Scenario], Mapping[str, str]] | None = None
    allowed: Callable[[], Mapping[str, str]] | None = None


class Form(NamedTuple):
    """Form of a question on the page. place: among the forms. fields: by the name of an option without its dashes."""

    title: str
    place: int
    fields: Mapping[str, FormField]


@dataclass(frozen=True, kw_only=True)
class Question(Options):
    """Question with the options that all have in Python.

    seed: None: the scenario's own. workers: number of processes; with more than one, a script needs `if __name__ ==
    "__main__":`. master: a Spark master that makes the runs instead. audience: gets reports of the progress.
    """

    seed: int | None = None
    workers: int = 1
    master: str | None = None
    audience: Audience = SILENT

    command: ClassVar[str]
    shown_by: ClassVar[str]
    """Function that presents the answer, as FILE.FUNCTION in `streamtwin/answers`."""
    doing: ClassVar[str] = ""
    form: ClassVar[Form | None] = None

    @classmethod
    def told(cls) -> Callable[[Any], Presentation]:
        """Function that presents an answer."""
        file, _, function = cls.shown_by.partition(".")
        told: Callable[[Any], Presentation] = getattr(import_module(f"streamtwin.answers.{file}"), function)
        return told

    @classmethod
    def answer(cls) -> Any:
        """Type of the answer: of what `told` presents."""
        return get_type_hints(cls.told())["answer"]

    @classmethod
    def presented(cls, document: str) -> Presentation:
        """Presentation of the document of an answer. Raises ValueError for another document."""
        from scenarios.files.documents import read

        return cls.told()(read(cls.answer(), document))

    @property
    def runs(self) -> Runs:
        """Where the runs are made that Python asks for."""
        return Runs(self.workers if self.master is None else None, self.master, self.audience)


class OfScenario(Question):
    """Question about one scenario."""

    def ask(self, scenario: Scenario, runs: Runs) -> Any:
        """Answers the question. Raises BadInput if it cannot be answered."""
        raise NotImplementedError


def texts(given: Mapping[str, Any] | Sequence[str] | None, write: Callable[[Any], str] = str) -> list[str]:
    """Values by name as the command has them, NAME=VALUE; texts stay as they are."""
    if isinstance(given, Mapping):
        return [f"{name}={value if isinstance(value, str) else write(value)}" for name, value in given.items()]
    return list(given or ())
