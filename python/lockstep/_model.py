"""Models: a configuration, and the trainer that it becomes."""

from __future__ import annotations

import atexit
import ctypes
import json
import logging
import math
import os
import signal
import threading
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Union

from . import _buffers
from ._library import LOG, STOP, C, Hooks, Memory, Options, Parameter, Stats

logger = logging.getLogger("lockstep")
_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)

Config = Union[str, "os.PathLike[str]", Mapping[str, Any]]


class Error(RuntimeError):
    """A call of the library failed. str() has the library's own messages, with file:line:column where there is one.

    `status` is the name of the C status, such as "LS_ERR_CONFIG" (include/lockstep/status.h).
    """

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


class Step(NamedTuple):
    """A training step."""

    step: int  #: steps done
    left: int  #: steps of the run that are left
    loss: float  #: mean over the global batch, before the update
    grad_norm: float  #: before clipping
    seconds: float  #: without evaluation and saving
    applied: bool  #: False: loss or gradients were not finite, and the parameters stayed


class _Context:
    """Where the library's messages go, in any of its threads: errors, which are raised, and the logger."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        errors = self.errors  # log must not refer to self, which would then outlive its last user

        def log(_user: Any, level: int, message: bytes) -> None:
            text = message.decode("utf-8", "replace")
            errors.append(text) if level == 0 else logger.log(_LEVELS[level], "%s", text)

        self.log = LOG(log)
        self.ctx = ctypes.c_void_p(C.ls_ctx_create(self.log, None))
        C.ls_ctx_set_level(self.ctx, 3 if logger.isEnabledFor(logging.DEBUG) else 2)

    def check(self, status: int, *errors: str) -> None:
        """Raises what the library reported since the last call, and `errors`."""
        text = "\n".join([*self.errors, *errors])
        self.errors.clear()
        C.ls_ctx_clear(self.ctx)
        if status != 0:
            raise Error(text or C.ls_status_text(status).decode(), C.ls_status_name(status).decode())
        if text:
            logger.error("%s", text)  # it did not end the call

    def __del__(self) -> None:
        C.ls_ctx_destroy(self.ctx)


class _World(_Context):
    """This process alone, one for each model; or the ranks of a launcher, which a process joins and leaves once."""

    ranks: list = []

    def __init__(self) -> None:
        super().__init__()
        self.world = ctypes.c_void_p()
        self.check(C.ls_world_open(self.ctx, 0, ctypes.byref(self.world)))
        if C.ls_world_size(self.world) > 1:
            self.ranks.append(self)

    def __del__(self) -> None:
        C.ls_world_close(self.world)
        super().__del__()


atexit.register(_World.ranks.clear)


class _Handle(_Context):
    """The library's objects of one model. They live as long as the newest view of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.config, self.trainer, self.world = ctypes.c_void_p(), ctypes.c_void_p(), None
        self.stats = Stats(struct_bytes=ctypes.sizeof(Stats))
        self.stats_at = ctypes.byref(self.stats)

    def check(self, status: int) -> None:
        super().check(status, *(self.world.errors if self.world else ()))

    def __del__(self) -> None:
        C.ls_trainer_destroy(self.trainer)
        C.ls_config_destroy(self.config)
        super().__del__()

    def read(self, config: Config, overrides: Mapping[str, Any]) -> None:
        """train__epochs=3, or {"train.epochs": 3}, becomes an assignment of the library."""
        texts = [f"{name.replace('__', '.')}={json.dumps(value)}".encode() for name, value in overrides.items()]
        sets, out = (ctypes.c_char_p * len(texts))(*texts), ctypes.byref(self.config)
        if isinstance(config, Mapping):
            config = json.dumps(config, indent=1) + "\n"
        if isinstance(config, os.PathLike) or ("\n" not in config and ":" not in config):
            self.check(C.ls_config_load(self.ctx, os.fsencode(config), sets, len(sets), out))
        else:
            text = config.encode()
            self.check(C.ls_config_parse(self.ctx, b"config", text, len(text), sets, len(sets), out))

    def create(self, options: Options) -> None:
        self.world = _World.ranks[0] if _World.ranks else _World()
        self.check(C.ls_trainer_create(self.ctx, self.world.world, self.config, ctypes.byref(options),
                                       ctypes.byref(self.trainer)))


