"""Wait for a core and for a network card that neighbours cause: tangents of convex functions of the load.

A replica beside others can get what they leave of its socket. Its wait is then a convex function of the socket's load,
held from below by a few tangents for every operator and socket where less than a core may be left; where the operator
is not there, a big M from the highest load allowed switches the tangent off.
"""

from __future__ import annotations

import numpy as np

from optimizers.milp.ages import AgeColumns, alone_s, card_factor, served_s
from optimizers.milp.assignment import PlacementColumns
from optimizers.milp.loads import Loads
from optimizers.program import Program
from twin.rates.coefficients import PlacementCoefficients
from twin.rates.queueing import RHO_MAX

LEFT = (0.9, 0.6, 0.35, 0.2, 0.1, 0.05)
"""Points of tangents: shares of the free cores, above the least ones, that are left at that load."""
FEW_LEFT = (0.6, 0.2, 0.05)
"""Points of tangents for programs of more than LARGE operators times sockets."""
LARGE = 600
CARD = (0.5, 0.85)
"""Utilisations of a card where tangents touch."""
STEP = 1e-5
NEGLIGIBLE = 1e-3
"""Share of the unit of ages below which network cards are left out."""


def crowd_cores(
    program: Program,
    job: PlacementCoefficients,
    assignment: PlacementColumns,
    loads: Loads,
    ages: AgeColumns,
    most: float,
    *,
    end_to_end: bool,
) -> None:
    """Adds the wait for a core that neighbours cause to the program. most: the highest utilisation allowed."""
    each, place = job.operators, job.places
    nothing_o = np.zeros(len(job.names))
    alone_ol = alone_s(job, nothing_o, end_to_end=end_to_end, evaluations=False)
    own_ol = np.broadcast_to((each.work / each.replicas)[:, None], alone_ol.shape)
    full_ol = np.broadcast_to(place.capacity_l * most, alone_ol.shape)
    free_ol = np.clip(place.capacity_l - each.work[:, None] + own_ol, 1e-6, place.core_l)
    least_ol = np.maximum(place.capacity_l - full_ol + own_ol, 1e-6)
    crowded_ol = assignment.allowed_ol & (least_ol < free_ol * (1.0 - 1e-6))
    row, column = np.nonzero(crowded_ol)
    if not len(row):
        return
    for share in LEFT if alone_ol.size <= LARGE else FEW_LEFT:
        left_ol = least_ol + (free_ol - least_ol) * share
        load_ol = place.capacity_l + own_ol - left_ol
        step_ol = STEP * left_ol
        here_ol, less_ol, more_ol = (
            served_s(job, nothing_o, left, end_to_end=end_to_end)
            for left in (left_ol, left_ol - step_ol, left_ol + step_ol)
        )
        extra_ol, slope_ol = here_ol - alone_ol, (less_ol - more_ol) / (2.0 * step_ol)
        slope, height = slope_ol[row, column], (extra_ol - slope_ol * load_ol)[row, column]
        big = np.maximum(height + slope * full_ol[row, column], 0.0)
        program.rows(
            (ages.crowded[row, None], ages.unit_s),
            (loads.cores[column, None], -slope[:, None]),
            (assignment.place[row, column, None], -big[:, None]),
            low=height - big,
        )


def crowd_cards(
    program: Program,
    job: PlacementCoefficients,
    assignment: PlacementColumns,
    loads: Loads,
    ages: AgeColumns,
    most: float,
) -> None:
    """Adds the wait for a network card that neighbours cause to the program. most: the highest utilisation allowed."""
    host_l, bandwidth_h = job.places.host_l, job.places.bandwidth_h
    total, smallest = float(job.streams.bytes_per_s.sum()), float(job.streams.tuple_bytes.min(initial=np.inf))
    for s, start in enumerate(job.producer_s):
        for h in range(len(bandwidth_h)):
            own, here = job.streams.bytes_per_s[s] / bandwidth_h[h], np.flatnonzero(host_l == h)
            empty_s, least_s = job.streams.tuple_bytes[s] / bandwidth_h[h], smallest / bandwidth_h[h]
            worst = min(most, total / bandwidth_h[h])
            if worst <= own or empty_s * card_factor(np.array(worst)) < NEGLIGIBLE * ages.unit_s:
                continue
            # the wait is (own S + what others send S') / (2 (1 - rho)), where S' is no shorter than the shortest
            all_s = own * (empty_s - least_s) + least_s
            mine_s = empty_s * (float(card_factor(np.array(own))) - 1.0)
            for at in CARD:
                rho = own + (worst - own) * at
                left = 1.0 - min(rho, RHO_MAX)
                slope = all_s / left**2 / 2.0
                height = (all_s / left - least_s) / 2.0 - mine_s - slope * rho
                big = max(height + slope * most, 0.0)
                program.row(
                    (ages.carded[s, None], ages.unit_s),
                    (loads.cards[h, None], -slope),
                    (assignment.place[start, here], -big),
                    (assignment.stays_out[s, here], big),
                    low=height - big,
                )
