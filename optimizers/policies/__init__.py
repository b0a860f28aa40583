"""Policies: what a controller asks at the end of each period of a running job."""

from optimizers.policies.registry import POLICIES, policy_by_name

__all__ = ["POLICIES", "policy_by_name"]
