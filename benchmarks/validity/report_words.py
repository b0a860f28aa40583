"""What the validity report says around its tables."""

from __future__ import annotations

from benchmarks.validity import theory as limits

THEORY = (
    f"Means over {limits.SEEDS} independent seeds with their standard errors, at 1,000 tuples a second unless "
    f"something else is said. They have to be within {limits.limit_se(limits.SEEDS):.1f} standard errors of theory (or "
    f"{100 * limits.CLOSE:g} %): as unlikely by chance, for standard errors that are estimated from {limits.SEEDS} "
    f"seeds, as {limits.LIMIT_SE:g} would be if they were known. Oracles are Pollaczek-Khinchine, Erlang C, Jackson, "
    "the roots of the D/M/1 and E_k/M/1 equations, Spitzer's identity, insensitivity of processor sharing, the "
    "utilisation law, and for the blocking tandem and for two operators on one core small Markov chains solved "
    "exactly. The table has the case of each law that is farthest off; [theory.csv](validity/theory.csv) has all."
)
KERNEL = (
    "The kernel computes what the engine does, with the same random numbers in the same order, so that their traces "
    "are equal to the last bit: of small jobs of every kind, and of random ordinary ones (chains, keyed windows, "
    "unions, joins and two sinks, with 2 to 80 replicas an operator, at 10 to 130 % of what they can take)."
)
DISTANCES = (
    "Nanoseconds a tuple of Word Count's Splitter and Counter on Server A, by the sockets of producer and operator. "
    "*Measured* and *estimated* are the paper's own figures (SIGMOD 2019, Table 3). The local times and the number of "
    "cache lines a tuple are taken from the paper, so what is tested is the cost of distance. The limit is 5 % from "
    "the paper's estimate, which uses the same formula; the paper's own estimate is up to 43 % above its measurement, "
    "because hardware prefetching hides part of the cost of large tuples."
)


def invariants(runs: int) -> str:
    """runs: of this page."""
    return (
        f"Every one of the {runs} simulations of this page, and every other one, ends with the laws of "
        "`twin/guards/conservation.py`: tuples made are tuples sent or waiting, tuples sent are taken, queued or in "
        "flight, no processor works more than its capacity. A violation is an error, not a warning, so there are none "
        "here. That random queries under random plans, partitionings and channels of few tuples neither stand still "
        "nor lose anything is `tests/twin/test_random_plans.py`. The same corpus, made by different numbers of workers "
        "and under different hash seeds, is the same to the last bit:"
    )
