"""Cases of the comparison: their parameters, values by theory, and number of customers in a run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Case:
    """Model that all simulators run. what: its customers. answer: what is computed. rate: customers a second."""

    name: str
    what: str
    answer: str
    rate: float
    customers: int


LOSS_SERVERS, LOSS_PLACES, LOSS_RATE = 3, 10, 2.0
"""M/M/3/10: three servers of rate 1, ten customers at most in all; one who finds ten there is lost."""

TANDEM_RATE, TANDEM_SERVICES_S, TANDEM_PLACES = 1.0, (0.7, 0.6), 4
"""Two exponential servers with four places between them; a customer who cannot move on blocks the first server."""

PIPELINE_RATE, PIPELINE_SERVICE_S, PIPELINE_PLACES = 1e5, 5e-6, 1024
"""Pipeline source -> map -> sink: the map takes 5 microseconds (exponential) a record, so its load is 0.5."""

CASES = {
    "loss": Case("A: M/M/3/10 with loss", "customers", "mean wait [s]", LOSS_RATE, 100_000),
    "tandem": Case("B: blocking tandem", "customers", "mean sojourn [s]", TANDEM_RATE, 50_000),
    "pipeline": Case("C: source-map-sink at 100,000 records/s", "records", "mean sojourn [us]", PIPELINE_RATE, 100_000),
}


def expected(case: str) -> float:
    """Analytic value of the case's answer."""
    from benchmarks.validity import oracles  # heavy: would count as every simulator's memory

    if case == "loss":
        return oracles.loss_m_m_c_k(LOSS_SERVERS, LOSS_PLACES, LOSS_RATE, 1.0)[1]
    if case == "tandem":
        first, second = TANDEM_SERVICES_S
        return oracles.sojourn_blocking_tandem(TANDEM_RATE, (1 / first, 1 / second), TANDEM_PLACES)
    return 1e6 * oracles.sojourn_processor_sharing(PIPELINE_RATE * PIPELINE_SERVICE_S, PIPELINE_SERVICE_S)
