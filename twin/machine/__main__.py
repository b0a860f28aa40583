"""`python -m twin.machine` compiles the simulator in advance."""

import twin.machine.advance  # noqa: F401  # which is compiled when it is first imported
from twin.machine.native import PLAIN
from twin.machine.object_code import file_name

print("nothing is compiled, as NUMBA_DISABLE_JIT says" if PLAIN else f"the simulator is ready: {file_name()}")
