"""Encodings: deployments as the inputs of models, that is graphs, flat vectors and descriptions of rows.

For datasets and cost models. A dataset's encoding is kept in a file beside its rows. Deployments can be encoded as they
look through a profile with errors. Nothing here is fitted to data.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Protocol

import numpy as np
from pydantic import ValidationError

from models.features import NODE_TYPES
from models.graph import GraphTable, Ragged, concatenate, joint_graph, stack
from models.job_columns import job_columns
from models.vectors import ABOUT, DERIVED, FLAT, about, derived_vector, flat_vector
from twin import kinds, rates
from twin.checkpoints import Checkpoints
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.files import new_file
from twin.profiles import EngineProfile, PerKind, PerType
from twin.randomness import random_stream
from twin.rates.channels import MeasuredSpan
from twin.rates.model import RateModel
from twin.scenario import Scenario

# encodings of deployments --------------------------------------------------------------------------------------------
# Encoding costs a few milliseconds a row, so many rows are encoded by several processes.


CHUNK = 250
"""Number of rows that a process encodes at a time."""
PARALLEL_FROM = 2000
"""Number of rows below which they are encoded in this process: starting others takes seconds."""

Progress = Callable[[int, int], None]


class Reprofiled(Protocol):
    """Deployments of a dataset as models see them, with other constants. Labels stay what they are. Must be
    picklable."""

    @property
    def name(self) -> str:
        """Name for files, which tells all that decides the result."""

    def __call__(self, deployment: Deployment, run: str) -> Deployment:
        """Deployment of that run as models see it."""


@dataclass(frozen=True)
class Encoded:
    """Many deployments, row by row: graphs, and the vectors FLAT, DERIVED and ABOUT of models.vectors."""

    graphs: GraphTable
    flat_GxF: np.ndarray
    derived_GxD: np.ndarray
    about_GxA: np.ndarray

    @property
    def about(self) -> Mapping[str, np.ndarray]:
        """Description of each row, [G] each, by name."""
        return dict(zip(ABOUT, self.about_GxA.T, strict=True))

    def take(self, rows: np.ndarray) -> Encoded:
        """Encoding of some of the rows (indices), in that order."""
        return Encoded(
            self.graphs.take(rows),
            self.flat_GxF[rows],
            self.derived_GxD[rows],
            self.about_GxA[rows],
        )

    def __len__(self) -> int:
        return len(self.graphs)


@dataclass(frozen=True, slots=True)
class Text:
    """One row of a dataset: its name, its deployment as JSON, and what was measured of its run; its checkpoints as
    JSON, if they cost anything."""

    run: str
    deployment: str
    measured: MeasuredSpan
    checkpoints: str | None = None


def encode(deployments: Sequence[Deployment], measured: Sequence[MeasuredSpan]) -> Encoded:
    """Encodes each deployment under its own plan, for runs that are measured like that. A scenario's checkpoints count:
    results may wait for them."""
    graphs, flat, derived, descriptions = [], [], [], []
    for deployment, (warmup_s, horizon_s) in zip(deployments, measured, strict=True):
        job = job_columns(deployment)
        answer = RateModel(horizon_s, warmup_s).answer(deployment, [deployment.plan])
        graphs.append(joint_graph(deployment, job, horizon_s, answer))
        flat.append(flat_vector(job))
        derived.append(derived_vector(job, answer, horizon_s))
        descriptions.append(about(job, graphs[-1].utilisation))
    return Encoded(
        graphs=stack(graphs),
        flat_GxF=np.array(flat).reshape(-1, len(FLAT)),
        derived_GxD=np.array(derived).reshape(-1, len(DERIVED)),
        about_GxA=np.array(descriptions).reshape(-1, len(ABOUT)),
    )


def encode_texts(
    texts: Sequence[Text],
    progress: Progress | None = None,
    workers: int | None = None,
    reprofiled: Reprofiled | None = None,
) -> Encoded:
    """Parses and encodes rows, in order, whatever the number of processes. reprofiled: changes deployments.

    Raises BadInput for a deployment that is not valid, or checkpoints that it cannot have.
    """
    chunks = [texts[start : start + CHUNK] for start in range(0, len(texts), CHUNK)]
    parts, done = [], 0
    workers = 1 if len(texts) < PARALLEL_FROM else workers or os.cpu_count() or 1
    for part in _each(partial(_encode_chunk, reprofiled=reprofiled), chunks, workers):
        parts.append(part)
        done += len(part)
        if progress is not None:
            progress(done, len(texts))
    return join(parts)


def join(parts: Sequence[Encoded]) -> Encoded:
    """Encoding of all rows of several, in order."""
    return Encoded(
        concatenate([part.graphs for part in parts]),
        np.concatenate([part.flat_GxF for part in parts]),
        np.concatenate([part.derived_GxD for part in parts]),
        np.concatenate([part.about_GxA for part in parts]),
    )


def _each(
    work: Callable[[Sequence[Text]], Encoded], chunks: Sequence[Sequence[Text]], workers: int
) -> Iterator[Encoded]:
    if workers == 1:
        yield from map(work, chunks)
        return
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:  # JAX's threads forbid a fork
        yield from pool.map(work, chunks)


def _encode_chunk(texts: Sequence[Text], reprofiled: Reprofiled | None) -> Encoded:
    return encode([deployment_of(text, reprofiled) for text in texts], [text.measured for text in texts])


def deployment_of(text: Text, reprofiled: Reprofiled | None = None) -> Deployment:
    """Deployment of a row as models see it; a scenario if it has checkpoints. reprofiled: changes it.

    Raises BadInput, with the name of the run, if it is not valid, or cannot have these checkpoints."""
    wrong = f"the deployment of run {text.run!r} is not valid"
    try:
        deployment = Deployment.model_validate_json(text.deployment)
        if reprofiled is not None:
            deployment = reprofiled(deployment, text.run)
        if text.checkpoints is None:
            return deployment
        wrong = f"run {text.run!r} has checkpoints that are not valid"
        return Scenario(**dict(deployment), checkpoints=Checkpoints.model_validate_json(text.checkpoints))
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise BadInput(f"{wrong}: {problem}; make the dataset again with 'twin dataset'") from None


# the file of a dataset's encoding ------------------------------------------------------------------------------------
# It lies beside the rows: encoding a large dataset takes minutes, reading its encoding a second.
#
# The file is named after the code that encodes, so that other code never reads it.


_HERE, _RATES, _KINDS = Path(__file__).parent, Path(rates.__path__[0]), Path(kinds.__path__[0])
_OWN = ("encoding", "features", "graph", "job_columns", "vectors")
_OF_TWIN = ("deployment", "profile_costs", "profiles", "query")
"""Source files that decide the encoding, here and at the top of `twin`, beside its kinds and its rate model."""

_OF_ZIP = (struct.error, zlib.error, zipfile.BadZipFile)
_RAGGED = ("streams", "updates", "placements", "others")


@cache
def code_version() -> str:
    """Version of the encoding: 12 hex digits over the source of everything that decides one."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources())).hexdigest()[:12]


