"""Changes of a running job: failures, moves and scaling, and the policies and events that order them."""
