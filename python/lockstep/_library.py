"""The C library: where it is, and the declarations of include/lockstep that the package uses."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
from ctypes import POINTER, c_bool, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint8, c_void_p
from pathlib import Path

LOG = ctypes.CFUNCTYPE(None, c_void_p, c_int, c_char_p)
STOP = ctypes.CFUNCTYPE(c_bool, c_void_p)


class Memory(ctypes.Structure):
    """ls_data_memory_t (data.h)"""

    _fields_ = [("rows", c_int64), ("inputs", c_int64), ("outputs", c_int64), ("features", POINTER(c_float)),
                ("targets", POINTER(c_float)), ("classes", POINTER(c_int32)), ("bytes", POINTER(c_uint8))]


class Options(ctypes.Structure):
    """ls_trainer_options_t (train.h)"""

    _fields_ = [("resume", c_bool), ("checkpoint", c_char_p), ("memory", POINTER(Memory)), ("trace", c_bool),
                ("no_training", c_bool), ("no_data", c_bool), ("ranges", c_bool), ("int8", c_char_p), ("rows", c_int64),
                ("init", c_char_p), ("best", c_bool), ("allow_data_change", c_bool), ("stuck", c_void_p),
                ("stuck_user", c_void_p)]


class Hooks(ctypes.Structure):
    """ls_train_hooks_t (train.h)"""

    _fields_ = [("progress", c_void_p), ("stop", STOP), ("user", c_void_p), ("trace_path", c_char_p)]


class Stats(ctypes.Structure):
    """ls_step_stats_t (train.h)"""

    _fields_ = [("struct_bytes", c_size_t), ("step", c_int64), ("left", c_int64), ("loss", c_double),
                ("grad_norm", c_double), ("step_time_ns", c_int64), ("applied", c_bool)]


class Parameter(ctypes.Structure):
    """ls_parameter_t (train.h)"""

    _fields_ = [("struct_bytes", c_size_t), ("name", c_char_p), ("dim", c_int64 * 6), ("rank", c_int),
                ("trained", c_bool), ("values", POINTER(c_float))]


_SETS = POINTER(c_char_p)
_OUT = POINTER(c_void_p)
_FUNCTIONS = {  # name: (result, arguments)
    "ls_version": (c_char_p, []),
    "ls_free": (None, [c_void_p]),
    "ls_status_text": (c_char_p, [c_int]),
    "ls_status_name": (c_char_p, [c_int]),
    "ls_ctx_create": (c_void_p, [LOG, c_void_p]),
    "ls_ctx_destroy": (None, [c_void_p]),
    "ls_ctx_set_level": (None, [c_void_p, c_int]),
    "ls_ctx_clear": (None, [c_void_p]),
    "ls_config_load": (c_int, [c_void_p, c_char_p, _SETS, c_int, _OUT]),
    "ls_config_parse": (c_int, [c_void_p, c_char_p, c_char_p, c_size_t, _SETS, c_int, _OUT]),
    "ls_config_text": (c_void_p, [c_void_p, c_void_p]),
    "ls_config_classes": (c_bool, [c_void_p]),
    "ls_config_destroy": (None, [c_void_p]),
    "ls_world_open": (c_int, [c_void_p, c_double, _OUT]),
    "ls_world_size": (c_int, [c_void_p]),
    "ls_world_close": (None, [c_void_p]),
    "ls_trainer_create": (c_int, [c_void_p, c_void_p, c_void_p, POINTER(Options), _OUT]),
    "ls_trainer_destroy": (None, [c_void_p]),
    "ls_trainer_run": (c_int, [c_void_p, POINTER(Hooks), c_void_p]),
    "ls_trainer_step": (c_int, [c_void_p, POINTER(Stats)]),
    "ls_trainer_report_text": (c_void_p, [c_void_p]),
    "ls_trainer_predict": (c_int, [c_void_p, c_int64, POINTER(c_float), POINTER(c_float)]),
    "ls_trainer_inputs": (c_int64, [c_void_p]),
    "ls_trainer_outputs": (c_int64, [c_void_p]),
    "ls_trainer_parameter_count": (c_int, [c_void_p]),
    "ls_trainer_parameter": (c_int, [c_void_p, c_char_p, c_int, POINTER(Parameter)]),
    "ls_trainer_parameter_set": (c_int, [c_void_p, c_char_p, POINTER(c_float), c_int64]),
}


def _places() -> list[str]:
    """Paths at which the library may be, best first."""
    named = os.environ.get("LOCKSTEP_LIBRARY")
    if named:
        return [str(Path(named) / "liblockstep.so") if os.path.isdir(named) else named]
    tree = Path(__file__).resolve().parents[2]  # the source's, or PREFIX/share/lockstep
    prefix = tree / ".." / ".."
    found = [tree / "build" / "release" / "src" / "liblockstep.so", *sorted(prefix.glob("lib*/liblockstep.so.0")),
             *sorted(prefix.glob("lib/*/liblockstep.so.0"))]
    return [str(path) for path in found if path.exists()] + ["liblockstep.so.0"]


def load() -> ctypes.CDLL:
    """Opens the library. Raises ImportError, which names the place that was tried."""
    try:
        library = ctypes.CDLL(_places()[0])
    except OSError as error:
        raise ImportError(f"lockstep: the library could not be opened ({error}); set LOCKSTEP_LIBRARY to the path of "
                          "liblockstep.so") from error
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)  # AttributeError: the library is older than the package
        function.restype, function.argtypes = result, arguments
    return library


C = load()
