"""Wiring: builds the mechanisms that run a deployment."""
