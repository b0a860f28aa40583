"""Commands `twin corpus` and `twin dataset`: many runs, then training rows, both by Spark."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamtwin.cli.given import Set
from streamtwin.cli.interruption import kept
from streamtwin.cli.terminal import Seed, Terminal

if TYPE_CHECKING:
    from scenarios.learning.corpora import CorpusRecipe
    from scenarios.spaces.families import Make
    from twin.corpus.chunks import CorpusSummary
    from twin.corpus.manifest import CorpusSpec

Master = Annotated[
    str,
    typer.Option("--master", metavar="URL", help="Spark master: local[N], or spark://HOST:PORT with shared storage."),
]


def corpus(
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder; the same command resumes it, more --runs let it grow.")
    ],
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="How many runs.")],
    terminal: Terminal,
    space: Annotated[str | None, typer.Option(help="Random scenarios from this parameter space.")] = None,
    scenario: Annotated[
        str | None,
        typer.Option(
            metavar="SCENARIO",
            help="This scenario with other plans, rates and hardware. With --space: drawn from that space.",
        ),
    ] = None,
    set_: Set = None,
    master: Master = "local[*]",
    horizon: Annotated[float | None, typer.Option(metavar="S", help="Simulated seconds a run.")] = None,
    replicates: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Simulate the first N runs again, with other seeds. Only N can grow then."
        ),
    ] = 0,
    seed: Seed = 0,
) -> None:
    """Simulates many scenarios and writes their traces, resumable at any moment, and a data card (OUT/card.md).

    Given again, with the same or more runs, it simulates what is missing; damaged files are found and made again.

    Examples: `twin corpus corpus --runs 2000` · `twin corpus grid --runs 500 --scenario smart-grid --horizon 60` ·
    `twin corpus spikes --runs 100 --scenario spike-detection --space costream`
    """
    from scenarios.learning import corpora
    from twin.corpus.chunks import CARD, complete
    from twin.corpus.manifest import check_corpus

    recipe = corpora.CorpusRecipe(
        runs=runs,
        seed=seed,
        space=space,
        scenario=scenario,
        horizon_s=horizon,
        replicates=replicates,
        set_=tuple(set_ or ()),
    )
    make, spec = recipe.plan()
    check_corpus(out, spec)  # before a JVM is started in vain
    if summary := complete(out, spec):
        card = out / f"{CARD}.md"
    else:
        with kept(f"the finished runs in {out}"):
            summary, card = _simulated(out, recipe, make, spec, master, terminal)
    answer = corpora.CorpusWritten(**asdict(summary), card=str(card))
    terminal.result(answer, f"{corpora.in_words(summary, out)}; described in {card}")


def _simulated(
    out: Path, recipe: CorpusRecipe, make: Make, spec: CorpusSpec, master: str, terminal: Terminal
) -> tuple[CorpusSummary, Path]:
    """Simulates the missing runs of the corpus, and writes its card; returns the summary, and the card's path."""
    from spark.corpus import write_corpus
    from spark.pipeline import write_card
    from spark.session import session
    from twin.simulation import simulate

    terminal.stage("starting Spark")
    with session(master) as spark:
        terminal.stage(f"simulating {spec.runs} runs into {out}; Ctrl-C keeps what is finished")
        with terminal.progress("runs") as report:
            summary = write_corpus(spark, out, spec, make, simulate, progress=report, note=terminal.stage)
        terminal.stage("describing it")
        return summary, write_card(spark, out, recipe.command)


def dataset(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="A folder that `twin corpus` wrote.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="New folder of training rows.")],
    terminal: Terminal,
    master: Master = "local[*]",
    _seed: Seed = 0,
) -> None:
    """Aggregates a corpus to training rows: one a run, with its labels.

    Example: `twin dataset corpus dataset`
    """
    from spark.pipeline import check_dataset, write_dataset
    from spark.session import session

    check_dataset(corpus, out)  # before a JVM is started in vain
    terminal.stage("starting Spark")
    with session(master) as spark:
        terminal.stage(f"aggregating {corpus}")
        summary = write_dataset(spark, corpus, out)
    failed = f" ({summary.failed} runs failed)" if summary.failed else ""
    terminal.result(asdict(summary), f"{summary.rows} training rows in {out}{failed}")
