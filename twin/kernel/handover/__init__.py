"""Handover between the engine's objects and the kernel's structures, subject by subject: to the last bit."""
