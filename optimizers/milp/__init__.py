"""Plans by mixed-integer linear programs over the rate model's placement coefficients."""
