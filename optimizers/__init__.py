"""Choose a plan: one problem in, one solution out, under any cost model."""
