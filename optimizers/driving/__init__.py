"""Searches under a black box, such as a learned model, within limits that the rate model sets."""
