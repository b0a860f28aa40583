"""`twin demo`: simulates, learns, plans and proves on one job, small enough for a coffee break, and reports it.

What it tells of plans is in `streamtwin.demo.story`; here are its steps, its page, and the folder that it fills.

The job is the library's machine-stop over boxes, a plant's server and a cloud. Its cost model is trained on variations
of that same job (plan, rates and hardware), so it knows this family of jobs and no other.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from figures.answers import search_path
from figures.job_map import job_map
from figures.plans import learning_curve, plans_beside_a_promise, predicted_vs_simulated
from scenarios import learning
from scenarios.executing import Audience
from scenarios.files import scenario_file
from scenarios.files.documents import as_csv
from scenarios.files.run_folder import png, writing
from scenarios.questions.kept import said_once
from streamtwin.demo.story import PREDICTED, PROMISE, PROMISE_S, SCENARIO, JudgedPlan, Story, added, tell
from streamtwin.report import STYLE, inline
from streamtwin.tables import tables
from streamtwin.tables.job_maps import drawn
from streamtwin.tables.tables import seconds
from twin import VERSION
from twin.cluster import Host
from twin.deployment import nominal_rates
from twin.errors import BadInput
from twin.files import parse_json, write_text
from twin.run import Run
from twin.scenario import Scenario
from twin.simulation import simulate

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.prediction import LearnedCostModel
    from scenarios.learning import EvaluationTable


# the steps -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Size of the demo. runs: to learn from. estimates: number of plans that a cost model may estimate. search_runs: of
    the search by runs. replications: runs by which each plan is judged."""

    seed: int = 0
    runs: int = 500
    members: int = 3
    patience: int = 10
    estimates: int = 1000
    search_runs: int = 40
    replications: int = 10
    master: str = "local[*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOutcome:
    """Results of the demo, with everything that the report shows. given, best: a run of the given plan, and of the
    best one. seconds: wall time of each stage."""

    settings: Settings
    story: Story
    given: Run
    best: Run
    training_rows: int
    accuracy: EvaluationTable
    predictions: dict[str, list[Any]]
    curve: dict[str, list[Any]]
    seconds: dict[str, float]


