"""A package of its own: some distributions (Ciw) install a top-level `tests`, which would otherwise hide this one."""
