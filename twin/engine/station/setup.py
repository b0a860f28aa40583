"""What every station is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import simpy

if TYPE_CHECKING:
    from twin.engine.compute.processor import Processor
    from twin.engine.draws import Draws


@dataclass(frozen=True, slots=True)
class Setup:
    """A replica by name, on a processor. service_s: mean CPU seconds a record."""

    env: simpy.Environment
    name: str
    processor: Processor
    draws: Draws
    service_s: float
