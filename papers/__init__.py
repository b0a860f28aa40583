"""Published experiments, a folder for each paper; `registry.EXPERIMENTS` lists them, and `twin reproduce` runs them."""
