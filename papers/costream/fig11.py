"""Costream, Fig. 11: the throughput of filter chains before and after fine-tuning on a few of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from papers.costream.generalising import LENGTHS, NO_CHAINS, PUBLISHED, chains
from papers.costream.judging import FIGURE_11, LEVELS, PAPERS, judged
from papers.drawing import bars
from papers.interface import CaseTable, Experiment, Row, Rows, shape
from papers.sizes import Sizes, horizon, main_corpus
from papers.workspace import Workspace
from scenarios.learning import CorpusRecipe

if TYPE_CHECKING:
    from models.dataset import Dataset
    from models.predictors import Fitted, Predictor

SEED = 2000
"""Offset of the seed for the additional runs, so that no query is among the judged ones."""

METRIC = "throughput_per_s"
SHARES = (30, 10, 3, 1)
"""Divisors of the additional runs, for the learning curve: a thirtieth, a tenth, a third, all."""
FEWEST = 30
"""Least number of runs for a point of the curve."""

COLUMNS = "model | learned: learned from | " + " | ".join(
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


def shapes(rows: Rows) -> Rows:
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
            columns=COLUMNS,
            measure=tuned,
            shapes=shapes,
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
