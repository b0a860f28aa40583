"""`python -m twin.kernel` compiles the kernel in advance."""

import twin.kernel.advance  # noqa: F401  # which is compiled when it is first imported
from twin.kernel.native import PLAIN
from twin.kernel.object_code import file_name

print("nothing is compiled, as NUMBA_DISABLE_JIT says" if PLAIN else f"the simulator's kernel is ready: {file_name()}")
