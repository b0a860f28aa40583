"""Experiments of ours about optimizers: learned models with less to learn from, and loads that drift from the plan."""
