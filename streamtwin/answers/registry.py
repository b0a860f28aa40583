"""Registry of questions whose answers are kept in folders: the type and the presentation of each command's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from scenarios.benchmarking.request import SuiteJudged
from scenarios.files.documents import read
from scenarios.planning.leader_board import PlansJudged
from scenarios.questions.capacity import CapacityAnswer
from scenarios.questions.dry_run import DryRunAnswer
from scenarios.questions.policies_compared import PoliciesCompared
from scenarios.questions.sensitivity import SensitivityAnswer
from scenarios.questions.whatif import VariantsCompared
from streamtwin.answers import capacity, comparison, dry_run, plans, policies, sensitivity
from streamtwin.answers.presentation import Presentation


class Answered(NamedTuple):
    """Question with an answer. answer: type of the result. told: function that makes the result's presentation."""

    answer: Any
    told: Callable[[Any], Presentation]


ANSWERS: Mapping[str, Answered] = {
    "whatif": Answered(VariantsCompared, comparison.told),
    "compare": Answered(VariantsCompared, comparison.told),
    "compare-policies": Answered(PoliciesCompared, policies.told),
    "capacity": Answered(CapacityAnswer, capacity.told),
    "sensitivity": Answered(SensitivityAnswer, sensitivity.told),
    "dry-run": Answered(DryRunAnswer, dry_run.told),
    "validate": Answered(PlansJudged, plans.told),
    "benchmark": Answered(SuiteJudged, plans.told_of_suite),
}


def presented(command: str, document: str) -> Presentation:
    """Presentation of an answer's document. Raises KeyError for an unknown command, ValueError for another document."""
    kind, told = ANSWERS[command]
    return told(read(kind, document))
