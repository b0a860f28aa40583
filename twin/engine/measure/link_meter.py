"""Statistics of one network card or one direction of a link, every period."""

from __future__ import annotations

from typing import Any

from twin.engine.streams.network import Nic


class LinkMeter:
    """Reads one card or link; one row a period."""

    def __init__(self, name: str, nic: Nic) -> None:
        self.name = name
        self.nic = nic
        self._sent = 0.0
        self._before = self._counters()

    def _counters(self) -> tuple[float, float, int, int]:
        nic = self.nic
        self._sent = max(self._sent, nic.bytes_out - nic.unsent_bytes())  # unsent jumps when the bandwidth changes
        return self._sent, nic.capacity_bytes(), nic.tuples_in, nic.tuples_out

    def row(self, period: int, start_s: float, end_s: float) -> dict[str, Any]:
        """The period's row; resets the meter.

        Stamps of records may run ahead of the clock by the service of a tuple, so what was sent may exceed what
        could be sent by that much: the utilisation is held to 1.
        """
        now, before = self._counters(), self._before
        self._before = now
        sent, possible, tuples_in, tuples_out = (new - old for new, old in zip(now, before, strict=True))
        return {
            "link": self.name,
            "period": period,
            "start_s": start_s,
            "end_s": end_s,
            "bytesOut": sent,
            "utilisation": min(1.0, sent / possible),
            "tuplesIn": int(tuples_in),
            "tuplesOut": int(tuples_out),
        }
