"""Kinds of operators without columns are refused by learned models, in one line that names the kind."""

from __future__ import annotations

import pytest

from models.coverage import outside
from models.features import require_learned
from models.job_columns import job_columns
from scenarios.files.scenario_file import load
from twin.errors import BadInput


def test_an_ordinary_job_of_further_kinds_is_refused() -> None:
    job = load("enrichment")
    with pytest.raises(BadInput, match="know no operators of kind 'kafka-source'"):
        outside({}, job_columns(job))
    for kind in {*job_columns(job).kinds} - {"sink", "map"}:
        with pytest.raises(BadInput, match=f"know no operators of kind '{kind}'"):
            require_learned([kind])
