"""Several logics as one, one behind the other: it holds what they hold, and counts what they count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.engine.draws import Draws
from twin.engine.logic import Logic
from twin.engine.logics.sink import SinkLogic
from twin.engine.windows.content import Leaves, State

if TYPE_CHECKING:
    from twin.engine.streams.keys import KeyGroups


class Step:
    """One logic of a chain. service_s: mean CPU seconds of a record that comes to it, of so many bytes. came: records.

    Of the first step, the station knows all this itself.
    """

    __slots__ = ("came", "draws", "logic", "service_s")

    def __init__(self, logic: Logic, draws: Draws, service_s: float, tuple_bytes: float) -> None:
        self.logic = logic
        self.draws = draws
        self.service_s = service_s
        self.came = 0
        logic.inner_bytes = tuple_bytes

    def work_s(self) -> float:
        """CPU seconds of a record that comes to it."""
        self.came += 1
        return self.draws.service() * self.service_s if self.service_s > 0.0 else 0.0


class Steps(Logic):
    """From the first to the last. What a record becomes is for those to say who take it through them."""

    __slots__ = ("steps",)

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps
        self.keeps = any(step.logic.keeps for step in steps)

    def held(self) -> float:
        """See Logic."""
        return sum([step.logic.held() for step in self.steps])

    def held_bytes(self) -> float:
        """See Logic."""
        return sum([step.logic.held_bytes() for step in self.steps])

    def window_bytes(self) -> float:
        """See Logic."""
        return sum([step.logic.window_bytes() for step in self.steps])

    def held_keys(self) -> list[tuple[list[int], float]]:
        """See know_keys."""
        return self.steps[0].logic.held_keys()

    def take(self, share: float, leaves: Leaves | None = None) -> State:
        """See Logic, and know_keys. Stores of all windows, one after the other."""
        state = State()
        for number, step in enumerate(self.steps):
            taken = step.logic.take(share, None if number else leaves)
            state.stores += taken.stores
            state.bytes += taken.bytes
        return state

    def give(self, state: State) -> None:
        """See Logic."""
        stores = state.stores
        for step in self.steps:
            count = step.logic.stores()
            if count:
                step.logic.give(State(stores[:count]))
                stores = stores[count:]

    def stores(self) -> int:
        """See Logic."""
        return sum([step.logic.stores() for step in self.steps])

    def know_keys(self, keys: KeyGroups, replica: int) -> None:
        """Keys are dealt on the way to the first."""
        self.steps[0].logic.know_keys(keys, replica)

    def know_share(self, share: float, values: list[int]) -> None:
        """See Logic."""
        for number, step in enumerate(self.steps):
            step.logic.know_share(share, values[number:])

    # what is counted -----------------------------------------------------------------------------------------------

    def sink(self) -> SinkLogic | None:
        """See Logic."""
        return self.steps[-1].logic.sink()

    def operators(self) -> int:
        """See Logic."""
        return len(self.steps)

    def part(self, number: int) -> Logic:
        """See Logic."""
        return self.steps[number].logic

    def taken(self, number: int) -> int:
        """See Logic."""
        return self.steps[number].came if number else self.station.tuples_in

    def sent(self, number: int) -> int:
        """See Logic."""
        return self.steps[number + 1].came if number + 1 < len(self.steps) else self.station.tuples_out
