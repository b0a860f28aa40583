"""Planning: chooses plans, and judges them in the simulator."""
