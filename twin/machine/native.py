"""Compilation of this package's Python to machine code: structures behind addresses, calls through addresses.

All state lies in structures of fixed layout, as in C; the code reads and writes their fields in place. Numba compiles
it once for these sources and this processor. The object code is kept, and llvmlite alone loads it in some milliseconds:
numba is imported only to compile. With NUMBA_DISABLE_JIT=1 the same source runs as plain Python, slowly, for a
debugger. With STREAMTWIN_CHECK=1 each access to memory is checked (`twin.machine.checks`).
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from typing import Any, cast
from weakref import WeakValueDictionary

import llvmlite.binding as llvm
import numpy as np

from twin.machine.checks import CHECK, SYMBOL, allowed, number_of, require
from twin.machine.object_code import cached, keep

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
"""Type of calls to and from machine code: two whole numbers in, one out."""
PLAIN = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")
"""Whether the source runs as plain Python."""
UNREACHABLE = "numba_do_raise numba_gil_ensure numba_gil_release numba_runtime_build_excinfo_struct numba_unpickle"
"""Functions that compiled code would call to raise errors, which none of ours does."""
READY = None if PLAIN else cached()
"""Object code by symbol, if it need not be compiled."""

if not PLAIN and READY is None:
    if not os.environ.get("STREAMTWIN_QUIET"):  # of `--quiet`, also for the processes that it starts
        print("compiling the simulator, once (20 s to 3 minutes of one core) ...", file=sys.stderr, flush=True)
    import numba
    from numba import types
    from numba.extending import intrinsic


# structures ----------------------------------------------------------------------------------------------------------


def structure(fields: str, floats: str) -> np.dtype[Any]:
    """Layout of 8-byte fields, by names: whole numbers, then floating-point numbers."""
    taken = {*fields.split(), *floats.split()}.intersection(dir(np.record))
    assert not taken, f"plain Python would not find the fields {taken} behind NumPy's own attributes"
    wholes, reals = ([(name, kind) for name in names.split()] for names, kind in ((fields, "i8"), (floats, "f8")))
    return np.dtype(wholes + reals, align=True)


def accessor(layout: np.dtype[Any]) -> Callable[[int], Any]:
    """Makes the function from an address to the structure that lies there, to be read and written in place."""
    number = number_of(layout)
    if PLAIN or READY:
        record, size = np.dtype((np.record, layout)), layout.itemsize

        def plain(address: int) -> Any:
            if CHECK:
                require(int(address), number)
            memory: Any = (ctypes.c_char * size).from_address(int(address))
            return np.ndarray((1,), record, memory)[0]

        return plain
    type_ = numba.from_dtype(layout)

    @intrinsic
    def at(_context: Any, _address: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(type_))

        return type_(types.int64), generate

    if not CHECK:
        return cast("Callable[[int], Any]", at)

    @numba.njit(error_model="numpy")
    def checked(address: int) -> Any:
        return at(checked_address(address, number))  # type: ignore[call-arg]

    return cast("Callable[[int], Any]", checked)


if CHECK:
    ALLOWED = CALLBACK(allowed)
    llvm.add_symbol(SYMBOL, ctypes.cast(ALLOWED, ctypes.c_void_p).value)

if CHECK and not PLAIN and READY is None:

    @intrinsic
    def checked_address(_context: Any, _address: Any, _number: Any) -> Any:
        """Asks whether a structure may lie at an address; returns where it is taken to be."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            from llvmlite import ir
            from numba.core import cgutils

            whole = ir.IntType(64)
            target = cgutils.get_or_insert_function(builder.module, ir.FunctionType(whole, [whole, whole]), SYMBOL)
            return builder.call(target, arguments)

        return types.int64(types.int64, types.int64), generate


float_at = accessor(structure("", "value"))
whole_at = accessor(structure("value", ""))


if PLAIN or READY:
    CALLED = WeakValueDictionary[int, Callable[..., int]]()
    """Functions that plain Python calls, by address."""

    def call(address: int, a: int, b: int) -> int:
        """Calls the function at an address."""
        return CALLED[int(address)](int(a), int(b))

else:

    @intrinsic
    def call(_context: Any, _address: Any, _a: Any, _b: Any) -> Any:
        """Calls the function at an address."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            from llvmlite import ir

            whole = ir.IntType(64)
            target = builder.inttoptr(arguments[0], ir.FunctionType(whole, [whole, whole]).as_pointer())
            return builder.call(target, arguments[1:])

        return types.int64(types.int64, types.int64, types.int64), generate


def address_of(function: Any) -> int:
    """Address of a function for `call`; the caller keeps the function alive."""
    if PLAIN:
        CALLED[id(function)] = function
        return id(function)
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


# compiling -----------------------------------------------------------------------------------------------------------


def compiled(function: Callable[..., Any]) -> Any:
    """Marks a function that is compiled with its callers."""
    return function if PLAIN or READY else numba.njit(function, error_model="numpy")


def inlined(function: Callable[..., Any]) -> Any:
    """Marks a function that every record takes: it is inlined into its callers."""
    return function if PLAIN or READY else numba.njit(function, error_model="numpy", forceinline=True)


def entries(*functions: Callable[[int, int], int]) -> list[Any]:
    """Compiles or loads functions that are called through their addresses, from Python, too."""
    if PLAIN:
        return list(functions)
    if READY:
        return loaded(READY)
    kind = types.int64(types.int64, types.int64)
    made: list[Any] = [numba.cfunc(kind, error_model="numpy")(each) for each in functions]
    objects = {each._wrapper_name: each._library.serialize_using_object_code()[2][0] for each in made}
    keep(objects)
    return loaded(objects)


def loaded(objects: dict[str, bytes]) -> list[Any]:
    """Loads object code; returns the functions of its symbols, in their order."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    nothing = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
    for symbol in (*UNREACHABLE.split(), "NRT_Free"):
        llvm.add_symbol(symbol, nothing)
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="jitdefault")
    LOADED.append(llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine))
    for code in objects.values():
        LOADED[-1].add_object_file(llvm.ObjectFileRef.from_data(code))
    LOADED[-1].finalize_object()
    return [CALLBACK(LOADED[-1].get_function_address(symbol)) for symbol in objects]


LOADED: list[Any] = []
"""Compilers whose machine code is in use."""
