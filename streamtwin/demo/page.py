"""Report of the demo: one self-contained page for a reader who knows neither the papers nor this project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from figures.job_map import job_map
from scenarios.questions.kept import said_once
from streamtwin.demo.loop import DemoOutcome
from streamtwin.demo.story import PROMISE, JudgedPlan, Story, added
from streamtwin.report.page import STYLE, inline
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.tables import seconds
from twin.cluster import Host
from twin.deployment import nominal_rates
from twin.scenario import Scenario
from twin.version import VERSION

OPERATORS = ("operator", "what it does", "records/s in", "as given", "best plan")
HOSTS = ("hosts", "where", "CPU (100 % = one core)", "memory", "bandwidth out", "latency out")
PLANS = (
    "plan by",
    "99 of 100 stops within",
    "promise kept",
    "mean",
    "mean predicted",
    "choosing took",
    "what that added",
)
ACCURACY = ("quantity", "model", "runs", "q-error, median / 95 %", "accuracy (balanced)")
QUANTITIES = {
    "throughput_per_s": "results a second",
    "processing_latency_s": "processing latency",
    "e2e_latency_s": "end-to-end latency",
    "backpressured": "does not keep up",
    "success": "gives results",
}
MODELS = {
    "model": "learned: graph neural networks",
    "trees (ratio)": "boosted trees on the rate model's answer",
    "Flat Vector (log)": "Flat Vector, log labels",
    "Flat Vector (raw)": "Flat Vector",
    "rate model": "rate model, not trained",
}
TEMPLATE = Path(__file__).parent / "templates" / "report.html"


def page(outcome: DemoOutcome, pictures: Mapping[str, bytes], out: Path) -> str:
    """HTML page with everything inside it. pictures: PNG files by name. out: folder of the demo's other files."""
    story, settings = outcome.story, outcome.settings
    scenario, judged = story.scenario, story.judged
    values = {
        "style": STYLE.read_text(encoding="utf-8"),
        "version": VERSION,
        "out": escape(str(out)),
        "verdict": escape(story.verdict),
        "careful": "".join(f"<p>{escape(said[0].upper())}{escape(said[1:])}.</p>" for said in careful(judged)),
        "promise": PROMISE,
        "given_map": job_map(drawn(scenario, outcome.given).picture),
        "best_map": job_map(drawn(scenario.with_plan(story.best_plan), outcome.best).picture),
        "best_by": escape(story.best.plan_by),
        "operators": _operators(story),
        "hosts": _hosts(scenario),
        "runs": str(settings.runs),
        "rows": str(outcome.training_rows),
        "members": str(settings.members),
        "estimates": f"{settings.estimates:,}",
        "search_runs": str(story.searched.found.runs),
        "replications": str(settings.replications),
        "horizon": f"{scenario.run.horizon_s:g}",
        "stages": _html_rows(
            ("stage", "wall time"), ([stage, f"{spent_s:.1f} s"] for stage, spent_s in outcome.seconds.items())
        ),
        "total": f"{sum(outcome.seconds.values()):.0f}",
        "plans": _html_rows(PLANS, (_plan(judged[: row + 1]) for row in range(len(judged)))),
        "accuracy": _html_rows(ACCURACY, _accuracy(outcome)),
        "test_runs": str(outcome.accuracy.runs),
        "seed": str(settings.seed),
        **{f"{name.removesuffix('.png')}_png": inline(png) for name, png in pictures.items()},
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(values)


def careful(judged: Sequence[JudgedPlan]) -> list[str]:
    """Sentences on predictions that contradict the runs, each with the plans that it is about."""
    return said_once(
        (each.plan_by, each.beside.careful) for each in judged if each.beside is not None and not each.beside.agrees
    )


def _plan(judged: Sequence[JudgedPlan]) -> list[str]:
    """Row of the last of these plans."""
    new = judged[-1]
    predicted = "-" if new.beside is None else seconds(new.beside.predicted)
    return [
        new.plan_by,
        new.shown,
        f"in {new.kept} of {new.runs} runs",
        seconds(new.mean_s),
        predicted + (f" ({new.beside.off_short})" if new.beside is not None and new.beside.off_short else ""),
        f"{new.effort}, {seconds(new.plan_s)}",
        added(judged),
    ]


def _accuracy(outcome: DemoOutcome) -> Iterable[list[str]]:
    for row in outcome.accuracy.rows:
        error = "-" if row.q50 is None else f"{row.q50:.2f} / {row.q95:.2f}"
        quantity, model = QUANTITIES.get(row.metric, row.metric), MODELS.get(row.model, row.model)
        yield [quantity, model, str(row.rows), error, "-" if row.accuracy is None else f"{row.accuracy:.0%}"]


def _operators(story: Story) -> str:
    scenario = story.scenario
    rates = nominal_rates(scenario.query, scenario.workload.arrivals)
    return _html_rows(
        OPERATORS,
        (
            [
                operator.name,
                f"{operator.kind}: {operator.does}",
                f"{rates[operator.name].in_per_s:,.0f}",
                ", ".join(scenario.plan.placement[operator.name]),
                ", ".join(story.best_plan.placement[operator.name]),
            ]
            for operator in scenario.query.topological
            if not operator.pinned
        ),
    )


def _hosts(scenario: Scenario) -> str:
    alike = dict[Host, list[str]]()
    for host in scenario.cluster.hosts:
        alike.setdefault(host.model_copy(update={"name": ""}), []).append(host.name)
    return _html_rows(
        HOSTS,
        (
            [
                ", ".join(names),
                host.tier or "-",
                f"{host.cpu_percent:g} %",
                f"{host.ram_mb:,.0f} MB",
                f"{host.bandwidth_mbps:,.0f} Mbit/s",
                f"{host.latency_ms:g} ms",
            ]
            for host, names in alike.items()
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
