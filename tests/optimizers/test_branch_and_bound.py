"""Branch and bound against brute force: on knapsacks, of which it may know nothing, and on placements."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizers.branching import BranchAndBound
from optimizers.interface import Status
from optimizers.milp.moving import Relaxation
from optimizers.milp.optimizer import Milp
from optimizers.numa.tree import Order, search
from optimizers.space import Space, SpacePlans
from scenarios.spaces.generator import COSTREAM, random_scenario
from tests.optimizers import judged_jobs
from tests.optimizers.judged_jobs import edge, small_job
from twin.errors import BadInput
from twin.rates.coefficients import PlacementCoefficients
from twin.scenario import RunSettings

Items = list[tuple[int, int]]


@dataclass(frozen=True)
class Packed:
    """Knapsack with the first `taken` items decided; room: what is left; value: so far."""

    items: tuple[tuple[int, int], ...]
    room: int
    taken: int = 0
    value: int = 0

    @property
    def complete(self) -> bool:
        return self.taken == len(self.items)

    @property
    def bound(self) -> float:
        """Bound by taking the remaining items in pieces: nothing fits better."""
        room, value = float(self.room), float(self.value)
        for weight, worth in sorted(self.items[self.taken :], key=lambda item: -item[1] / item[0]):
            share = min(1.0, room / weight)
            room, value = room - share * weight, value + share * worth
        return value


def branch(node: Packed) -> list[Packed]:
    weight, worth = node.items[node.taken]
    without = Packed(node.items, node.room, node.taken + 1, node.value)
    if weight > node.room:
        return [without]
    return [Packed(node.items, node.room - weight, node.taken + 1, node.value + worth), without]


def brute_force(items: Items, room: int) -> int:
    best = 0
    for choice in range(2 ** len(items)):
        chosen = [item for index, item in enumerate(items) if choice >> index & 1]
        if sum(weight for weight, _ in chosen) <= room:
            best = max(best, sum(worth for _, worth in chosen))
    return best


knapsacks = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 30)), min_size=1, max_size=9)


@pytest.mark.parametrize("order", ["depth", "best"])
@given(items=knapsacks, room=st.integers(1, 60))
def test_it_finds_and_proves_what_brute_force_finds(order: Order, items: Items, room: int) -> None:
    found = search(Packed(tuple(items), room), branch, order=order)
    assert found.best is not None and found.best.value == brute_force(items, room)
    assert found.bound == pytest.approx(found.best.bound)


@pytest.mark.parametrize("order", ["depth", "best"])
@settings(max_examples=50)
@given(items=knapsacks, room=st.integers(1, 60), nodes=st.integers(1, 40))
def test_stopped_early_its_bound_still_holds(order: Order, items: Items, room: int, nodes: int) -> None:
    found = search(Packed(tuple(items), room), branch, order=order, most=nodes)
    truth = brute_force(items, room)
    assert found.nodes <= nodes
    assert found.bound >= truth - 1e-9
    assert found.best is None or found.best.value <= truth


def test_best_first_looks_at_no_node_that_cannot_win() -> None:
    """Every node that best-first opens has a bound of at least the optimum."""
    items, room = [(3, 5), (5, 8), (7, 9), (2, 4), (6, 10), (4, 3)], 13
    opened: list[float] = []

    def watched(node: Packed) -> list[Packed]:
        opened.append(node.bound)
        return branch(node)

    search(Packed(tuple(items), room), watched, order="best")
    assert min(opened) >= brute_force(items, room)


def test_a_known_solution_prunes_and_survives() -> None:
    items, room = ((3, 5), (5, 8), (7, 9), (2, 4)), 12
    first = search(Packed(items, room), branch)
    again = search(Packed(items, room), branch, known=first.best)
    assert again.best is first.best and again.nodes < first.nodes


TOGETHER = Space(spread=False)


asked = partial(judged_jobs.asked, space=TOGETHER)


def test_most_ordinary_jobs_are_proved_with_a_handful_of_estimates():
    proved, few = [], []
    for seed in (3, 7, 8, 11, 15, 23):
        job = random_scenario(COSTREAM, seed, RunSettings())
        problem = replace(asked(job), space=Space(costream_rules=True))
        found = BranchAndBound().solve(problem)
        few.append(found.evaluations < 200)
        proved.append(found.status is Status.OPTIMAL)
    assert sum(proved) >= 5 and sum(few) >= 5


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), placed=st.integers(0, 3))
def test_a_partial_placement_is_bounded_by_its_completions(seed, placed):
    """A partial placement's relaxation is never above that of its completions, whatever the network adds."""
    job = small_job(seed)
    relaxation = Relaxation.of(PlacementCoefficients.of(job), TOGETHER, end_to_end=False)
    whole = SpacePlans(job, TOGETHER).all().argmax(axis=2)
    part = whole.copy()
    part[:, placed:] = -1
    bound, completed = relaxation.solve(part)
    exact, same = relaxation.solve(whole)
    assert (bound <= exact * (1 + 1e-9)).all()
    np.testing.assert_array_equal(same, whole)
    np.testing.assert_array_equal(completed[:, :placed], whole[:, :placed])
    reached, _ = relaxation.solve(completed)
    assert (reached >= bound * (1 - 1e-9)).all()


def test_subtasks_stay_together_unless_the_space_wants_them_parted():
    found = BranchAndBound().solve(replace(asked(edge()), space=Space()))
    assert {len(set(places)) for places in found.plan.placement.values()} == {1}
    assert "an operator on one socket" in found.among
    for space in (Space(spread=True), Space(pinned=frozenset({"sensors"}))):
        with pytest.raises(BadInput, match="one socket; use milp"):
            BranchAndBound().solve(replace(asked(edge()), space=space))


def test_a_budget_of_one_gives_the_first_plan_of_milp_and_no_more():
    job = random_scenario(COSTREAM, 3, RunSettings())
    problem = asked(job, budget=1)
    found = BranchAndBound().solve(problem)
    assert found.evaluations == 1
    assert found.plan == Milp().solve(problem).plan
