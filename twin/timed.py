"""What happens at a given time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from twin.spec import Spec


class Timed(Spec):
    """What all events share."""

    at_s: Annotated[float, Field(ge=0, le=10**7, description="simulated second at which it happens")]


def told_event(index: int, event: Timed) -> str:
    """An event in messages: `events.0 (migration of views at 120 s)`. Unquoted: `error_location` looks quotes up."""
    named = (getattr(event, part, None) for part in ("operator", "source", "host", "component"))
    what = next(name for name in named if name)
    return f"events.{index} ({getattr(event, 'kind', '')} of {what} at {event.at_s:g} s)"
