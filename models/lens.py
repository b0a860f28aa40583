"""Through which constants models see the rows of a dataset, whatever these rows say."""

from __future__ import annotations

from typing import Protocol

from twin.deployment import Deployment


class Lens(Protocol):
    """Other constants than the rows have; labels stay what they are. Must be picklable."""

    @property
    def name(self) -> str:
        """For file names: what decides what is seen."""

    def __call__(self, deployment: Deployment, run: str) -> Deployment:
        """The deployment of that run as it is seen."""
