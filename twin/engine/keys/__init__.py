"""Key groups at run time: their keys, weights and owners, and the alignment of keys along streams."""
