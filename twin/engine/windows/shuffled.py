"""Results of a count window over tuples that came all at once, results of another window, their ages in any order.

An exact run sends such tuples one by one in random order, and takes the first that comes for the oldest of its group:
it is of any age among those that came with it. In segments ages would rise from the first result to the last.
"""

from __future__ import annotations

from twin.engine.windows.state import Stamps


def of_any_order(first: Stamps, last: Stamps, share: float) -> Stamps:
    """Between which stamps the births, and the ingestions, of results lie evenly.

    first, last: of the bursts that the window begins and ends in; share: of the way from its first tuple to its last,
    at which the oldest tuple of a group is on average. The result is on average as old as both bursts say, and lies
    as far around as their tuples do, and as far as groups lie between the two.
    """
    born, taken = _between(first[:2], last[:2], share), _between(first[2:], last[2:], share)
    return born[0], born[1], taken[0], taken[1]


def _between(first: tuple[float, float], last: tuple[float, float], share: float) -> tuple[float, float]:
    old_s, new_s = (first[0] + first[1]) / 2, (last[0] + last[1]) / 2
    half_s = (1.0 - share) * (first[1] - first[0]) / 2 + share * (last[1] - last[0]) / 2 + share * abs(new_s - old_s)
    middle_s = old_s + share * (new_s - old_s)
    return middle_s - half_s, middle_s + half_s
