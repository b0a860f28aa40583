"""How far the simulator can be believed: theory, exact against fast, published tables, invariants, in one report."""
