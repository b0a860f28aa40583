"""Published experiments, a file each; `registry.EXPERIMENTS` names them and `twin reproduce` runs them."""
