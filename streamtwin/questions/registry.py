"""Registry of questions by their commands."""

from __future__ import annotations

from collections.abc import Mapping

from streamtwin.questions import plans, runs, shadow
from streamtwin.questions.question import Form, Question

QUESTIONS: Mapping[str, type[Question]] = {
    each.command: each for each in (*runs.QUESTIONS, *plans.QUESTIONS, *shadow.QUESTIONS)
}


def forms() -> Mapping[str, Form]:
    """Forms on the page, by command, in their order."""
    known = {name: each.form for name, each in QUESTIONS.items() if each.form is not None}
    return dict(sorted(known.items(), key=lambda each: each[1].place))
