"""The data pipeline on Spark: fan simulations out, turn their traces into training rows."""
