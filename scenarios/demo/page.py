"""The demo's report: one self-contained page for a reader who knows neither the papers nor this project."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from scenarios.demo.loop import Outcome
from scenarios.planning.validation import ValidationRow
from scenarios.telling.tables import seconds
from twin.flow import nominal_rates
from twin.query import AnyOperator
from twin.version import VERSION

TEMPLATE = Path(__file__).parent / "templates" / "report.html"


def page(outcome: Outcome, pictures: Mapping[str, bytes], out: Path) -> str:
    """HTML with everything inside it; `pictures` are PNG files by name, `out` is where the demo's other files are."""
    rows = outcome.rows
    naive, learned = rows[0], next(row for row in rows if "learned" in row.optimizer)
    values = {
        "version": VERSION,
        "out": escape(str(out)),
        "verdict": escape(verdict(naive, learned)),
        "rate": f"{sum(law.mean_rate_per_s for law in outcome.scenario.workload.arrivals.values()):,.0f}",
        "operators": _operators(outcome),
        "hosts": _hosts(outcome),
        "runs": str(outcome.settings.runs),
        "rows": str(outcome.training_rows),
        "members": str(outcome.settings.members),
        "replications": str(outcome.settings.replications),
        "references": str(learned.references),
        "horizon": f"{outcome.scenario.run.horizon_s:g}",
        "stages": _html_rows([stage, f"{spent_s:.1f} s"] for stage, spent_s in outcome.seconds.items()),
        "total": f"{sum(outcome.seconds.values()):.0f}",
        "regrets": _html_rows(_regret(row) for row in rows),
        "accuracy": _html_rows(_accuracy(outcome)),
        "test_runs": str(outcome.accuracy.runs),
        "seed": str(outcome.settings.seed),
        **{name.removesuffix(".png"): _inline(png) for name, png in pictures.items()},
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def verdict(naive: ValidationRow, learned: ValidationRow) -> str:
    """The result in a sentence, whatever it was."""
    before, after = seconds(naive.simulated), seconds(learned.simulated)
    kept = "cannot keep up with its input" if naive.backpressured else "keeps up with its input"
    text = f"Placed naively, the query {kept} and a result is {before} old when it arrives."
    if not learned.success or learned.backpressured:
        return f"{text} The plan that the learned model chose does not keep up either ({after})."
    return f"{text} Under the plan that the learned model chose it keeps up, and a result is {after} old."


def _regret(row: ValidationRow) -> list[str]:
    if row.regret is None:
        return [row.optimizer, "-", "-", "-", row.message, "-"]
    state = "keeps up" if row.success and not row.backpressured else "falls behind" if row.success else "fails"
    regret = f"{row.regret:+.1%}" if math.isfinite(row.regret) else "not comparable"
    interval = f" ± {seconds(row.ci95)}" if row.ci95 else ""
    return [
        row.optimizer,
        seconds(row.predicted),
        seconds(row.simulated) + interval,
        state,
        regret + (f" ± {row.regret_ci95:.1%}" if row.regret_ci95 else ""),
        f"{row.evaluations:,} plans, {seconds(row.plan_s)}",
    ]


def _accuracy(outcome: Outcome) -> Iterable[list[str]]:
    for row in outcome.accuracy.rows:
        error = "-" if row.q50 is None else f"{row.q50:.2f} / {row.q95:.2f}"
        yield [row.metric, row.model, str(row.rows), error, "-" if row.accuracy is None else f"{row.accuracy:.0%}"]


def _operators(outcome: Outcome) -> str:
    scenario = outcome.scenario
    rates = nominal_rates(scenario.query, scenario.workload.arrivals)
    learned = next(row for row in outcome.rows if "learned" in row.optimizer)
    return _html_rows(
        [
            operator.name,
            f"{operator.kind}: {operator.does}",
            _from(outcome, operator),
            f"{rates[operator.name].in_per_s:,.0f}",
            ", ".join(scenario.plan.placement[operator.name]),
            str((learned.plan or {}).get(operator.name, "-")),
        ]
        for operator in scenario.query.topological
    )


def _from(outcome: Outcome, operator: AnyOperator) -> str:
    return ", ".join(stream.producer for stream in outcome.scenario.query.inputs(operator.name)) or "the meters"


def _hosts(outcome: Outcome) -> str:
    return _html_rows(
        [
            host.name,
            host.tier or "-",
            f"{host.cpu_percent:g} %",
            f"{host.ram_mb:,.0f} MB",
            f"{host.bandwidth_mbps:,.0f} Mbit/s",
            f"{host.latency_ms:g} ms",
        ]
        for host in outcome.scenario.cluster.hosts
    )


def _html_rows(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)


def _inline(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
