"""Encodes deployments as inputs of models: graphs, flat vectors, descriptions.

Nothing here is fitted to data. Encoding costs a few milliseconds a row, so many rows are encoded by several processes.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from pydantic import ValidationError

from models.graph import GraphTable, concatenate, joint_graph, stack
from models.job_columns import job_columns
from models.vectors import ABOUT, DERIVED, FLAT, about, derived_vector, flat_vector
from twin.deployment import Deployment
from twin.errors import BadInput
from twin.rates.channels import MeasuredSpan
from twin.rates.model import RateModel

CHUNK = 250
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
    """One row of a dataset: its name, its deployment as JSON, and what was measured of its run."""

    run: str
    deployment: str
    measured: MeasuredSpan


def encode(deployments: Sequence[Deployment], measured: Sequence[MeasuredSpan]) -> Encoded:
    """Encodes each deployment under its own plan, for runs that are measured like that."""
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

    Raises BadInput for a deployment that is not valid.
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
    deployments = [_deployment(text) for text in texts]
    if reprofiled is not None:
        deployments = [reprofiled(each, text.run) for each, text in zip(deployments, texts, strict=True)]
    return encode(deployments, [text.measured for text in texts])


def _deployment(text: Text) -> Deployment:
    try:
        return Deployment.model_validate_json(text.deployment)
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise BadInput(
            f"the deployment of run {text.run!r} is not valid: {problem}; make the dataset again with 'twin dataset'"
        ) from None