def sources() -> list[Path]:
    """Source files that decide the encoding, in a fixed order. Those that are named here must exist."""
    named = [*(_HERE / f"{name}.py" for name in _OWN), *(_RATES.parent / f"{name}.py" for name in _OF_TWIN)]
    return named + [path for room in (_RATES, _KINDS) for path in sorted(room.glob("*.py"))]


def path_in(folder: Path, reprofiled: Reprofiled | None = None) -> Path:
    """Path of the encoding of a folder's dataset, under a profile if given, whether it exists or not. Readers of
    tables pass over it, by its name."""
    seen = "" if reprofiled is None else f"-{reprofiled.name}"
    return folder / f"_encoded-{code_version()}{seen}.npz"


def write(folder: Path, encoded: Encoded, config_hash: np.ndarray, reprofiled: Reprofiled | None = None) -> None:
    """Writes the encoding of a dataset's rows; it appears whole or not at all. config_hash: [G], of the rows, which
    tells their checkpoints, too."""
    table = encoded.graphs
    arrays = {"config_hash": config_hash, "context": table.context_GxC, "rates": table.rates_GxA}
    arrays |= {"flat": encoded.flat_GxF, "derived": encoded.derived_GxD, "about": encoded.about_GxA}
    ragged = {f"node{kind}": each for kind, each in enumerate(table.nodes)}
    ragged |= {name: getattr(table, name) for name in _RAGGED}
    for name, each in ragged.items():
        arrays |= {f"{name}_rows": each.rows, f"{name}_start": each.start}
    with new_file(path_in(folder, reprofiled)) as aside, aside.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read(folder: Path, config_hash: np.ndarray, reprofiled: Reprofiled | None = None) -> Encoded | None:
    """Reads the encoding of these rows; None if there is none of today's code, or it is of other rows or damaged."""
    try:
        with np.load(path_in(folder, reprofiled)) as arrays:
            if not np.array_equal(arrays["config_hash"], config_hash):
                return None

            def ragged(name: str) -> Ragged:
                return Ragged(arrays[f"{name}_rows"], arrays[f"{name}_start"])

            nodes = tuple(ragged(f"node{kind}") for kind in range(len(NODE_TYPES)))
            streams, updates, placements, others = (ragged(name) for name in _RAGGED)
            table = GraphTable(nodes, streams, updates, placements, others, arrays["context"], arrays["rates"])
            return Encoded(table, arrays["flat"], arrays["derived"], arrays["about"])
    except (OSError, LookupError, ValueError, RuntimeError, EOFError, tokenize.TokenError, *_OF_ZIP):
        return None


