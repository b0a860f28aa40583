"""A system outside that takes so many calls a second, of all replicas together, one after the other."""

from __future__ import annotations


class Gate:
    """each_s: from one call to the next at least. free_s: when the next call may be made."""

    __slots__ = ("each_s", "free_s")

    def __init__(self, per_s: float) -> None:
        self.each_s = 1.0 / per_s
        self.free_s = 0.0

    def admit(self, at_s: float) -> float:
        """When a call may be made that is to be made at that time."""
        begun_s = max(self.free_s, at_s)
        self.free_s = begun_s + self.each_s
        return begun_s
