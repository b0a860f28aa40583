"""Costream beyond its training: other hardware, queries and benchmarks (Tables IV to VI), fine-tuning (Fig. 11)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import TYPE_CHECKING, Any

from papers.costream.judging import (
    BY_SEED,
    COLUMNS,
    FIGURE_11,
    FLAT,
    LEVELS,
    METRIC_COLUMNS,
    ONE_CLASS,
    PAPERS,
    SEEDS,
    SHORT,
    TABLE_IV,
    TABLE_V,
    TABLE_VI_A,
    TABLE_VI_B,
    TWO_SEEDS,
    block,
    cells,
    every_row,
    judged,
    published,
    rivals,
)
from papers.interface import CaseTable, DerivedTable, Experiment, Row, Rows, apart, bars, grid, shape, span, within
from papers.workspace import EVALUATION_SEED, PAPER, Sizes, Within, Workspace, evaluation_corpus, horizon, main_corpus
from scenarios.learning import CorpusRecipe
from scenarios.spaces.generator import EXTRAPOLATIONS, Extrapolation
from twin.metrics import BINARY_METRICS

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.predictors import Fitted, Predictor

# other runs: Tables IV to VI -----------------------------------------------------------------------------------------
# Contestants are trained on the main corpus, or on a part of it, and judged on fresh runs: hardware between and beyond
# that of the training, chains of filters, benchmark queries.


PUBLISHED = "paper: Costream (Storm)"
LENGTHS = (2, 3, 4)
"""Numbers of filters in a chain."""
NO_CHAINS = Within("filter_chain", 0, 1)
"""Filter for rows of the main corpus in which no filter follows another, as in the paper's training data."""


def between(sizes: Sizes, seed: int) -> CorpusRecipe:
    """Corpus on hardware of which no value is in the main corpus, but larger and smaller ones are."""
    return evaluation_corpus(sizes, seed, "costream-between")


def restricted(extrapolation: Extrapolation) -> Within:
    """Filter for rows of the main corpus to learn from: every host in use lies in the training range."""
    return Within(extrapolation.feature, *extrapolation.trained)


def beyond(extrapolation: Extrapolation, sizes: Sizes, seed: int) -> CorpusRecipe:
    """Corpus whose hosts all have a value of the feature that no training run had."""
    return evaluation_corpus(sizes, seed, f"costream-{extrapolation.name}")


def chains(sizes: Sizes, seed: int, length: int) -> CorpusRecipe:
    """Corpus of fresh chains of `length` filters."""
    return evaluation_corpus(sizes, seed, f"costream-chain{length}")


def benchmark(sizes: Sizes, seed: int, scenario: str) -> CorpusRecipe:
    """Corpus of a query of the library, with rates, hosts and placements of the main corpus's space."""
    return CorpusRecipe(sizes.n, seed + EVALUATION_SEED, space="costream", scenario=scenario, horizon_s=horizon(sizes))


def interpolated(workspace: Workspace, seeds: int = SEEDS) -> Iterator[Row]:
    """Rows of all contestants on hardware between, trained once for each of `seeds` seeds."""
    from papers.costream import planners as contestants

    sizes, first = workspace.sizes, workspace.seed
    fresh = workspace.dataset(between(sizes, first))
    for name, reported in TABLE_IV.items():
        yield published(name, reported, training_seed=None)
    for contestant in contestants.everyone(sizes).values():
        for seed in range(first, first + seeds):
            model = workspace.reseeded(seed).fitted(contestant, main_corpus(sizes, first))
            yield every_row(model, fresh, first, training_seed=seed)


def extrapolated(workspace: Workspace, extrapolation: Extrapolation) -> Iterator[Row]:
    """Rows of contestants that are trained on the restricted rows and judged on fresh runs beyond them."""
    from papers.costream import planners as contestants

    sizes, seed = workspace.sizes, workspace.seed
    recipe, rows = main_corpus(sizes, seed), restricted(extrapolation)
    dataset = workspace.dataset(beyond(extrapolation, sizes, seed))
    values = " and ".join(f"{value:g}" for value in extrapolation.asked)
    about = {"range": f"{extrapolation.name}: {extrapolation.feature} {values}", "extrapolation": extrapolation.name}
    training_rows = len(workspace.split(recipe, rows).train)
    yield published("Costream", TABLE_V[extrapolation.name], **about, training_rows=None)
    for contestant in contestants.generalising(sizes):
        model = workspace.fitted(contestant, recipe, rows)
        yield every_row(model, dataset, seed, **about, training_rows=training_rows)


