"""Policies: they decide on changes of a running job at the end of each period."""

from optimizers.policies.registry import POLICIES

__all__ = ["POLICIES"]
