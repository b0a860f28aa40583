"""What each source keeps of its offered rate under N plans: a factor of its own, where `sustained` has one for all.

For jobs whose flows are linear in the rates (`NumaJob.additive`).

All sources grow together, tuple for tuple, until a replica, socket, memory, channel or network card is full; those that
need it stop there, and the others go on: max-min fair, as `twin.rates.throttle` slows them, in a fraction of its time.
Letters as in `twin.rates.numa_job`; r is a resource and a a source.
"""

from __future__ import annotations

import numpy as np

from twin.rates.numa_job import NumaJob

CLOSE = 1e-9


def results_share(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """Of all results at the offered rates, those that arrive. [n]"""
    return np.asarray(source_shares(job, counts_nol) @ job.results_a / job.results_per_s)


def most_results_per_s(job: NumaJob) -> float:
    """No plan gives more: all cores together, nothing fetched, and the sources that ask least for a result first."""
    work_a, left = job.work_oa.sum(axis=0), float(job.capacity_l.sum())
    found = 0.0
    for a in np.argsort(work_a / np.maximum(job.results_a, 1e-300)):
        share = min(1.0, left / work_a[a])
        found += share * job.results_a[a]
        left -= share * work_a[a]
    return float(found)


def source_shares(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """The share of its offered rate that a source keeps, at most 1. [n, a]"""
    uses_nra = resource_uses(job, counts_nol)
    share_na = np.zeros((len(counts_nol), len(job.sources)))
    grows_na = np.ones(share_na.shape, bool)
    pace_a = job.offered_a.min() / job.offered_a
    for _ in job.sources:
        growing_na = grows_na * pace_a
        faster_nr = np.einsum("nra,na->nr", uses_nra, growing_na)
        left_nr = 1.0 - np.einsum("nra,na->nr", uses_nra, share_na)
        with np.errstate(divide="ignore", invalid="ignore"):
            room_nr = np.where(faster_nr > 0.0, np.maximum(left_nr, 0.0) / faster_nr, np.inf)
            most_na = np.where(grows_na, (1.0 - share_na) / pace_a, np.inf)
        # one step a resource or a source that is done
        step_n = np.minimum(room_nr.min(axis=1), most_na.min(axis=1))
        step_n = np.where(np.isfinite(step_n), step_n, 0.0)
        share_na = share_na + growing_na * step_n[:, None]
        full_nr = room_nr <= step_n[:, None] * (1.0 + CLOSE)
        stops_na = np.einsum("nr,nra->na", full_nr, uses_nra) > 0.0
        grows_na = grows_na & ~stops_na & (share_na < 1.0 - CLOSE)
    return np.minimum(share_na, 1.0)


def resource_uses(job: NumaJob, counts_nol: np.ndarray) -> np.ndarray:
    """Of every resource, the share that a source needs at its offered rate. [n, r, a]"""
    plans, sources = len(counts_nol), len(job.sources)
    share_nol = counts_nol / np.maximum(counts_nol.sum(axis=2), 1)[:, :, None]
    work_nola = _works(job, share_nol) * share_nol[..., None]
    with np.errstate(invalid="ignore"):
        each_nola = work_nola / np.maximum(counts_nol, 1)[..., None] / job.speed_l[:, None]
    cpu_nla = work_nola.sum(axis=1) / job.capacity_l[:, None]
    memory_nla = np.einsum("oa,nol->nla", job.memory_oa, share_nol) / job.memory_l[:, None]
    parts = [each_nola.reshape(plans, -1, sources), cpu_nla, memory_nla]
    if job.between_hosts or job.has_channels:
        bytes_sa = job.rate_sa * job.bytes_s[:, None]
        ends = share_nol[:, job.producer_s], share_nol[:, job.consumer_s]
        bytes_nija = np.einsum("sa,nsi,nsj->nija", bytes_sa, *ends)
        leaving_nla = np.where(job.apart_ij[:, :, None], bytes_nija, 0.0).sum(axis=2)
        leaving_nha = np.einsum("nla,lh->nha", leaving_nla, job.host_l[:, None] == np.arange(len(job.card_h)))
        parts.append((bytes_nija / job.channel_ij[:, :, None]).reshape(plans, -1, sources))
        parts.append(leaving_nha / job.card_h[:, None])
    return np.concatenate(parts, axis=1)


def _works(job: NumaJob, share_nol: np.ndarray) -> np.ndarray:
    """Reference cores that an operator would need if all of it were on a socket, for each source. [n, o, l, a]"""
    work_nola = np.tile(job.work_oa[:, None], (len(share_nol), 1, len(job.locations), 1))
    for s, (producer, consumer) in enumerate(zip(job.producer_s, job.consumer_s, strict=True)):
        work_nola[:, consumer] += (share_nol[:, producer] @ job.fetch_sij[s])[..., None] * job.rate_sa[s]
        if job.between_hosts:
            work_nola[:, producer] += (share_nol[:, consumer] @ job.send_sij[s].T)[..., None] * job.rate_sa[s]
    return work_nola
