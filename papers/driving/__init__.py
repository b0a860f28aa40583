"""What-ifs about optimizers: a learned model with less to learn from, and loads that drift away from the plan."""
