"""Arrivals of records at a job: clocks, brokers and recordings."""
