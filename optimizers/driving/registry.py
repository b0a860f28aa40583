"""How a cost model that is learned drives an optimizer, by name. A new way is a file with a wrapper and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optimizers.driving.calibrated import Calibrated
from optimizers.driving.near import Near
from optimizers.interface import Optimizer, traits_of
from optimizers.registry import OPTIMIZERS
from twin.errors import BadInput, suggest

FREE = "free"
"""The optimizer asks the cost model about whatever plan it likes."""
DRIVES: Mapping[str, Callable[[Optimizer], Optimizer]] = {"near": Near, "calibrated": Calibrated}
DRIVEN = tuple(name for name, each in OPTIMIZERS.items() if traits_of(each).drivable)
"""Optimizers that any cost model may drive."""


def driven(optimizer: Optimizer, drive: str | None, *, learned: bool) -> Optimizer:
    """The optimizer as the cost model is to drive it. drive: of DRIVES, or `free`; None: as is usual.

    Raises BadInput for an unknown drive, one for a model that is not learned, or an optimizer that takes none.
    """
    if drive is None:
        return Near(optimizer) if learned and traits_of(optimizer).analytic else optimizer
    if drive == FREE:
        return optimizer
    if drive not in DRIVES:
        raise BadInput(f"unknown drive {drive!r}; {suggest(drive, (*DRIVES, FREE))}")
    if not learned:
        raise BadInput(f"--drive {drive} is for a learned cost model or sim; rates need no drive, leave it out")
    if not traits_of(optimizer).drivable:
        raise BadInput(f"{optimizer.name} cannot be driven; use {', '.join(DRIVEN)}, or leave --drive out")
    return DRIVES[drive](optimizer)
