"""How far off a run may be, and runs that are no further off than asked."""