def means(lines: Rows) -> Rows:
    """Rows of means, one for each model; a range in which a value is missing does not count for it."""
    rows: list[Row] = []
    for model in dict.fromkeys(line["model"] for line in lines):
        mine = [line for line in lines if line["model"] == model]
        row: dict[str, Any] = {"model": model, "ranges": len(mine)}
        for metric in SHORT:
            measures = ("accuracy",) if metric in BINARY_METRICS else ("q50", "q95")
            known = [[line[f"{metric}_{measure}"] for line in mine] for measure in measures]
            row |= cells(metric, [_mean(values, metric) for values in known])
        rows.append(row)
    return rows


def _mean(values: Sequence[float | None], metric: str) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return fmean(known) if metric in BINARY_METRICS else geometric_mean(known)


def unseen_chains(workspace: Workspace) -> Iterator[Row]:
    """Rows of models that have never seen two filters in a row."""
    from papers.costream import planners as contestants

    sizes, seed = workspace.sizes, workspace.seed
    recipe = main_corpus(sizes, seed)
    models = [workspace.fitted(contestant, recipe, NO_CHAINS) for contestant in contestants.anew(sizes)]
    for length in LENGTHS:
        fresh = workspace.dataset(chains(sizes, seed, length))
        yield from block(TABLE_VI_A[length], models, fresh, seed, queries=f"{length} filters")


def benchmarks(workspace: Workspace) -> Iterator[Row]:
    """Rows on the library's queries, whose windows and selectivities are not those of the training."""
    from papers.costream import planners as contestants

    sizes, seed = workspace.sizes, workspace.seed
    recipe = main_corpus(sizes, seed)
    models = [workspace.fitted(contestant, recipe) for contestant in contestants.everyone(sizes).values()]
    for scenario, reported in TABLE_VI_B.items():
        yield from block(reported, models, workspace.dataset(benchmark(sizes, seed, scenario)), seed, queries=scenario)


def range_shapes(rows: Rows) -> Rows:
    """Compares which ranges are the hardest. Without the paper's network there is nothing to compare."""
    if all(row["model"] != PAPERS for row in rows):
        return [LEVELS]
    shapes: list[Row] = []
    for metric in ("throughput_per_s", "processing_latency_s"):
        ours, papers = (
            {row["range"].split(":")[0]: row[f"{metric}_q50"] for row in rows if row["model"] == name}
            for name in (PAPERS, PUBLISHED)
        )
        worst, theirs = max(ours, key=ours.__getitem__), max(papers, key=papers.__getitem__)
        what = f"{SHORT[metric]}: worst of all ranges"
        shapes.append(shape(what, f"{theirs}, {papers[theirs]:.3g}", f"{worst}, {ours[worst]:.3g}", worst == theirs))
    return [*shapes, LEVELS]


def chain_shapes(rows: Rows) -> Rows:
    """Compares errors by length of chain (Table VI A); rows: of all lengths, from the least."""
    medians = [row["throughput_per_s_q50"] for row in rows if row["model"] == PAPERS]
    rising = " < ".join(f"{each:.3g}" for each in medians)
    right = [row["success_right"] for row in rows if row["model"] == FLAT and row.get("success_right") is not None]
    text = f"{span(right, '.0%')} taken rightly"
    failing = "Flat Vector takes chains for failures"
    return [
        *rivals(rows),
        shape("T: the more filters, the worse", "2.74 < 2.87 < 5.51", rising, medians == sorted(medians)),
        shape(failing, "4% to 6% taken rightly", text, within(right, 0.0, 0.5))
        if right
        else apart(failing, "4% to 6% taken rightly", "-", "no corpus here has one class alone"),
    ]


