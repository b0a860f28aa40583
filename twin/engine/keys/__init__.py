"""Key groups at run time: their keys, weights and owners, and what of them stays together along streams."""
