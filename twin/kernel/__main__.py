"""`python -m twin.kernel` compiles the kernel in advance."""

from twin.kernel.advance import advance
from twin.kernel.object_code import file_name

print(f"the simulator's kernel is ready: {file_name() if advance else 'nothing is compiled'}")