TABLE4 = Experiment(
    name="costream.table4",
    source="Costream, Table IV, Exp. 3",
    summary="interpolation: hardware between the values of the training corpus",
    tables={
        "interpolation": CaseTable(
            title=lambda workspace: (
                f"Interpolation: {len(workspace.dataset(between(workspace.sizes, workspace.seed)))} fresh simulated "
                "runs on hardware between the values of the training corpus"
            ),
            columns=BY_SEED,
            measure=interpolated,
            shapes=rivals,
        )
    },
    notes="- The paper judges 100 queries." + TWO_SEEDS,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed), between(sizes, seed)],
)
TABLE5 = Experiment(
    name="costream.table5",
    source="Costream, Table V, Exp. 4",
    summary="extrapolation: hardware stronger or weaker than any that the model was trained on",
    tables={
        "means": DerivedTable(
            title="Means over the eight simulated ranges (geometric of q-errors)",
            columns=f"model | ranges | {METRIC_COLUMNS}",
            of="extrapolation",
            rows=means,
        ),
        "extrapolation": CaseTable(
            title=(
                "Extrapolation: trained without the strongest or weakest hardware, judged on fresh simulated runs on it"
            ),
            columns=f"range: asked about | {COLUMNS} | training_rows: training rows",
            cases=grid(extrapolation=EXTRAPOLATIONS),
            measure=extrapolated,
            shapes=range_shapes,
        ),
    },
    notes=f"""
- Ensembles have {PAPER.restricted_members} member(s), since they are trained for this table alone.
- The paper judges 100 queries a column. Its "64k, 10k" Mbit/s is read as 6400 and 10000, as in its Table II.
""",
    recipes=lambda sizes, seed: [main_corpus(sizes, seed), *(beyond(each, sizes, seed) for each in EXTRAPOLATIONS)],
)
TABLE6A = Experiment(
    name="costream.table6a",
    source="Costream, Table VI A, Exp. 5a",
    summary="unseen queries: chains of 2, 3 and 4 filters",
    tables={
        "chains": CaseTable(
            title=lambda workspace: (
                f"Unseen filter chains: {workspace.sizes.n} fresh simulated runs each, after training on "
                f"{len(workspace.split(main_corpus(workspace.sizes, workspace.seed), NO_CHAINS).train):,} runs "
                "without any"
            ),
            columns=f"queries | {COLUMNS}",
            measure=unseen_chains,
            shapes=chain_shapes,
        )
    },
    notes="- The paper judges 100 queries." + ONE_CLASS,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed), *(chains(sizes, seed, length) for length in LENGTHS)],
)
TABLE6B = Experiment(
    name="costream.table6b",
    source="Costream, Table VI B, Exp. 6",
    summary="unseen queries: Advertisement, Spike Detection, Smart Grid global and local",
    tables={
        "benchmarks": CaseTable(
            title=("Unseen benchmarks: {n} simulated runs each, with random rates, hosts and placements"),
            columns=f"queries | {COLUMNS}",
            measure=benchmarks,
            shapes=rivals,
        )
    },
    notes="""
- The paper runs each query 100 times, on the benchmarks' own data.
- Here the queries are the benchmarks'; selectivities and distinct groups are assumed, as 'twin show' tells.
"""
    + ONE_CLASS,
    recipes=lambda sizes, seed: [main_corpus(sizes, seed), *(benchmark(sizes, seed, each) for each in TABLE_VI_B)],
)


# fine-tuning: Fig. 11 ------------------------------------------------------------------------------------------------
# The throughput of filter chains before and after fine-tuning on a few of them.


SEED = 2000
"""Offset of the seed for the additional runs, so that no query is among the judged ones."""

METRIC = "throughput_per_s"
SHARES = (30, 10, 3, 1)
"""Divisors of the additional runs, for the learning curve: a thirtieth, a tenth, a third, all."""
FEWEST = 30
"""Least number of runs for a point of the curve."""

TUNED_COLUMNS = "model | learned: learned from | " + " | ".join(
    f"{part}_q50: {words}, median | {part}_q95: {words}, 95 %"
    for part, words in [*((f"chain{length}", f"{length} filters") for length in LENGTHS), ("old", "no chains")]
)


def additional(sizes: Sizes, seed: int) -> CorpusRecipe:
    """Corpus of chains of two to four filters to learn from."""
    return CorpusRecipe(sizes.fine_tuning_runs, seed + SEED, space="costream-chains", horizon_s=horizon(sizes))


@dataclass(frozen=True)
class _Judges:
    """Judging rows: fresh chains by length, and the held-out rows of the main corpus without chains."""

    parts: Mapping[str, Dataset]
    seed: int

    def line(self, model: Fitted, learned: str, stage: str) -> dict[str, Any]:
        cells: dict[str, Any] = {"model": model.name, "learned": learned, "stage": stage}
        for part, dataset in self.parts.items():
            (row,) = [row for row in judged(model, dataset, self.seed) if row.metric == METRIC]
            cells |= {f"{part}_q50": row.q50, f"{part}_q95": row.q95}
        return cells


