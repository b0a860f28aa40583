"""What a shadow has seen, as a table and a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from streamtwin.connect.shadow.shadow import AlertRow, JobFollowed
from streamtwin.tables.tables import of_rows
from streamtwin.tables.wide import Wide

MOST = 10


def of_alerts(alerts: Sequence[AlertRow]) -> list[Wide]:
    """The last of them; none if there are none."""
    if not alerts:
        return []
    rows = [{"at": f"{each.end_s:,.0f} s", "words": each.words} for each in alerts[-MOST:]]
    more = f", the last {MOST} of {len(alerts)}" if len(alerts) > MOST else ""
    return [of_rows(f"alerts{more}", {"at": "at", "words": ""}, rows)]


def summary(name: str, seen: JobFollowed) -> str:
    """How far it has come, and how things stand."""
    last = seen.last
    if last is None:
        return f"{name}: no window is complete yet; a window is told when samples have passed its end"
    used = f"{last.pressure_now:.0%} of what {last.operator} can bear now, {last.pressure_then:.0%} then"
    return f"{name}: {seen.windows} windows up to {last.end_s:,.0f} s; {used}; rows are in {seen.out}"
