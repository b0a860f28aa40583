"""`python -m twin.kernel` compiles the kernel in advance."""

from twin.kernel.advance import advance
from twin.kernel.native import cached

print(f"the simulator's kernel is ready: {cached() or advance}")
