"""Published experiments, a file each; `registry.EXPERIMENTS` lists them, and `twin reproduce` runs them."""
