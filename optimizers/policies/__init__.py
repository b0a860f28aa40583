"""Policies: what a controller asks at the end of each period of a running job."""

from optimizers.policies.registry import POLICIES

__all__ = ["POLICIES"]
