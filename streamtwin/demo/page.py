"""Report of the demo: one self-contained page for a reader who knows neither the papers nor this project."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from figures.job_map import job_map
from optimizers.planner.loads import LOADS, loads_of
from scenarios.planning.validation import ValidationRow
from streamtwin.answers.plans import careful
from streamtwin.demo.loop import DemoOutcome, learned_plan
from streamtwin.report.page import inline
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.tables import seconds
from twin.flow import nominal_rates
from twin.query import AnyOperator
from twin.version import VERSION

CLOSE = 0.01
"""Relative difference below which latencies count as equally good."""
OPERATORS = ("operator", "what it does", "reads from", "records/s in", "naive plan", "learned plan")
HOSTS = ("host", "tier", "CPU (100 % = one core)", "memory", "bandwidth out", "latency out")
REGRETS = ("plan by", "latency predicted", "latency simulated", "in the simulator", "regret", "effort of planning")
ACCURACY = ("quantity", "model", "runs", "q-error, median / 95 %", "accuracy (balanced)")
QUANTITIES = {
    "throughput_per_s": "results a second",
    "processing_latency_s": "processing latency",
    "e2e_latency_s": "end-to-end latency",
    "backpressured": "does not keep up",
    "success": "gives results",
}
MODELS = {
    "trees-ratio": "boosted trees on the rate model's answer",
    "flat-log": "Flat Vector, log labels",
    "flat-raw": "Flat Vector",
    "rates": "rate model, not trained",
}
TEMPLATE = Path(__file__).parent / "templates" / "report.html"


def page(outcome: DemoOutcome, pictures: Mapping[str, bytes], out: Path) -> str:
    """HTML page with everything inside it. pictures: PNG files by name. out: folder of the demo's other files."""
    rows = outcome.rows
    loads = loads_of(outcome.scenario)
    naive, learned = rows[0], next(row for row in rows if "learned" in row.optimizer)
    values = {
        "version": VERSION,
        "out": escape(str(out)),
        "verdict": escape(f"{verdict(naive, learned)} {credit(learned, unlearned(rows))}".strip()),
        "careful": "".join(f"<p>{escape(said[0].upper())}{escape(said[1:])}.</p>" for said in careful(rows)),
        "loads": ", ".join(LOADS[load].words for load in loads) + ", which are the highest, too" * (len(loads) == 1),
        "rate": f"{sum(law.mean_rate_per_s for law in outcome.scenario.workload.arrivals.values()):,.0f}",
        "naive_map": job_map(drawn(outcome.scenario, outcome.naive).picture),
        "learned_map": job_map(drawn(outcome.scenario.with_plan(learned_plan(rows)), outcome.learned).picture),
        "operators": _operators(outcome),
        "hosts": _hosts(outcome),
        "runs": str(outcome.settings.runs),
        "rows": str(outcome.training_rows),
        "members": str(outcome.settings.members),
        "replications": str(outcome.settings.replications),
        "references": str(learned.references),
        "horizon": f"{outcome.scenario.run.horizon_s:g}",
        "stages": _html_rows(
            ("stage", "wall time"), ([stage, f"{spent_s:.1f} s"] for stage, spent_s in outcome.seconds.items())
        ),
        "total": f"{sum(outcome.seconds.values()):.0f}",
        "regrets": _html_rows(REGRETS, (_regret(row) for row in rows)),
        "accuracy": _html_rows(ACCURACY, _accuracy(outcome)),
        "test_runs": str(outcome.accuracy.runs),
        "seed": str(outcome.settings.seed),
        **{name.removesuffix(".png"): inline(png) for name, png in pictures.items()},
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def verdict(naive: ValidationRow, learned: ValidationRow) -> str:
    """Result in a sentence, whatever it was."""
    before, after = seconds(naive.simulated), seconds(learned.simulated)
    kept = "cannot keep up with its input" if naive.backpressured else "keeps up with its input"
    text = f"Placed naively, the query {kept} and a result is {before} old when it arrives."
    if not learned.success or learned.backpressured:
        return f"{text} The plan that the learned model chose does not keep up either ({after})."
    return f"{text} Under the plan that the learned model chose it keeps up, and a result is {after} old."


def unlearned(rows: Sequence[ValidationRow]) -> ValidationRow | None:
    """Best plan that was chosen without learning and without simulating; None if none keeps up."""
    told = [row for row in rows if "learned" not in row.optimizer and "simulations" not in row.optimizer]
    kept = [row for row in told if row.success and not row.backpressured and row.simulated is not None]
    return min(kept, key=lambda row: row.simulated or math.inf, default=None)


def credit(learned: ValidationRow, other: ValidationRow | None) -> str:
    """Sentence on whether learning helped, as far as these plans tell."""
    if other is None or other.simulated is None:
        return "" if learned.backpressured else "No plan chosen without learning keeps up."
    named = f"{other.optimizer}: {seconds(other.simulated)}, planned in {seconds(other.plan_s)}"
    if not learned.success or learned.backpressured or learned.simulated is None:
        return f"Learning made it worse: a plan that was chosen without it keeps up ({named})."
    noise = (learned.ci95 or 0.0) + (other.ci95 or 0.0) + CLOSE * other.simulated
    if learned.simulated >= other.simulated - noise:
        found = "a plan as good" if learned.simulated <= other.simulated + noise else "a better plan"
        return f"Learning added nothing here: without it {found} was found ({named})."
    return f"Without learning the best plan found was worse ({named})."


def _regret(row: ValidationRow) -> list[str]:
    if row.regret is None:
        return [row.optimizer, "-", "-", "-", row.message, "-"]
    state = "keeps up" if row.success and not row.backpressured else "does not keep up" if row.success else "fails"
    regret = f"{row.regret:+.1%}" if math.isfinite(row.regret) else "not comparable"
    interval = f" ± {seconds(row.ci95)}" if row.ci95 else ""
    return [
        row.optimizer,
        seconds(row.predicted) + (f" ({row.beside.off_short})" if row.beside is not None else ""),
        seconds(row.simulated) + interval,
        state,
        regret + (f" ± {row.regret_ci95:.1%}" if row.regret_ci95 else ""),
        f"{row.evaluations:,} plan{'s' if row.evaluations != 1 else ''}, {seconds(row.plan_s)}",
    ]


def _accuracy(outcome: DemoOutcome) -> Iterable[list[str]]:
    for row in outcome.accuracy.rows:
        error = "-" if row.q50 is None else f"{row.q50:.2f} / {row.q95:.2f}"
        quantity, model = QUANTITIES.get(row.metric, row.metric), MODELS.get(row.model, f"learned ({row.model})")
        yield [quantity, model, str(row.rows), error, "-" if row.accuracy is None else f"{row.accuracy:.0%}"]


def _operators(outcome: DemoOutcome) -> str:
    scenario = outcome.scenario
    rates = nominal_rates(scenario.query, scenario.workload.arrivals)
    learned = next(row for row in outcome.rows if "learned" in row.optimizer)
    return _html_rows(
        OPERATORS,
        (
            [
                operator.name,
                f"{operator.kind}: {operator.does}",
                _from(outcome, operator),
                f"{rates[operator.name].in_per_s:,.0f}",
                ", ".join(scenario.plan.placement[operator.name]),
                str((learned.plan or {}).get(operator.name, "-")),
            ]
            for operator in scenario.query.topological
        ),
    )


def _from(outcome: DemoOutcome, operator: AnyOperator) -> str:
    return ", ".join(stream.producer for stream in outcome.scenario.query.inputs(operator.name)) or "the meters"


def _hosts(outcome: DemoOutcome) -> str:
    return _html_rows(
        HOSTS,
        (
            [
                host.name,
                host.tier or "-",
                f"{host.cpu_percent:g} %",
                f"{host.ram_mb:,.0f} MB",
                f"{host.bandwidth_mbps:,.0f} Mbit/s",
                f"{host.latency_ms:g} ms",
            ]
            for host in outcome.scenario.cluster.hosts
        ),
    )


def _html_rows(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Heading and body of an HTML table; each cell has its heading, which stands beside it where the page is narrow."""
    head = "".join(f"<th>{escape(each)}</th>" for each in headings)
    cells = (
        [f'<td data-of="{escape(of)}">{escape(cell)}</td>' for of, cell in zip(headings, row, strict=True)]
        for row in rows
    )
    body = "\n".join(f"<tr>{''.join(each)}</tr>" for each in cells)
    return f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
