"""The cost model of Enorm's Section 5.1.1 as it is printed, beside which `forms.py` is reported.

It has two forms: split, which shares panes, and combined, which executes every tuple for each window. Merging, and
states for each window in the split form, cost nothing. K_1, the cost of a key group's copy, stands for sending a
partial result as well as for moving its state.
"""

from __future__ import annotations

import math

from twin.errors import BadInput
from twin.rates.forms import Cost, Form, Period, UnitCosts

FORMS = (Form.COMBINED_WINDOWS, Form.SPLIT_PANES)
"""Combined and split, as the paper has them."""


def published_cost(form: Form, period: Period, costs: UnitCosts) -> Cost:
    """Split: T E + PW K_1 groups + MK K_1. Combined: T W E + MK K_1 PW, and MK L of latency.

    Raises BadInput for a form that the paper does not have.
    """
    copy_s = period.pane_keys / period.groups * costs.ship_s
    match form:
        case Form.SPLIT_PANES:
            sent_s = period.panes * copy_s * period.groups
            return Cost(period.tuples * costs.execute_s + sent_s + period.migrations * copy_s, 0.0)
        case Form.COMBINED_WINDOWS:
            executed_s = period.tuples * period.overlap * costs.execute_s
            return Cost(executed_s + period.migrations * copy_s * period.panes, period.migrations * costs.pause_s)
    raise BadInput(
        f"the published cost model has no form {form.value!r}; it has {FORMS[0].value!r}, {FORMS[1].value!r}"
    )


def published_choice(period: Period, costs: UnitCosts, paused_limit_s: float = math.inf) -> Form:
    """Section 5.1.2: the least CPU under a bound of the latency. Raises BadInput for a negative limit."""
    if not paused_limit_s >= 0.0:
        raise BadInput(f"paused_limit_s must be >= 0, got {paused_limit_s}")
    found = {form: published_cost(form, period, costs) for form in FORMS}
    return min((form for form in FORMS if found[form].paused_s <= paused_limit_s), key=lambda form: found[form].cpu_s)
