"""Files of older versions: they run, and name once what can be left out or is called otherwise today."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from scenarios.files import scenario_file
from scenarios.files.scenario_file import set_values
from tests.commands import refused
from tests.twin.worlds import queue
from twin.events import Migration
from twin.scenario import RunSettings, Scenario
from twin.simulation import simulate
from twin.spec import parse
from twin.trace import read_table, write_trace
from twin.words import NEWER, Retired

BEFORE = {today: word for word, today in NEWER.items()}
OLDER = re.compile(rf"(?<![a-z])({'|'.join(BEFORE)})(?![a-z])")


@pytest.mark.parametrize("retired", [{"fidelity": "fast"}, {"fidelity": "auto", "segments": 2000}])
def test_settings_that_are_gone_are_passed_over_and_told(retired: dict[str, Any]) -> None:
    with pytest.warns(Retired, match="can be left out: every run is exact"):
        found = parse(RunSettings, {"horizon_s": 60.0, **retired})
    assert found == RunSettings(horizon_s=60.0)


def test_assignments_of_them_change_nothing() -> None:
    scenario = Scenario.of(queue(100, 0.5, 1))
    with pytest.warns(Retired):
        assert set_values(scenario, ["run.fidelity=exact", "run.segments=500"]) == scenario


def older(data: Any) -> Any:
    """Data of a scenario in the words of older versions: tuples and replicas."""
    if isinstance(data, dict):
        return {OLDER.sub(lambda word: BEFORE[word[0]], key): older(value) for key, value in data.items()}
    return [older(each) for each in data] if isinstance(data, list) else data


@pytest.mark.parametrize("name", ["airline-weather", "lte", "page-views", "briskstream-wc", "gateways"])
def test_files_in_older_words_are_what_they_were(name: str) -> None:
    scenario = scenario_file.load(name)
    words = older(scenario.model_dump(mode="json"))
    assert "tuple" in str(words) and "record_" not in str(words)
    with pytest.warns(Retired, match="is called record"):
        assert parse(Scenario, words) == scenario


def test_events_and_settings_in_older_words() -> None:
    with pytest.warns(Retired, match="replica is called subtask now; files that say replica still run"):
        found = parse(Migration, {"kind": "migration", "at_s": 1, "operator": "m", "replica": 0, "to": "h"})
    assert found == Migration(at_s=1, operator="m", subtask=0, to="h")
    scenario = scenario_file.load("airline-weather")
    with pytest.warns(Retired, match="tuple_bytes is called record_bytes now"):
        changed = set_values(scenario, ["query.operators.flights.tuple_bytes=77"])
    assert changed == set_values(scenario, ["query.operators.flights.record_bytes=77"])


def test_traces_in_older_words_are_read_without_a_word(tmp_path: Path) -> None:
    write_trace(simulate(Scenario.of(queue(100, 0.5, 1), RunSettings(horizon_s=2.0))).rows("0-0"), tmp_path / "trace")
    path = tmp_path / "trace" / "operators.parquet"
    table = read_table(path.parent, "operators")
    path.chmod(0o644)
    names = ["replicas" if name == "parallelism" else name for name in table.column_names]
    pq.write_table(table.rename_columns(names), path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_table(path.parent, "operators").equals(table)


def test_options_in_older_words_are_answered_with_todays() -> None:
    assert "(it is --parallelism now)" in refused("optimize", "edge-filter", "--replicas", "fixed")


def test_nothing_else_is_told() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parse(RunSettings, {"horizon_s": 60.0})
