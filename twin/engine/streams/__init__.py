"""How tuples get from one task to the next: dealing, channels, credits, the network."""
