"""Analytic model: rates, loads and latencies of many plans at once, from formulas."""
