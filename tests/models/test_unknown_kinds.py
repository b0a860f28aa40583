"""Kinds of operators without columns are refused by learned models, in one line that names the kind."""

from __future__ import annotations

import pytest

from models.facts import operator_facts
from models.features import require_learned
from models.ranges import outside
from scenarios.files.scenario_file import load
from twin.errors import BadInput


def test_an_ordinary_job_of_further_kinds_is_refused() -> None:
    job = load("enrichment")
    with pytest.raises(BadInput, match="know no operators of kind 'kafka-source'"):
        outside({}, job)
    for each in operator_facts(job):
        if each.spec.kind in ("sink", "map"):
            continue
        with pytest.raises(BadInput, match=f"know no operators of kind '{each.spec.kind}'"):
            require_learned([each])