# misjudged costs -----------------------------------------------------------------------------------------------------
# A run as models see it through an engine profile with errors.
#
# Features and the rate model's answers rest on the profile's CPU constants. The simulator knows them exactly; on a real
# cluster they are measured, with errors. Labels stay what they are.


_SINGLE = ("result_us", "scan_us", "serialise_ns_per_byte", "deserialise_ns_per_byte")


@dataclass(frozen=True, slots=True)
class PerturbedCosts:
    """Errors of every CPU constant: factors that are uniform on (1 - share, 1 + share). Raises BadInput unless
    0 <= share < 1.

    fixed: the same factors in all runs, as in a profile measured once: an error that can be learned. Else factors are
    drawn for each run anew, so that no error is systematic: the worst case, unlike any engine.
    """

    share: float
    seed: int = 0
    fixed: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise BadInput(f"share must be in [0, 1), got {self.share}; 0.2 is 20 %")

    @property
    def name(self) -> str:
        """Name for files and tables."""
        return f"misjudged-{self.share:g}-{self.seed}" + ("-fixed" if self.fixed else "")

    def __call__(self, deployment: Deployment, run: str) -> Deployment:
        """Deployment with misjudged costs. Costs that operators give themselves are constants as well: by kind where
        the error is fixed, since each run has operators of its own."""
        rng = random_stream(self.seed, "misjudged" if self.fixed else f"misjudged/{run}")
        engine = deployment.engine
        constants: dict[str, object] = {name: getattr(engine, name) * self._factor(rng) for name in _SINGLE}
        for name, kind in (("record_us", PerKind), ("value_us", PerType)):
            values = getattr(engine, name).model_dump()
            constants[name] = kind(**{each: value * self._factor(rng) for each, value in values.items()})
        believed: EngineProfile = engine.model_copy(update=constants)
        operators = tuple(
            operator
            if operator.service_time_s is None
            else operator.model_copy(update={"service_time_s": operator.service_time_s * self._own(operator.kind, rng)})
            for operator in deployment.query.operators
        )
        query = type(deployment.query)(operators=operators, streams=deployment.query.streams)
        return deployment.model_copy(update={"engine": believed, "query": query})

    def _own(self, kind: str, rng: np.random.Generator) -> float:
        return self._factor(random_stream(self.seed, f"misjudged/{kind}") if self.fixed else rng)

    def _factor(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(1 - self.share, 1 + self.share))