class Stopwatch:
    """Stopwatch of wall time (s) by stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last_s = time.monotonic()

    def stop(self, stage: str) -> None:
        """Adds the time since the last stop to a stage."""
        now_s = time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now_s - self._last_s
        self._last_s = now_s


def play(out: Path, settings: Settings, audience: Audience) -> DemoOutcome:
    """Runs the loop; leaves corpus, dataset and model in `out`, which must hold none of the latter two."""
    clock, say = Stopwatch(), audience.stage
    scenario = scenario_file.load(SCENARIO)
    say("1/5 simulating the plan as given: what the sensors measure goes to the cloud")
    given = simulate(scenario)
    age = given.metrics.e2e_latency_s
    say(f"    99 of 100 stops arrive within {tables.seconds(age.p99 if age else None)}; the promise is {PROMISE}")
    clock.stop("plan as given")
    training_data(scenario, out, settings, audience)
    clock.stop("corpus and dataset (Spark)")

    say(f"4/5 training {settings.members} graph neural networks on them")
    model, dataset, curve = train(out, settings, audience)
    clock.stop("training")
    accuracy = learning.evaluate(model, dataset, every_row=False, seed=settings.seed)
    clock.stop("evaluation")
    say(f"5/5 planning in each way, and judging each plan by {settings.replications} runs")
    story = tell(
        scenario,
        model,
        estimates=settings.estimates,
        runs=settings.search_runs,
        replications=settings.replications,
        seed=settings.seed,
        say=say,
    )
    clock.stop("planning and proof")
    return DemoOutcome(
        settings=settings,
        story=story,
        given=given,
        best=simulate(scenario.with_plan(story.best_plan)),
        training_rows=len(dataset),
        accuracy=accuracy,
        predictions=learning.predictions(model, dataset, PREDICTED),
        curve=curve,
        seconds=clock.seconds,
    )


def training_data(scenario: Scenario, out: Path, settings: Settings, audience: Audience) -> None:
    """Writes OUT/corpus (or completes it) and OUT/dataset."""
    from spark.corpus import write_corpus
    from spark.pipeline import write_dataset
    from spark.session import session

    say = audience.stage
    say("2/5 starting Spark")
    make, spec = learning.around(scenario, runs=settings.runs, seed=settings.seed)
    with session(settings.master) as spark:
        say(f"    simulating {settings.runs} variations: plan, rates and hardware drawn anew for each")
        with audience.progress("runs") as report:
            write_corpus(spark, out / "corpus", spec, make, simulate, progress=report)
        say("3/5 aggregating the traces to training rows")
        write_dataset(spark, [out / "corpus"], out / "dataset")


def train(out: Path, settings: Settings, audience: Audience) -> tuple[LearnedCostModel, Dataset, dict[str, list[Any]]]:
    """Writes OUT/model; returns the model with the rows that it was trained on, and its learning curve."""
    from models import dataset as datasets
    from models import prediction
    from models.pipeline import train as train_ensembles
    from models.settings import OURS

    rows = datasets.read(out / "dataset")
    parts = datasets.split(rows, settings.seed)
    network = OURS.model_copy(update={"members": settings.members, "patience": settings.patience})
    wanted = datasets.learnable(rows, parts.train)
    with audience.progress("steps at most") as report:
        told = learning.steps(learning.networks(network, wanted), report)
        ensembles = train_ensembles(rows, parts, network, settings.seed, wanted, told)
    held = {"rows kept apart": learning.kept_apart(rows, parts.test)}
    about = {"dataset": "dataset", "preset": "ours"}
    learning.write_model(ensembles, out / "model", learning.card_of(ensembles, held, "model", about))
    return prediction.load(out / "model"), rows, learning.learning_curve(ensembles)


# the report ----------------------------------------------------------------------------------------------------------
# It is one self-contained page, for a reader who knows neither the papers nor this project.


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
        **{f"{name.removesuffix('.png')}_png": inline(picture) for name, picture in pictures.items()},
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


# the folder ----------------------------------------------------------------------------------------------------------
# It is recognised by its manifest; only files that the demo itself wrote are replaced.


MANIFEST = "manifest.json"
MADE_BY = "twin demo"
KEPT = "corpus"
"""Part of an unfinished demo that the next one of the same settings uses again."""
REPORT = "report.html"
GIVEN, PLAN = "given-plan.yaml", "best-plan.yaml"
TABLE = "plans.csv"
PICTURES = ("promise.png", "search.png", "predictions.png", "training.png")
OWN = (KEPT, "dataset", "model", GIVEN, PLAN, TABLE, *PICTURES, REPORT)
EARLIER = ("naive-plan.yaml", "learned-plan.yaml", "regret.csv", "regret.png")
"""What demos of earlier versions left, which goes when a demo is made anew."""


def prepare(out: Path, settings: Settings) -> None:
    """Makes `out` ready for the demo: it must be new, empty, or the demo's own, and is cleared of an earlier demo.

    A corpus of the same settings stays if that demo did not finish. Raises BadInput if `out` holds anything else.
    """
    found = _manifest(out)
    if found is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise BadInput(f"{out} was not made by '{MADE_BY}', so it is left alone; name another folder with --out")
    resume = found is not None and not found["finished"] and found["about"] == _about(settings)
    for name in (*OWN, *EARLIER):
        if not (resume and name == KEPT):
            _remove(out / name)
    with writing(out, "name another folder with --out"):
        out.mkdir(parents=True, exist_ok=True)
        _write_manifest(out, settings, finished=False)


def write(out: Path, outcome: DemoOutcome) -> None:
    """Writes the table, the pictures, the plans and the report, and last the manifest of a finished demo."""
    story = outcome.story
    told = story.searched.told
    figures = (
        plans_beside_a_promise(promise_table(story.judged), PROMISE_S, "latency of 99 of 100 stops"),
        search_path(told.table, told.runs, "p99 of a stop [s]"),
        predicted_vs_simulated(outcome.predictions, "end-to-end latency [s]"),
        learning_curve(outcome.curve),
    )
    pictures = {name: png(figure) for name, figure in zip(PICTURES, figures, strict=True)}
    for name, picture in pictures.items():
        (out / name).write_bytes(picture)
    (out / TABLE).write_text(as_csv([asdict(each) for each in story.judged]), encoding="utf-8")
    (out / GIVEN).write_text(scenario_file.dump(story.scenario), encoding="utf-8")
    (out / PLAN).write_text(scenario_file.dump(story.scenario.with_plan(story.best_plan)), encoding="utf-8")
    (out / REPORT).write_text(page(outcome, pictures, out), encoding="utf-8")
    _write_manifest(out, outcome.settings, finished=True)


def promise_table(judged: Sequence[JudgedPlan]) -> dict[str, list[Any]]:
    """Table that `figures.plans` draws."""
    nan = float("nan")
    return {
        "plan": [each.plan_by for each in judged],
        "latency_s": [nan if each.p99_s is None else each.p99_s for each in judged],
        "ci95_s": [each.p99_ci95_s or 0.0 for each in judged],
        "backpressured": [not each.keeps_up for each in judged],
    }


def _about(settings: Settings) -> dict[str, Any]:
    return {"version": VERSION, **asdict(settings)}


def _manifest(out: Path) -> dict[str, Any] | None:
    try:
        found = parse_json((out / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(found, dict) and found.get("made_by") == MADE_BY and {"finished", "about"} <= found.keys()
    return found if ours else None


def _write_manifest(out: Path, settings: Settings, *, finished: bool) -> None:
    body = {"made_by": MADE_BY, "finished": finished, "about": _about(settings)}
    write_text(out / MANIFEST, json.dumps(body, indent=2) + "\n")


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
