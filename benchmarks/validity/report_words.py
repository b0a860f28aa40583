"""What the validity report says around its tables."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.validity import theory as theory_limits
from benchmarks.validity.agreement import Comparison
from benchmarks.validity.busy import LIMIT, LIMIT_POINTS
from benchmarks.validity.cases import FIRST_SEEDS
from benchmarks.validity.selection import MIN_OUTPUTS, SMALL, default_scenario, scanned
from twin.guards.fidelity import settled
from twin.scenario import Fidelity

ORACLES = (
    "Oracles are Pollaczek-Khinchine, Erlang C, Jackson, the roots "
    "of the D/M/1 and E_k/M/1 equations, Spitzer's identity, insensitivity of processor sharing, the utilisation law, "
    "and for the blocking tandem and for two operators on one core small Markov chains solved exactly. Where replicas "
    "deal in turn to replicas there is no theory, and fast runs are held against exact ones."
)


def theory(seeds: Mapping[Fidelity, int]) -> str:
    """What is compared with theory, and within which limits. seeds: runs of each law, by fidelity."""
    exact = seeds["exact"]
    return (
        f"Means over independent seeds, {exact} of exact runs and {seeds['fast']} of fast ones, with their standard "
        "errors, at 1,000 tuples a second unless something else is said. Exact runs have to be within "
        f"{theory_limits.limit_se(exact):.1f} standard errors of theory (or 0.5 %): as unlikely by chance, for "
        f"standard errors that are estimated from {exact} seeds, as {theory_limits.EXACT_LIMIT_SE:g} would be if they "
        "were known. Fast ones have to be within 7 % plus 2 standard errors; their shares of time busy within 5 % or 2 "
        "points. Where one is not, and its runs warned that they would not resolve something, it *says so*. "
        f"{ORACLES}"
    )


ABOUT = {
    "costream": "",
    "shared": (
        "One or two hosts of 0.5, 1 or 2 cores carry all operators; rates are scaled so that the busiest resource has "
        "a utilisation drawn log-uniformly from 0.5 to 2.2, by the rate model."
    ),
    "ordinary": (
        "Jobs as most people have them: chains, keyed time windows, unions of two or three sources, joins, two sinks; "
        "mostly with the `flink` profile, the others with `storm`; 2 to 80 replicas an operator, dealt by the default "
        "or forward, round robin over 1 to 8 hosts of 2 to 16 cores or crowded on some of them; 100 to 200,000 tuples "
        "a second; networks of 0 to 2 ms, with and without links. Service times of some operators are such that the "
        "busiest resource has a utilisation drawn evenly from 0.1 to 1.3, by the rate model; the others cost what the "
        "profile says. Runs take 2 to 60 simulated seconds, so that an exact one is affordable."
    ),
}
LONG = (
    "The same configurations, where they keep up, with fast runs of the default length (240 s), whose segments are as "
    "coarse as they are if nothing is said:"
)


def by_default(found: Comparison) -> str:
    """What the table of runs that leave the fidelity to the simulator says."""
    exact = sum(settled(default_scenario(case)).run.fidelity == "exact" for case in found.cases)
    return (
        f"The same with runs that leave the fidelity to the simulator (`auto`, the default), which followed {exact} of "
        f"{len(found.cases)} tuple by tuple: where that costs little more, or where segments would leave latencies "
        "uncertain and it is affordable:"
    )


BUSY = (
    "Where operators spend their time, of all of them: the share that fast runs (against the mean of both exact runs) "
    f"and the second exact seed (against the first) have within {LIMIT_POINTS:g} points or {100 * LIMIT:g} %; how far "
    "off they are, in points: 95th percentile / maximum."
)


def compared(found: Comparison) -> str:
    """How many configurations, and how they are compared."""
    rich = found.rich
    kinds = ", ".join(f"{(found.kinds == kind).sum()} {kind}" for kind in dict.fromkeys(found.kinds))
    lengths = {case.settings.horizon_s for case in found.cases}
    length = f"{min(lengths):g} s" if len(lengths) == 1 else f"{min(lengths):g} to {max(lengths):g} s"
    behind = 100 * found.behind[rich].mean() if rich.any() else 0.0
    return (
        f"{len(found.cases)} configurations ({kinds}), {length} each, {100 * found.behind.mean():.0f} % of them "
        f"backpressured in the exact run; {rich.sum()} gave at least {MIN_OUTPUTS} results in all three runs "
        f"({behind:.0f} % of these backpressured) and are compared. Each is simulated twice exactly, with different "
        "seeds, and once fast, with a third. Two exact seeds differ as well: that is the floor below which no "
        "comparison can tell anything, and it stands beside every figure. The fast run is compared with the first "
        "exact one, as the limits ask, and with the mean of both, which has less noise. Cells: median, 95th percentile "
        "and maximum of the q-error."
    )


def chosen_how(family: str, scale: str) -> str:
    """Where the configurations come from."""
    rule = (
        "A seed is in if its kind still has a place; none is looked at by a simulation, but those are left out of "
        "which the rate model expects few results or more work than an exact run can do."
        if family == "ordinary"
        else f"A seed is in if its fast run has at least {MIN_OUTPUTS} results and its cell (linear, 2-way, 3-way; "
        "keeping up or behind, by that run) still has a place."
    )
    return (
        f"How they were chosen: seeds {FIRST_SEEDS[family, 'heldout']} and up, {scanned(family, 'heldout')} of them, "
        f"which nothing was tuned on. {rule} The seeds are kept in `benchmarks/validity/selection.json`, so that later "
        "changes are judged on the same ones."
        + (f" This page was made at small scale: the first {SMALL} of each cell." if scale == "small" else "")
    )
