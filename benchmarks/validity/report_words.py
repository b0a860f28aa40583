"""What the validity report says around its tables."""

from __future__ import annotations

from benchmarks.validity import theory as limits

LAWS = 10
"""So many rows tell how far off theory the simulator is; all others are nearer."""

THEORY = (
    f"Means over {limits.SEEDS} independent seeds with their standard errors, at 1,000 tuples a second unless "
    f"something else is said. They have to be within {limits.limit_se(limits.SEEDS):.1f} standard errors of theory (or "
    f"{100 * limits.CLOSE:g} %). From {limits.SEEDS} seeds that is as unlikely by chance as {limits.LIMIT_SE:g} "
    "standard errors that are known. Oracles are Pollaczek-Khinchine, Erlang C, Jackson, the roots of the D/M/1 and "
    "E_k/M/1 equations, Spitzer's identity, insensitivity of processor sharing, the utilisation law, and small Markov "
    f"chains solved exactly. The table has the {LAWS} laws that are farthest off, each by its farthest case; "
    "[theory.csv](validity/theory.csv) has all."
)
KERNEL = (
    "Traces of both are equal to the last bit: of small jobs of every kind, and of random ordinary ones (chains, keyed "
    "windows, unions, joins and two sinks, with 2 to 80 replicas an operator, at 10 to 130 % of what they can take)."
)


def invariants(runs: int) -> str:
    """runs: of this page."""
    return (
        f"Every simulation, so also the {runs} of this page, ends with the laws of `twin/guards/conservation.py`: "
        "tuples made are tuples sent or waiting, tuples sent are taken, queued or in flight, no processor works more "
        "than its capacity. A violation is an error. `tests/twin/kernel/test_parity.py` runs random queries under "
        "random plans, which neither stand still nor lose anything. The same corpus, made by different numbers of "
        "workers and under different hash seeds, is the same to the last bit:"
    )
