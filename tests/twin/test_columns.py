"""Columns of datasets: each has a description and the unit that its name says."""

from __future__ import annotations

import pytest

from twin.corpus.rows import COLUMNS, column_table
from twin.trace import TRAINING_ROWS

UNITS = {"_per_s": "1/s", "_s": "s"}


def test_no_column_is_without_a_description():
    assert [*COLUMNS] == [*TRAINING_ROWS.names, "measured"]
    assert all(column.says for column in COLUMNS.values())


@pytest.mark.parametrize("name", COLUMNS)
def test_the_unit_is_the_one_that_the_name_says(name):
    said = next((unit for end, unit in UNITS.items() if name.endswith(end)), None)
    assert said is None or COLUMNS[name].unit == said
    counted = name in TRAINING_ROWS.names and str(TRAINING_ROWS.field(name).type) == "int64"
    assert (COLUMNS[name].unit == "1") == counted


def test_a_column_that_nobody_described_is_noticed():
    with pytest.raises(KeyError):
        column_table(["nonsense"])
