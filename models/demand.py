"""Demand beyond steady rates, as a few numbers of each operator: variation of its input and skew of its keys.

Any arrival law is taken as one of two states, above its mean rate and below (like a Markov-modulated Poisson process;
Fischer and Meier-Hellstern, Performance Evaluation 18, 1993). Peaks of several sources are taken as independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from twin.arrivals.bursty import Bursty
from twin.arrivals.diurnal import SLICES, Diurnal
from twin.arrivals.law import ArrivalLaw, Phase
from twin.arrivals.spikes import Spikes
from twin.job import Job
from twin.key_skew import KeySkew, zipf_shares
from twin.randomness import random_stream

PHASES = 4096
"""Most phases of a law that are read; only recordings and long staircases have more."""
ABOVE = 1.0 + 1e-9
"""Multiple of the mean rate that counts as above it: sums are not exact."""
UNUSED = random_stream(0, "peaks")
"""Random stream for laws that ask for one even where their phases are not random."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peaks of an arrival law: phases with a rate above its mean. A steady law has 1, 1 and 0.

    height: mean rate of peaks, over the mean. share: of the time, in peaks. mean_s: mean seconds of a peak.
    """

    height: float = 1.0
    share: float = 1.0
    mean_s: float = 0.0


def peaks_of(law: ArrivalLaw) -> Peaks:
    """Peaks of a law in its first PHASES phases; an endless phase counts as long as the others on average."""
    given = _phases(law)
    ending_s = [length_s for length_s, _ in given if math.isfinite(length_s)]
    usual_s = sum(ending_s) / len(ending_s) if ending_s else 1.0
    phases = [(length_s if math.isfinite(length_s) else usual_s, rate_per_s) for length_s, rate_per_s in given]
    time_s = sum(length_s for length_s, _ in phases)
    mean_per_s = sum(length_s * rate_per_s for length_s, rate_per_s in phases) / time_s
    above = [rate_per_s > ABOVE * mean_per_s for _, rate_per_s in phases]
    if not any(above):
        return Peaks()
    high = [phase for phase, is_above in zip(phases, above, strict=True) if is_above]
    high_s = sum(length_s for length_s, _ in high)
    peaks = sum(now and not before for before, now in zip([False, *above], above, strict=False))
    tuples = sum(length_s * rate_per_s for length_s, rate_per_s in high)
    return Peaks(tuples / high_s / mean_per_s, high_s / time_s, high_s / peaks)


def _phases(law: ArrivalLaw) -> list[Phase]:
    """Phases of one cycle, if a law has cycles, or the first PHASES; random lengths count as their means."""
    match law:
        case Bursty():
            return [(state.mean_s, state.rate_per_s) for state in law.states]
        case Spikes():
            return list(islice(law.model_copy(update={"random": False}).phases(UNUSED), 2))
        case Diurnal():
            return list(islice(law.model_copy(update={"phase": 0.0}).phases(UNUSED), SLICES))
    return list(islice(law.phases(UNUSED), PHASES))


@dataclass(frozen=True, slots=True)
class Variation:
    """Variation of the input of one operator; fields have the names of the features that are made of them.

    peak, peak_share, peak_s: height, share and mean seconds of its `Peaks`. hottest: share of the input in the most
    frequent key group; 0 without key groups. drifts_per_s: how often a second other keys become frequent.
    """

    peak: float
    peak_share: float
    peak_s: float
    hottest: float
    drifts_per_s: float


def variations(job: Job) -> dict[str, Variation]:
    """Variation of the input of each operator of a job, by the operator's name."""
    workload = job.deployment.workload
    parts: dict[str, dict[str, float]] = {}  # of each operator's input, the share that each source is the origin of
    found = {}
    for component in job.components:
        name = component.operator.name
        if name in workload.arrivals:
            parts[name] = {name: 1.0}
        else:
            sent = [(job.rates[u].out_per_s, parts[u]) for u in job.query.feeds(name)]
            parts[name] = _mixed(sent)
        peaks = {source: peaks_of(workload.arrivals[source]) for source in parts[name]}
        found[name] = Variation(*_together(parts[name], peaks), *_keys(workload.keys.get(name), component.key_groups))
    return found


def _mixed(sent: Sequence[tuple[float, Mapping[str, float]]]) -> dict[str, float]:
    """Shares of the sources in the output of several operators, by the rates of these."""
    total = sum(per_s for per_s, _ in sent)
    mixed: dict[str, float] = {}
    for per_s, part in sent:
        for source, share in part.items():
            mixed[source] = mixed.get(source, 0.0) + share * (per_s / total if total else 1.0 / len(sent))
    return mixed


def _together(part: Mapping[str, float], peaks: Mapping[str, Peaks]) -> tuple[float, float, float]:
    """Height, share of the time and mean seconds of the peaks of a mix of sources.

    Excesses of independent peaks over the mean add up by squares, as deviations do; shares and seconds are means,
    weighted by each source's excess.
    """
    excess = {source: share * (peaks[source].height - 1.0) for source, share in part.items()}
    total = sum(excess.values())
    if total <= 0.0:
        return 1.0, 1.0, 0.0
    share = sum(excess[source] * peaks[source].share for source in part) / total
    mean_s = sum(excess[source] * peaks[source].mean_s for source in part) / total
    return 1.0 + math.sqrt(sum(each**2 for each in excess.values())), share, mean_s


def _keys(skew: KeySkew | None, key_groups: int | None) -> tuple[float, float]:
    """Fields `hottest` and `drifts_per_s` of a Variation."""
    if key_groups is None:
        return 0.0, 0.0
    if skew is None:
        return 1.0 / key_groups, 0.0
    shares = skew.by_group(key_groups) if skew.placed else zipf_shares(key_groups, skew.zipf)
    return float(shares.max()), 1.0 / skew.drift_every_s if skew.drift_every_s else 0.0
