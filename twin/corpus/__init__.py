"""Many runs in one folder: what decides them, how a chunk of them is simulated and written, and their data card."""
