"""Assign the key groups of a job to nodes: load balance, scale-in, collocation under a migration budget (ALBIC)."""
