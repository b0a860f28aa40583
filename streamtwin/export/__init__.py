"""Runs for other programs: trace viewers, spreadsheets, data frames."""
