"""Where the key groups of a job run: load balance, scale-in and collocation under a migration budget (ALBIC)."""
