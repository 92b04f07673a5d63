"""Numbers from and to the caller: numpy arrays where numpy is installed, else any C-contiguous buffer or nested lists."""

from __future__ import annotations

import array
import ctypes
import math
from typing import Any

try:
    import numpy
except ImportError:  # everything works without it
    numpy = None

_CODES = {"f": ctypes.c_float, "i": ctypes.c_int32, "B": ctypes.c_uint8}


def _kind(view: memoryview) -> str:
    """The code of the values that the library takes for this buffer's: "B" bytes, "i" whole numbers, "f" real ones."""
    code = view.format.lstrip("@=<")
    return "B" if code == "B" else "i" if code in "bhilqHILQ?" else "f"


def _flatten(values: Any, shape: tuple[int, ...]) -> list:
    if len(shape) <= 1:
        return list(values)
    return [x for row in values for x in _flatten(row, shape[1:])]


def _shape(values: Any) -> tuple[int, ...]:
    if not isinstance(values, (list, tuple)):
        return ()
    return (len(values), *(_shape(values[0]) if values else ()))


def take(values: Any, codes: str) -> tuple[Any, tuple[int, ...], str]:
    """(ctypes array, shape, code) of `values` as one of the types `codes`; the last of them where none is their own.

    A numpy array or buffer that already has the type is not copied. ValueError: rows of different lengths.
    """
    if numpy is not None:
        given = numpy.asarray(values)
        code = {"u": "B" if given.dtype.itemsize == 1 else "i", "i": "i", "b": "i"}.get(given.dtype.kind, "f")
        code = code if code in codes else codes[-1]
        given = numpy.ascontiguousarray(given, {"f": numpy.float32, "i": numpy.int32, "B": numpy.uint8}[code])
        data = given.ctypes.data_as(ctypes.POINTER(_CODES[code]))
        data._values = given
        return data, given.shape, code
    if isinstance(values, (list, tuple)):
        shape = _shape(values)
        flat = _flatten(values, shape)
        code = "i" if all(isinstance(x, int) for x in flat) and "i" in codes else codes[-1]
    else:
        view = memoryview(values)
        shape, code = view.shape, _kind(view)
        code = code if code in codes else codes[-1]
        if view.format == code and view.c_contiguous:
            flat = array.array(code, view.tobytes())
        else:
            flat = _flatten(view.tolist(), shape)
    if len(flat) != math.prod(shape):
        raise ValueError("the rows have different lengths")
    return (_CODES[code] * len(flat))(*flat), shape, code


def view(pointer: Any, shape: tuple[int, ...], owner: Any) -> Any:
    """A read-only numpy array, or memoryview, over f32 values at `pointer`; it keeps `owner`."""
    data = (ctypes.c_float * math.prod(shape)).from_address(ctypes.addressof(pointer.contents))
    data._owner = owner
    if numpy is not None:
        values = numpy.frombuffer(data, numpy.float32).reshape(shape)
        values.flags.writeable = False
        return values
    return memoryview(data).cast("B").cast("f", shape or (1,)).toreadonly()


def empty(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """(what the caller gets, pointer to its values) of f32 numbers that the library will write."""
    if numpy is not None:
        values = numpy.empty(shape, numpy.float32)
        return values, values.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    data = (ctypes.c_float * math.prod(shape))()
    return memoryview(data).cast("B").cast("f", shape), data
