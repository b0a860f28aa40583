"""What happens at a given time."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from twin.spec import Spec


class Timed(Spec):
    """What all events share."""

    at_s: Annotated[float, Field(ge=0, le=10**7, description="simulated second at which it happens")]
