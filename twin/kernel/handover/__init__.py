"""From the engine's objects to the kernel's structures and back, subject by subject: to the last bit."""
