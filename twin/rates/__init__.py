"""The analytic model: rates, loads, latencies of many plans at once, from formulas."""
