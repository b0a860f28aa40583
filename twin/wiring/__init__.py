"""From a deployment to the mechanisms that run it."""