def tuned(workspace: Workspace) -> Iterator[Row]:
    """Rows of the paper's architecture and ours, trained without chains, then on with chains of two to four filters."""
    from papers.costream import planners

    words = {"before": "no chains", "after": "and 3,000 chains"}
    for stage, medians in FIGURE_11.items():
        medians_of = {f"chain{length}_q50": medians.get(length) for length in LENGTHS}
        yield {"model": PUBLISHED, "learned": words[stage], **medians_of}
    sizes, seed = workspace.sizes, workspace.seed
    main = workspace.dataset(main_corpus(sizes, seed))
    test = workspace.split(main_corpus(sizes, seed)).test
    parts = {f"chain{length}": workspace.dataset(chains(sizes, seed, length)) for length in LENGTHS}
    judges = _Judges({**parts, "old": main.take(test[NO_CHAINS.mask(main)[test]])}, seed)
    for contestant in planners.anew(sizes, "paper", "ours"):
        yield from _of(contestant, workspace, sizes, judges)


def _of(contestant: Predictor, workspace: Workspace, sizes: Sizes, judges: _Judges) -> Iterator[dict[str, Any]]:
    from models.pipeline import FineTuning
    from papers.costream.planners import FewShot, ensembles

    recipe = main_corpus(sizes, workspace.seed)
    before = workspace.fitted(contestant, recipe, NO_CHAINS)
    yield judges.line(before, "no chains", "before")
    old = workspace.dataset(recipe), workspace.split(recipe, NO_CHAINS)
    curve = [share for share in SHARES if share == 1 or sizes.fine_tuning_runs // share >= FEWEST]
    for share, rehearsed in [*((share, None) for share in curve), (1, old)]:
        tuned = FewShot(
            name=contestant.name,
            trained_on=f"{contestant!r} on {recipe!r}",
            how=FineTuning(),
            runs=sizes.fine_tuning_runs // share,
            rehearsal=rehearsed is not None,
            start=ensembles(before),
            rehearsed=rehearsed,
        )
        model = workspace.fitted(tuned, additional(sizes, workspace.seed), metrics=[METRIC])
        words = f"and {tuned.runs:,} chains" + (" with rehearsal" if tuned.rehearsal else "")
        yield judges.line(model, words, "after" if share == 1 and not tuned.rehearsal else "")


def tuned_shapes(rows: Rows) -> Rows:
    """Compares errors before and after fine-tuning. rows: of the paper's network untuned first, then with ever more
    chains, rehearsal last. Without that network there is nothing to compare."""
    mine = [row for row in rows if row["model"] == PAPERS and "rehearsal" not in row["learned"]]
    if not mine:
        return [LEVELS]
    before, after = ([each[f"chain{length}_q50"] for length in (2, 3, 4)] for each in (mine[0], mine[-1]))
    pairs = ", ".join(f"{one:.3g} to {other:.3g}" for one, other in zip(before, after, strict=True))
    less = all(other < one for one, other in zip(before, after, strict=True))
    rising = " < ".join(f"{each:.3g}" for each in before)
    return [
        shape("T: the more filters, the worse before", "2.74 < 2.87 < 5.51", rising, before == sorted(before)),
        shape("T: better after, for any number of filters", "5.51 to 1.61 for four", pairs, less),
        LEVELS,
    ]


FIG11 = Experiment(
    name="costream.fig11",
    source="Costream, Fig. 11, Exp. 5b",
    summary="fine-tuning: the throughput of unseen filter chains before and after a few additional runs",
    tables={
        "fine_tuning": CaseTable(
            title=("Throughput of unseen filter chains, {n} fresh simulated runs each: q-errors before and after"),
            columns=TUNED_COLUMNS,
            measure=tuned,
            shapes=tuned_shapes,
        )
    },
    figures={
        "fine_tuning": bars(
            "median q-error of the throughput",
            group="{quantity}",
            series="{model}, {stage}",
            value={f"chain{length}_q50": f"{length} filters" for length in LENGTHS},
            only={"stage": ("before", "after")},
            factors=True,
        )
    },
    notes="""
- Additional runs are chains of two, three and four filters, a third each; a tenth of them stops the training.
- Rehearsal mixes in as many old training runs.
""",
    recipes=lambda sizes, seed: [
        main_corpus(sizes, seed),
        additional(sizes, seed),
        *(chains(sizes, seed, length) for length in LENGTHS),
    ],
)
