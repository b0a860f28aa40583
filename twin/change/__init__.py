"""What happens to a running job: failures, moves, scaling, and whoever orders them."""
