"""Random numbers for the hot path: drawn in blocks, handed out one by one."""

from __future__ import annotations

import math

import numpy as np

BLOCK = 1024


class Lot:
    """Number of a record that stands for `Draws`: it decides wherever a number would be drawn."""

    def __init__(self, number: float) -> None:
        self.number = number

    def uniform(self) -> float:
        """The number, in [0, 1)."""
        return self.number


class Draws:
    """Random numbers of one component, from its own generator."""

    def __init__(self, rng: np.random.Generator, service_scv: float = 1.0) -> None:
        self.rng = rng
        self._uniforms: list[float] = []
        self._services: list[float] = []
        self._scv = service_scv

    def uniform(self) -> float:
        """Random number, uniform on [0, 1)."""
        if not self._uniforms:
            self._uniforms = self.rng.random(BLOCK).tolist()
        return self._uniforms.pop()

    def service(self) -> float:
        """Service time of mean 1: Gamma with the component's squared coefficient of variation."""
        if self._scv == 0.0:
            return 1.0
        services = self._services
        if not services:
            services = self._services = (self.rng.standard_gamma(1.0 / self._scv, BLOCK) * self._scv).tolist()
        return services.pop()

    def rounded(self, value: float) -> int:
        """Whole number with mean `value`: its floor, or one more."""
        floor = math.floor(value)
        return floor + (1 if self.uniform() < value - floor else 0)
