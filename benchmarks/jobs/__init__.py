"""Jobs as people write them, of no published experiment: fast runs beside exact ones."""
