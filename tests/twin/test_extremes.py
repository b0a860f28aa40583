"""Numbers at the ends of what a scenario may say end in an answer, not in arithmetic."""

from __future__ import annotations

import pytest

from tests.twin.changing import run
from tests.twin.worlds import chain, deployment, sink, source
from twin.errors import MOST_CHARACTERS, BadInput, one_line
from twin.scenario import RunSettings
from twin.wiring.build import build
from twin.wiring.wiring import Wiring


@pytest.mark.parametrize("service_s", [5e-324, 1e-308, 1e-160, 1e-30])
def test_work_that_takes_no_time_worth_naming(service_s: float) -> None:
    middle = [{"kind": "map", "name": name, "service_time_s": service_s} for name in ("one", "two")]
    metrics = run(chain(middle, 100), horizon_s=5).metrics
    assert metrics.tuples_out == metrics.tuples_in > 300


def test_a_chain_deeper_than_the_stack_is_wired() -> None:
    middle = [{"kind": "map", "name": f"m{number}"} for number in range(1500)]
    assert len(build(Wiring(chain(middle, 10), RunSettings())).tasks) == 1502


def test_a_tuple_has_no_more_columns_than_a_number_can_count() -> None:
    with pytest.raises(BadInput, match=r"columns\.ints.*less than or equal to 1000000000"):
        deployment([source(columns={"ints": 10**305}), sink()], [("source", "sink")], {"source": 100})


@pytest.mark.parametrize("value", ["x" * 5000, "a b " * 5000, "line\n" * 5000])
def test_a_long_value_does_not_hide_its_place_and_remedy(value: str) -> None:
    message = str(BadInput(f"query.operators.o.kind: unknown kind {value!r}; known: filter, map"))
    assert len(message) < MOST_CHARACTERS + 60
    assert message.startswith("query.operators.o.kind: unknown kind 'x") or "unknown kind" in message
    assert message.endswith("; known: filter, map")
    assert "\n" not in message and "characters ...]" in message


def test_a_message_that_fits_is_left_alone() -> None:
    assert one_line("a" * MOST_CHARACTERS) == "a" * MOST_CHARACTERS
