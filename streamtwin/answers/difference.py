"""Difference of two answers to the same question: the figures that differ, and the operators that run elsewhere.

An answer is taken as its document, so that all questions are compared alike: a figure is a number or a yes or no in it,
under the path that leads there.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.files.documents import document
from scenarios.questions.variants import short
from streamtwin.tables import rounding
from streamtwin.tables.tables import Wide, number, of_rows, places, seconds
from twin.metrics import ERRORS
from twin.run import Run

NAMES = ("scenario", "variant", "optimizer", "cost_model", "kind", "name", "strategy")
"""Keys of the texts that name an element of a list."""
ASIDE = frozenset(
    (
        "seed", "replications", "precision", "needed", "comparisons", "settings", "policy", "run_s", "at_s", "period_s",
        "manifest", "low", "high", "trajectories", "samples", "points", "parallelism",
        "seconds", "plan_s", "evaluations", "simulations", "references", "cpu_s", "interrupted", "monotone", "search",
        "values", "difference", "difference95", "share", "share95", "p_value", "p_adjusted", "significant", "beside",
        "standard_errors", "records_in", "idle", "visits", "subtasks", "spent", "parts", "course", "events", "markers",
        "duplicates", "even", "head_room", "used_beyond", "mu", "sigma", "placement", "plan",
    )
)  # fmt: skip
"""Keys of what was asked, of how the answer came about, and of what follows from other figures or explains them."""
ERROR_OF: Mapping[str, str] = {
    "mean": "half_width95",
    "simulated": "ci95",
    "regret": "regret_ci95",
    "mu_star": "mu_star95",
}
"""Keys of half the 95 % interval of a figure beside it, by that figure's key."""
OF_OBJECTIVE = ("predicted", "simulated", "bound", "best")
"""Keys of figures in the unit of the objective."""
PLACES = ("placement", "plan")
MOST_ROWS = 40
"""Most figures that are shown."""


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure of an answer. error: half of its 95 % interval; 0 if there is none. lasts: whether it is a duration."""

    value: float | bool
    error: float = 0.0
    lasts: bool = False

    def shown(self) -> str:
        """Words for it, with its interval."""
        if isinstance(self.value, bool):
            return "yes" if self.value else "no"
        return _written(self.value, self.error, self.lasts)


@dataclass(frozen=True, slots=True)
class Apart:
    """Figure that differs. what: its path."""

    what: str
    first: Figure
    second: Figure

    @property
    def difference(self) -> float:
        """Second less first; not a number for a yes or no."""
        if isinstance(self.first.value, bool) or isinstance(self.second.value, bool):
            return math.nan
        return self.second.value - self.first.value

    @property
    def error(self) -> float:
        """Half of the 95 % interval of the difference, as of independent answers."""
        return math.hypot(self.first.error, self.second.error)

    @property
    def share(self) -> float:
        """Difference as a share of the first one; not a number if that is 0."""
        return self.difference / abs(self.first.value) if self.first.value else math.nan

    def row(self) -> dict[str, str]:
        """Row of a table."""
        apart, sure = self.difference, abs(self.difference) > self.error
        sign = "+" if apart > 0.0 else ""
        return {
            "what": self.what,
            "first": self.first.shown(),
            "second": self.second.shown(),
            "difference": "" if math.isnan(apart) else sign + _written(apart, self.error, self.first.lasts),
            "share": "" if math.isnan(self.share) else f"{100 * self.share:+z,.{int(abs(self.share) < 0.1)}f} %",
            "sure": ("yes" if sure else "no") if self.error else "-",
        }


def tables(question: str, names: Sequence[str], documents: Sequence[Mapping[str, Any]]) -> list[Wide]:
    """Tables of figures that differ between two answers, and of operators that run elsewhere. names: of the answers.

    Figures that only one of them has, as of a variant that the other did not try, are counted. Figures that are written
    alike do not differ.
    """
    heading = dict(zip(("first", "second"), names, strict=True))
    first, second = (dict(figures(each)) for each in documents)
    known = [Apart(what, first[what], second[what]) for what in first if what in second]
    apart = [each for each in known if each.first.shown() != each.second.shown()]
    of = f"{question}: {len(apart)} of {len(known)} figures differ"
    alone = len(first) + len(second) - 2 * len(known)
    more = f"; {alone} are in one of the answers only" * (alone > 0)
    more += f"; the first {MOST_ROWS} of these" * (len(apart) > MOST_ROWS)
    columns = {"what": "", **heading, "difference": "difference", "share": "in %", "sure": "more than chance"}
    found = [of_rows(f"{of}{more}", columns, [each.row() for each in apart[:MOST_ROWS]])]
    moved = list(_moved(*(dict(plans(each)) for each in documents)))
    if moved:
        found.append(of_rows("operators that run elsewhere", {"operator": "operator", **heading}, moved))
    return found


def figures(answer: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    """Yields the figures of an answer's document, by path."""
    errors = answer.get("standard_errors") or {}
    objective = str(answer.get("objective", ""))
    for path, value, error in _numbers(answer, ()):
        known = errors.get(path[0]) if path[1:] in ((), ("mean",)) else None
        lasts = any(each.endswith("_s") and not each.endswith("per_s") for each in ".".join(path).split("."))
        lasts = lasts or (path[-1] in OF_OBJECTIVE and objective.partition(".")[0].endswith("_s"))
        yield _joined(path), Figure(value, ERRORS * known if known else error, lasts)


