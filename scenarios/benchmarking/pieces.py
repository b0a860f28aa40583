"""Judges problems of the suite, one by one or several at a time. Judged problems are kept and not judged again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from scenarios.benchmarking.judges import JUDGES
from scenarios.benchmarking.request import BenchmarkRequest
from scenarios.executing.progress import Progress
from scenarios.planning.validation import ValidationRow
from scenarios.suite.members import MEMBERS
from twin.atomic import write_text
from twin.checksums import stamped, unstamped
from twin.errors import BadInput
from twin.executor import Executor

FOLDER = "problems"


@dataclass(frozen=True, slots=True)
class Piece:
    """One problem: a member of a family, by its number from 0."""

    family: str
    number: int

    @property
    def file(self) -> str:
        """Name of the file in which the problem's rows are kept."""
        return f"{self.family}-{self.number + 1}.json"


def pieces(families: Sequence[str], most: int | None) -> list[Piece]:
    """The first `most` problems of each family, or all of them."""
    return [Piece(name, number) for name in families for number in range(len(MEMBERS[name].seeds[:most]))]


def rows(
    wanted: Sequence[Piece], request: BenchmarkRequest, folder: Path | None, executor: Executor, report: Progress
) -> dict[str, list[ValidationRow]]:
    """Rows of each family, in order. folder: holds the rows of judged problems. Raises as the judges do."""
    known = {piece: _kept(folder, piece) for piece in wanted}
    judged = {piece: listed for piece, listed in known.items() if listed is not None}
    report(len(judged), len(wanted))
    missing = [piece for piece in wanted if piece not in judged]

    def done(position: int, made: list[ValidationRow]) -> None:
        piece = missing[position]
        judged[piece] = made
        if folder is not None:
            write_text(folder / FOLDER / piece.file, stamped({"rows": [asdict(row) for row in made]}) + "\n")
        report(len(judged), len(wanted))

    executor.each(partial(judge, request=request), missing, done)
    by_family: dict[str, list[ValidationRow]] = {}
    for piece in wanted:
        by_family.setdefault(piece.family, []).extend(judged[piece])
    return by_family


def judge(piece: Piece, request: BenchmarkRequest) -> list[ValidationRow]:
    """Rows of one problem, one for each answer."""
    return list(JUDGES[MEMBERS[piece.family].asks](piece.family, piece.number, request))


def _kept(folder: Path | None, piece: Piece) -> list[ValidationRow] | None:
    path = None if folder is None else folder / FOLDER / piece.file
    if path is None or not path.exists():
        return None
    try:
        return [ValidationRow(**row) for row in unstamped(path.read_text(encoding="utf-8"))["rows"]]
    except (ValueError, KeyError, TypeError):
        raise BadInput(f"{path} is damaged; remove it, and give the same command again") from None
