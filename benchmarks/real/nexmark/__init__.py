"""Judges the twin by Nexmark as Flink SQL: imported at two light loads, predicted, then measured at its knee."""
