"""Data pipeline on Spark: distributes simulations, and turns their traces into training rows."""
