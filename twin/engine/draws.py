"""Random numbers for the hot path: drawn in blocks, handed out one by one."""

from __future__ import annotations

import math
from math import sqrt

import numpy as np

BLOCK = 256
NORMAL_ENOUGH = 30.0
"""From this shape on, Wilson-Hilferty's cube of a normal replaces a Gamma draw (error of the mean below 1e-4)."""


class Draws:
    """The numbers of one component, from its own generator."""

    __slots__ = ("_exponentials", "_normals", "_scv", "_services", "_uniforms", "rng")

    def __init__(self, rng: np.random.Generator, service_scv: float = 1.0) -> None:
        self.rng = rng
        self._normals: list[float] = []
        self._uniforms: list[float] = []
        self._exponentials: list[float] = []
        self._services: list[float] = []
        self._scv = service_scv

    def normal(self) -> float:
        """Standard normal."""
        if not self._normals:
            self._normals = self.rng.standard_normal(BLOCK).tolist()
        return self._normals.pop()

    def uniform(self) -> float:
        """Uniform on [0, 1)."""
        if not self._uniforms:
            self._uniforms = self.rng.random(BLOCK).tolist()
        return self._uniforms.pop()

    def exponential(self) -> float:
        """Exponential of mean 1."""
        if not self._exponentials:
            self._exponentials = self.rng.standard_exponential(BLOCK).tolist()
        return self._exponentials.pop()

    def service(self) -> float:
        """One service time of mean 1: Gamma with the component's squared coefficient of variation."""
        if self._scv == 0.0:
            return 1.0
        services = self._services
        if not services:
            services = self._services = (self.rng.standard_gamma(1.0 / self._scv, BLOCK) * self._scv).tolist()
        return services.pop()

    def services(self, n: int) -> float:
        """The sum of n service times of mean 1."""
        scv = self._scv
        if n == 1 or scv == 0.0:
            return self.service() if n == 1 else float(n)
        shape = n / scv
        if shape < NORMAL_ENOUGH:
            return float(self.rng.standard_gamma(shape)) * scv
        normals = self._normals
        if not normals:
            normals = self._normals = self.rng.standard_normal(BLOCK).tolist()
        ninth = 1.0 / (9.0 * shape)
        return n * (1.0 - ninth + normals.pop() * sqrt(ninth)) ** 3

    def binomial(self, n: int, p: float) -> int:
        """Successes in n trials."""
        if n == 1:
            return 1 if self.uniform() < p else 0
        if p >= 1.0:
            return n
        variance = n * p * (1.0 - p)
        if variance < NORMAL_ENOUGH:
            return int(self.rng.binomial(n, p))
        return min(n, max(0, round(n * p + self.normal() * sqrt(variance))))

    def poisson(self, mean: float) -> int:
        """Poisson count."""
        if mean < NORMAL_ENOUGH:
            return int(self.rng.poisson(mean))
        return max(0, round(mean + self.normal() * sqrt(mean)))

    def rounded(self, value: float) -> int:
        """A whole number with mean `value`: its floor, or one more."""
        floor = math.floor(value)
        return floor + (1 if self.uniform() < value - floor else 0)

    def occupied(self, n: int, boxes: float) -> int:
        """How many of `boxes` equally likely boxes n balls occupy (normal approximation of the occupancy law)."""
        if n <= 1 or boxes <= 1.0:
            return min(n, 1)
        empty1 = math.exp(n * math.log1p(-1.0 / boxes))
        empty2 = math.exp(n * math.log1p(-2.0 / boxes)) if boxes > 2.0 else 0.0
        mean = boxes * (1.0 - empty1)
        variance = max(0.0, boxes * (boxes - 1.0) * empty2 + boxes * empty1 - (boxes * empty1) ** 2)
        return max(1, min(n, math.ceil(boxes), self.rounded(mean + self.normal() * sqrt(variance))))
