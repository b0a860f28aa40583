"""Builds the mechanisms that run a deployment."""
