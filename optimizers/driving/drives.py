"""How a learned cost model drives an optimizer, by name. A new way is a file with a function and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from optimizers.driving.calibrated import calibrated
from optimizers.driving.near import near
from optimizers.interface import Optimizer, Problem, Propose, Solution, Traits, traits_of
from optimizers.registry import DRIVEN
from twin.errors import BadInput, suggest

FREE = "free"
"""The optimizer asks the cost model about whatever plan it likes."""
DRIVES: Mapping[str, Callable[[Problem, Propose, Traits], Solution]] = {"near": near, "calibrated": calibrated}


def drive_of(optimizer: Optimizer, drive: str | None, *, learned: bool) -> str | None:
    """How the cost model is to drive an optimizer, of DRIVES; None: not at all. drive: what is asked for, or `free`;
    None: as is usual.

    Raises BadInput for an unknown drive, one for a model that is not learned, or an optimizer that takes none.
    """
    if drive is None:
        return "near" if learned and traits_of(optimizer).analytic else None
    if drive == FREE:
        return None
    if drive not in DRIVES:
        raise BadInput(f"unknown drive {drive!r}; {suggest(drive, (*DRIVES, FREE))}")
    if not learned:
        raise BadInput(f"--drive {drive} is for a learned cost model or sim; rates need no drive, leave it out")
    if not traits_of(optimizer).drivable:
        raise BadInput(f"{optimizer.name} cannot be driven; use {', '.join(DRIVEN)}, or leave --drive out")
    return drive