def _memory(X: Any, y: Any, classes: bool) -> Memory:
    """Samples in the library's form. The library copies them during the call that takes them."""
    code = "B" if _buffers.are_bytes(X) else "f"
    x, x_shape = _buffers.take(X, code)
    t, t_shape = _buffers.take(y, "i" if classes else "f")
    if len(x_shape) < 2 or t_shape[:1] != x_shape[:1] or (classes and len(t_shape) > 1):
        wanted = "(rows,)" if classes else "(rows,) or (rows, targets)"
        raise ValueError(f"X has shape {x_shape}, y has shape {t_shape}: (rows, ...) and {wanted} were expected")
    memory = Memory(rows=x_shape[0], inputs=math.prod(x_shape[1:]), outputs=0 if classes else math.prod(t_shape[1:]))
    for field, values in (("bytes" if code == "B" else "features", x), ("classes" if classes else "targets", t)):
        setattr(memory, field, ctypes.cast(values, type(getattr(memory, field))))
    memory._values = (x, t)
    return memory


class Model:
    """A network, from a configuration.

    config     a mapping, the path of a YAML file, or YAML text; docs/config.md has every option
    overrides  options that replace those of config: train__epochs=3, or **{"train.epochs": 3}

    Raises Error where the configuration is bad. One thread uses a model.
    """

    def __init__(self, config: Config, **overrides: Any) -> None:
        self._config, self._overrides = config, overrides
        if isinstance(config, Mapping) and "kind" not in config.get("data", {}):
            self._overrides = {"data.kind": "synthetic", **overrides}  # begin(X, y) gives samples instead
        self.close()

    @classmethod
    def load(cls, directory: Union[str, "os.PathLike[str]"], best: bool = False, **overrides: Any) -> "Model":
        """The trained model in a run's directory (train.checkpoint.dir), to predict with.

        best  take the best checkpoint by train.best, not the newest
        """
        model = cls(Path(directory) / "config.json", **overrides)
        model._handle.create(Options(checkpoint=os.fsencode(directory), no_training=True, no_data=True, best=best))
        return model

    @property
    def config(self) -> dict:
        """The resolved configuration with every default."""
        return self._document(C.ls_config_text(self._handle.ctx, self._handle.config))

    def begin(self, X: Any = None, y: Any = None, resume: bool = False, **overrides: Any) -> "Model":
        """Makes the trainer, with fresh initial values, so that step() can be called.

        X       (rows, ...) numbers in the units of the data; bytes (uint8) stay bytes up to the device.
                None: the files that the configuration names
        y       where the loss takes classes: (rows,) whole numbers from 0; else (rows,) or (rows, targets)
        resume  go on from the newest checkpoint in train.checkpoint.dir, if there is one

        ValueError: shapes that do not fit each other. Error: everything else.
        """
        memory = None if X is None else _memory(X, y, C.ls_config_classes(self._handle.config))
        self.close(**overrides)
        options = Options(resume=resume)
        if memory is not None:
            options.memory = ctypes.pointer(memory)
        self._handle.create(options)
        return self

    def fit(self, X: Any = None, y: Any = None, resume: bool = False, **overrides: Any) -> "Model":
        """Trains a whole run on the samples, as begin() takes them; `report` then describes it.

        Ctrl-C ends the run after the step under way: it is saved where train.checkpoint.dir says so, and
        KeyboardInterrupt is raised.
        """
        return self.begin(X, y, resume, **overrides).finish()

    def step(self) -> Step:
        """Takes one step; evaluates and saves where that is due. Error, LS_ERR_ARGUMENT: no step is left."""
        handle = self._training()
        status = C.ls_trainer_step(handle.trainer, handle.stats_at)
        if status != 0:
            handle.check(status)
        s = handle.stats
        return Step(s.step, s.left, s.loss, s.grad_norm, s.step_time_ns * 1e-9, s.applied)

    def finish(self, now: bool = False) -> "Model":
        """Takes the steps that are left (now: none), and ends the run: last evaluation, save, report. Ctrl-C as in fit."""
        handle, pressed = self._training(), []
        hooks = Hooks(stop=STOP(lambda _user: now or bool(pressed)))
        main = threading.current_thread() is threading.main_thread()  # other threads may not set handlers
        before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True)) if main else None
        try:
            status = C.ls_trainer_run(handle.trainer, ctypes.byref(hooks), None)
        finally:
            if main:
                signal.signal(signal.SIGINT, before)
        handle.check(0 if C.ls_status_name(status) == b"LS_ERR_INTERRUPTED" else status)
        if pressed:
            raise KeyboardInterrupt
        return self

    def save(self) -> str:
        """Ends the run where it is; returns its checkpoint below train.checkpoint.dir. step() then goes on from there."""
        if not self.config["train"].get("checkpoint", {}).get("dir"):
            raise Error("save: the configuration has no train.checkpoint.dir", "LS_ERR_CONFIG")
        return self.finish(now=True).report["checkpoint"]

    @property
    def report(self) -> dict:
        """The newest run that has ended, as `lockstep train --json` writes it; {} if there was none."""
        return self._document(C.ls_trainer_report_text(self._opened().trainer))

    def predict(self, X: Any) -> Any:
        """Outputs (rows, outputs) for X (rows, ...), in the units of the data; probabilities for classes."""
        handle = self._opened()
        x, shape = _buffers.take(X, "f")
        inputs = C.ls_trainer_inputs(handle.trainer)
        if len(shape) < 2 or math.prod(shape[1:]) != inputs:
            raise ValueError(f"X has shape {tuple(shape)}: rows of {inputs} numbers were expected")
        outputs, to = _buffers.empty((shape[0], C.ls_trainer_outputs(handle.trainer)))
        if shape[0] > 0:
            handle.check(C.ls_trainer_predict(handle.trainer, shape[0], ctypes.cast(x, ctypes.POINTER(ctypes.c_float)), to))
        return outputs

    def parameters(self) -> dict:
        """{name: f32 array in the parameter's shape}: read-only views of the trainer's memory, in the order of names.

        Their values are those of now until the next step; copy what has to stay.
        """
        handle = self._opened()
        found = {}
        for index in range(C.ls_trainer_parameter_count(handle.trainer)):
            p = Parameter(struct_bytes=ctypes.sizeof(Parameter))
            handle.check(C.ls_trainer_parameter(handle.trainer, None, index, ctypes.byref(p)))
            found[p.name.decode()] = _buffers.view(p.values, tuple(p.dim[: p.rank]), handle)
        return found

    def set_parameters(self, values: Mapping[str, Any]) -> None:
        """Replaces parameters by name. ValueError: another shape. Error, LS_ERR_NOT_FOUND: no such parameter."""
        handle = self._opened()
        for name, value in values.items():
            data, shape = _buffers.take(value, "f")
            p = Parameter(struct_bytes=ctypes.sizeof(Parameter))
            handle.check(C.ls_trainer_parameter(handle.trainer, name.encode(), 0, ctypes.byref(p)))
            if tuple(shape) != tuple(p.dim[: p.rank]):
                raise ValueError(f"{name} has shape {tuple(p.dim[: p.rank])}, not {tuple(shape)}")
            to = ctypes.cast(data, ctypes.POINTER(ctypes.c_float))
            handle.check(C.ls_trainer_parameter_set(handle.trainer, name.encode(), to, math.prod(shape)))

    def close(self, **overrides: Any) -> None:
        """Gives up the trainer: its memory, its device, the lock on train.checkpoint.dir. Views of parameters keep them."""
        handle = _Handle()
        handle.read(self._config, {**self._overrides, **overrides})
        self._handle = handle

    def _opened(self) -> _Handle:
        if not self._handle.trainer:
            raise Error("there is no trainer yet: call fit, begin or Model.load first", "LS_ERR_ARGUMENT")
        return self._handle

    def _training(self) -> _Handle:
        return self._opened() if self._handle.trainer else self.begin()._handle

    @staticmethod
    def _document(text: int) -> dict:
        """The JSON text at an address that the library has allocated."""
        document = json.loads(ctypes.string_at(text)) if text else {}
        C.ls_free(text)
        return document
