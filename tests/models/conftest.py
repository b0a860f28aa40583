"""Most of these tests' time would be XLA optimising networks that run once."""

from __future__ import annotations

import jax

jax.config.update("jax_disable_most_optimizations", True)
