"""What goes wrong, as exceptions. The messages name the ONNX node, file or flag."""

from . import _core


class Error(RuntimeError):
    """Anything that goes wrong."""


class InputError(Error, ValueError):
    """A file, tensor, plan or value cannot be used."""


class UsageError(Error, ValueError):
    """An option, name or shape is wrong, or a call comes at the wrong time."""


class UnsupportedError(Error, NotImplementedError):
    """The model is right, but more than can be compiled."""


class OperatingSystemError(Error, OSError):
    """The operating system refused."""


class InternalError(Error):
    """A fault of pp-mlir, or a hang."""


# By the kinds of pp_runtime.h.
_CLASSES = {1: InputError, 2: UsageError, 3: UnsupportedError, 4: OperatingSystemError}

_core.set_exception(lambda kind, message: _CLASSES.get(kind, InternalError)(message))
