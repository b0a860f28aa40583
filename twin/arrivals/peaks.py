"""Peaks of arrival laws: any law as one of two states, above its mean rate and below (like a Markov-modulated Poisson
process; Fischer and Meier-Hellstern, Performance Evaluation 18, 1993)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice

from twin.arrivals.laws import SLICES, ArrivalLaw, Bursty, Diurnal, Phase, Spikes
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

    height: mean rate of peaks, over the mean. share: of the time, in peaks. mean_s: mean seconds of a peak. scv,
    gap_scv: squared coefficients of variation of the lengths of peaks, and of the times between them.
    """

    height: float = 1.0
    share: float = 1.0
    mean_s: float = 0.0
    scv: float = 0.0
    gap_scv: float = 0.0


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
    records = sum(length_s * rate_per_s for length_s, rate_per_s in high)
    return Peaks(records / high_s / mean_per_s, high_s / time_s, high_s / peaks, *_scvs(law))


def has_several_rates(law: ArrivalLaw) -> bool:
    """Whether a law has more than two rates, so that `Peaks` leave some of it out."""
    return len({rate_per_s for _, rate_per_s in _phases(law)}) > 2


def _scvs(law: ArrivalLaw) -> tuple[float, float]:
    """Squared coefficients of variation of the lengths of peaks and of the times between: 1 where exponential."""
    if isinstance(law, Spikes) and law.random:
        return (0.0, 1.0) if law.factor > 1.0 else (1.0, 0.0)  # the quiet time between spikes is
    return (1.0, 1.0) if isinstance(law, Bursty) else (0.0, 0.0)


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
