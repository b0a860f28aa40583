"""What random scenarios are drawn from."""
