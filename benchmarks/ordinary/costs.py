"""What a record costs by an engine profile, and how large it is (`docs/profiles.md`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Costs:
    """Of the operators of a job, one host each."""

    def __init__(self, operators: Mapping[str, Mapping[str, Any]], engine: Mapping[str, Any]) -> None:
        self.operators, self.engine = operators, engine

    def bytes_of(self, producer: str) -> float:
        """Of a record that it emits."""
        given = self.operators[producer].get("tuple_bytes")
        if given is not None:
            return float(given)
        values = self.engine["value_bytes"]
        return float(self.engine["tuple_bytes"] + sum(values[k] * n for k, n in self._columns(producer).items()))

    def _columns(self, producer: str) -> dict[str, int]:
        each = self.operators[producer]
        if each["kind"] == "aggregate":
            return {"ints": int(each.get("group_by") == "int"), "strings": 0, "doubles": 1}
        if each["kind"] in ("filter", "map"):
            return self._columns(next(iter(each["from"])))
        return {"ints": 1, "strings": 1, "doubles": 1}

    def service_s(self, name: str) -> float:
        """Mean of a service: as given, or by the profile; and what records cost that cross hosts."""
        each, engine = self.operators[name], self.engine
        columns = self._columns(next(iter(each["from"]), name))
        us = engine["tuple_us"].get(each["kind"], 0) + sum(engine["value_us"][k] * n for k, n in columns.items())
        us = 1e3 * each["ms"] if "ms" in each else us
        for producer in each["from"]:
            if self._host(producer) != self._host(name):
                us += engine["deserialise_ns_per_byte"] * self.bytes_of(producer) / 1e3
        for other, their in self.operators.items():
            if name in their["from"] and self._host(other) != self._host(name) and each["kind"] != "aggregate":
                us += engine["serialise_ns_per_byte"] * self.bytes_of(name) * each.get("selectivity", 1) / 1e3
        return us / 1e6

    def _host(self, name: str) -> str:
        return str(next(iter(self.operators[name]["at"])))
