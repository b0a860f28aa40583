"""python -m twin.kernel: compiles the kernel, so that nobody has to wait for it later."""

from twin.kernel.advance import advance
from twin.kernel.native import cached

print(f"the simulator's kernel is ready: {cached() or advance}")
