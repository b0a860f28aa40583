"""How producers deal tuples to the replicas of a consumer."""
