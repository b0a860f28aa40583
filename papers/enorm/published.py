"""What the Enorm paper says of its figures. It draws them without numbers, so only words compare."""

from __future__ import annotations

from collections.abc import Mapping

OPERATORS = (50, 100, 150)
"""Section 7.6: sizes of the random jobs."""

COMPONENTS: Mapping[str, str] = {"COMM": "the most", "PA": "fewer than COMM", "baseline": "fewer than COMM"}
"""Section 7.6 on Fig. 14."""

COMMUNICATION: Mapping[str, str] = {"COMM": "the least", "PA": "more than COMM", "baseline": "more than COMM"}
"""Section 7.6 on Fig. 15."""
