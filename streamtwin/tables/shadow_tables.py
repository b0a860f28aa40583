"""What a shadow has seen, as a table and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from streamtwin.tables.tables import of_rows
from streamtwin.tables.wide import Wide

MOST = 10


def of_alerts(alerts: Sequence[Mapping[str, Any]]) -> list[Wide]:
    """The last of them; none if there are none."""
    if not alerts:
        return []
    rows = [{"at": f"{each['end_s']:,.0f} s", "words": each["words"]} for each in alerts[-MOST:]]
    more = f", the last {MOST} of {len(alerts)}" if len(alerts) > MOST else ""
    return [of_rows(f"alerts{more}", {"at": "at", "words": ""}, rows)]


def summary(name: str, forecasts: Sequence[Mapping[str, Any]], out: Path) -> str:
    """How far it has come, and how things stand."""
    if not forecasts:
        return f"{name}: no window is complete yet; a window is told when samples have passed its end"
    last = forecasts[-1]
    used = f"{last['pressure_now']:.0%} of what {last['operator']} can bear now, {last['pressure_then']:.0%} then"
    return f"{name}: {len(forecasts)} windows up to {last['end_s']:,.0f} s; {used}; rows are in {out}"
