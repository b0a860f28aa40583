"""What became of a model over its rounds: regret and errors by simulated run, beside another strategy's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from scenarios.improving.exam import Answered
from scenarios.planning.outcomes import half_width95

COLUMNS: Mapping[str, str] = {
    "strategy": "runs chosen",
    "round": "round",
    "runs": "runs",
    "regret_words": "regret, mean",
    "regret_median": "median",
    "spoilt": "worse kind",
    "error_median": "q-error, median",
    "error_p95": "95 %",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model on all judging jobs. runs: that it learned from. regret +- ci95: mean over the jobs."""

    strategy: str
    round: int
    runs: int
    regret: float
    ci95: float | None
    regret_median: float
    spoilt: int
    error_median: float
    error_p95: float

    @classmethod
    def of(cls, strategy: str, number: int, runs: int, answers: Sequence[Answered]) -> Row:
        """One answer a job."""
        regrets = np.array([each.regret for each in answers])
        errors = np.concatenate([each.errors for each in answers])
        median, p95 = np.quantile(errors, (0.5, 0.95)) if len(errors) else (np.nan, np.nan)
        return cls(
            strategy=strategy,
            round=number,
            runs=runs,
            regret=float(regrets.mean()),
            ci95=half_width95(regrets),
            regret_median=float(np.median(regrets)),
            spoilt=sum(each.spoilt for each in answers),
            error_median=float(median),
            error_p95=float(p95),
        )

    @property
    def shown(self) -> dict[str, Any]:
        """For a reader's table."""
        around = "" if self.ci95 is None else f" ± {self.ci95:.1%}"
        shares = {"regret_words": f"{self.regret:.1%}{around}", "regret_median": f"{self.regret_median:.1%}"}
        return {**asdict(self), **shares}


def compared(first: Sequence[float], second: Sequence[float], names: tuple[str, str]) -> str:
    """A sentence over the regrets after the rounds, job by job, of two strategies. first, second: means by job."""
    apart = np.array(first) - np.array(second)
    half = half_width95(apart)
    mean = float(apart.mean())
    words = f"regret after the rounds, {names[0]} minus {names[1]}: {mean:+.2%}"
    if half is None:
        return f"{words} in one job, which says nothing of others"
    verdict = "no more than chance" if abs(mean) <= half else f"{names[0 if mean < 0 else 1]} is better"
    return f"{words} ± {half:.2%} (95 % interval over {len(apart)} jobs): {verdict}"


def points(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """The table that `figures.lines` draws."""
    return {
        "series": [each.strategy for each in rows],
        "x": [each.runs for each in rows],
        "y": [100.0 * each.regret for each in rows],
    }