def plans(answer: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yields where operators run by an answer's document, by path and operator, in words."""
    for key, part in _parts(answer):
        if key in PLACES and isinstance(part, Mapping):
            yield from ((f"{_joined(path)}{name}", _places(at)) for name, at in part.items())
        else:
            yield from plans(part, path if key in ("variants", "rows") else (*path, key))


def of_run(run: Run) -> dict[str, Any]:
    """Document of a run without its subtasks, of which the places stay."""
    whole = document(run.to_dict())
    found = {key: part for key, part in whole.items() if key not in ("events", "markers")}
    of_all = whole["operators"]
    found["operators"] = {
        name: {key: part for key, part in each.items() if key not in ("subtasks", "spent")}
        for name, each in of_all.items()
    }
    found["placement"] = {
        name: dict(Counter(f"{at['host']}/{at['socket']}" if at["socket"] else at["host"] for at in each["subtasks"]))
        for name, each in of_all.items()
    }
    return found


def _numbers(part: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], float | bool, float]]:
    """Yields figures of a part of a document: path, value, and half of the 95 % interval."""
    for key, value in _parts(part):
        if key in ASIDE or key in ERROR_OF.values():
            continue
        if isinstance(value, int | float):
            ends = part.get("interval95") if key == "value" else None
            half = (ends[1] - ends[0]) / 2.0 if ends and None not in ends else part.get(ERROR_OF.get(key, "")) or 0.0
            yield path if key == "mean" and ERROR_OF[key] in part else (*path, key), value, half
        else:
            yield from _numbers(value, path if key in ("variants", "rows", "metrics", "inputs") else (*path, key))


def _parts(part: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parts of an object, and those of a list that have names, which end in a colon."""
    if isinstance(part, Mapping):
        yield from part.items()
    elif isinstance(part, list):
        for each in part:
            about = each if isinstance(each, Mapping) else {}
            names = [about[key] for key in NAMES if isinstance(about.get(key), str)]
            names += [short(each["input"])] if "input" in about else []  # a path
            if names:
                yield f"{' '.join(names)}: ", each


def _joined(path: Sequence[str]) -> str:
    """Path in words: keys with dots between them, after the name of a row."""
    return "".join(each if each.endswith(": ") else f"{each}." for each in path).removesuffix(".")


def _moved(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for name in dict.fromkeys([*first, *second]):
        if name in first and name in second and first[name] != second[name]:
            yield {"operator": name, "first": first[name], "second": second[name]}


def _places(at: Any) -> str:
    """Places in words; the order of subtasks makes no difference."""
    return places(at if isinstance(at, str | Mapping) else dict(sorted(Counter(at).items())))


def _written(value: float, error: float, lasts: bool) -> str:
    """Number or duration with its interval; a sign stands before it."""
    if value < 0.0:
        return f"-{_written(-value, error, lasts)}"
    text = (rounding.seconds if lasts else rounding.number)(value, error) if value else ""
    return text or (seconds if lasts else number)(value)
