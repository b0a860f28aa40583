"""A fixed, versioned suite of placement problems, so that optimizers are compared on the same ones everywhere."""
