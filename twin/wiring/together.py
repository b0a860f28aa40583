"""Fast: how many tuples reach a task at one moment, because one tuple of their producer made them all."""

from __future__ import annotations

from twin.job import Edge, Job
from twin.kinds.selective import Selective, beside


def together(job: Job, name: str) -> float:
    """Tuples that come with a tuple of a component's replica, itself among them; 1 where each comes by itself.

    A mean over all that comes. What leaves in batches is counted where batches are, and a window's results are
    segments of their own.
    """
    inputs = [(each, job.rates[each.stream.producer].out_per_s * each.share) for each in job.inputs(name)]
    per_s = sum(rate for _, rate in inputs)
    if per_s <= 0.0 or job.one_queue(name):
        return 1.0
    replicas = job.component(name).replicas
    return 1.0 + sum(rate * _beside(job, edge, replicas) for edge, rate in inputs) / per_s


def _beside(job: Job, edge: Edge, replicas: int) -> float:
    """Other tuples of the same moment on a stream, at one of its consumer's replicas."""
    producer = job.components[edge.producer]
    batched = job.engine.flush_s is not None and job.engine.batch_of(edge.bytes_each) > 1
    if batched or not edge.blocks or not all(isinstance(each, Selective) for each in producer.operators):
        return 0.0
    came = job.rates[producer.name].in_per_s
    made = job.rates[edge.stream.producer].out_per_s * edge.share / came if came > 0.0 else 0.0
    if edge.how.copies or edge.how.paired or edge.how.whole:
        return float(beside(made))
    return float(beside(made / replicas)) if edge.how.in_turn else float(beside(made)) / replicas
