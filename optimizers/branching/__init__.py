"""Branch and bound over placements: the analytic relaxation prunes, any cost model orders and ranks."""
