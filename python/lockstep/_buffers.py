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


def _flatten(values: Any, shape: tuple[int, ...]) -> list:
    return list(values) if len(shape) <= 1 else [x for row in values for x in _flatten(row, shape[1:])]


def _shape(values: Any) -> tuple[int, ...]:
    return (len(values), *(_shape(values[0]) if values else ())) if isinstance(values, (list, tuple)) else ()


def are_bytes(values: Any) -> bool:
    """Whether `values` is an array or buffer of unsigned bytes."""
    if numpy is not None:
        return numpy.asarray(values).dtype == numpy.uint8
    return not isinstance(values, (list, tuple)) and memoryview(values).format == "B"


def _take_array(values: Any, code: str) -> tuple[Any, tuple[int, ...]]:
    given = numpy.asarray(values)
    with numpy.errstate(invalid="ignore"):
        taken = numpy.ascontiguousarray(given, {"f": numpy.float32, "i": numpy.int32, "B": numpy.uint8}[code])
    if code == "i" and not numpy.array_equal(taken, numpy.atleast_1d(given)):
        raise ValueError("a class is a whole number from 0")
    data = taken.ctypes.data_as(ctypes.POINTER(_CODES[code]))
    data._values = taken
    return data, given.shape


def take(values: Any, code: str) -> tuple[Any, tuple[int, ...]]:
    """(ctypes array or pointer, shape) of `values` as "f" f32, "i" 32-bit whole numbers or "B" bytes.

    An array that has the type already is not copied. ValueError: rows of different lengths, or other numbers.
    """
    if numpy is not None:
        return _take_array(values, code)
    if isinstance(values, (list, tuple)):
        flat = _flatten(values, shape := _shape(values))
    else:
        given = memoryview(values)
        shape = given.shape
        same = given.format == code and given.c_contiguous
        flat = array.array(code, given.tobytes()) if same else _flatten(given.tolist(), shape)
    if len(flat) != math.prod(shape):
        raise ValueError("the rows have different lengths")
    if code == "i" and not all(x == int(x) and abs(x) < 2**31 for x in flat):
        raise ValueError("a class is a whole number from 0")
    return (_CODES[code] * len(flat))(*(map(int, flat) if code == "i" else flat)), shape


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
