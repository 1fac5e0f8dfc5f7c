"""How kernels are compiled."""

from collections.abc import Callable
from typing import Any

import numba
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

Bytes = types.Array(types.uint8, 1, "C", readonly=True)


def compiled(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile for one signature: cached on disk, so that a node compiles once; without the lock of the interpreter.

    A cached function is thrown away when its own file changes, not when a constant or function that it takes from
    another file does: such constants belong to the file that all others import, and are changed with its version.
    """
    return numba.njit(signature, cache=True, nogil=True)


def inlined(*signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """As `compiled`, for a small function that is called often: it becomes part of its callers.

    The scanner of pages is twice as fast for it: most of the cost of a call are the arrays that it passes on.
    """
    return numba.njit(signature, cache=True, nogil=True, forceinline=True)


@intrinsic
def _pointer(typing_context: Any, address: Any) -> Any:
    """The pointer to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@numba.njit(cache=True, nogil=True)
def borrowed(array: Any) -> Any:
    """The same array, without counting references to it: the caller holds it as long as the kernel runs.

    Passing an array on counts it up and down with locked instructions, half the time of a kernel of small functions.
    """
    return numba.carray(_pointer(array.ctypes.data), array.shape, array.dtype)  # type: ignore[attr-defined,call-arg]
