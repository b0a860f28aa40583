"""Package of tests: some distributions (Ciw) install a top-level `tests`, which would otherwise hide this one."""
