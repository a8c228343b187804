"""Pipelines from ONNX models: plan, compile, train and run them.

    import pp_mlir as pp

    plan = pp.plan("model.onnx", loss="cross_entropy", batch=64, cores=2)
    program = pp.compile("model.onnx", plan, optimizer=pp.AdamW(1e-3))
    for x, y in loader:
        loss = program.train_step(x, y)
    program.export("trained.onnx")

Keyword arguments that are not listed are flags of the tools, with underscores:
`pp.compile(model, stages=2, checkpoint="always")` is `pp-compile model
--stages=2 --checkpoint=always`. Wrong ones are errors that say so.
"""

from . import _core
from .errors import Error, InputError, InternalError, OperatingSystemError, UnsupportedError, UsageError
from .optimizers import LARS, LAMB, SGD, Adafactor, Adagrad, Adam, AdamW, Lion, Muon, Optimizer, RMSprop
from .planning import Plan, compile, import_model, plan
from .program import Program, StepResult
from .schedules import (ConstantLR, CosineLR, ExponentialLR, LearningRateSchedule, LinearLR, OneCycleLR, PolynomialLR,
                        StepLR)

__version__ = _core.version()


def set_message_handler(handler):
    """Lets notes and warnings go to `handler(text)`; with None, to standard error."""
    _core.set_message_handler(handler)


__all__ = [
    "Adafactor", "Adagrad", "Adam", "AdamW", "ConstantLR", "CosineLR", "Error", "ExponentialLR", "InputError", "InternalError", "LAMB", "LARS",
    "LearningRateSchedule", "LinearLR", "Lion", "OneCycleLR", "Optimizer", "Plan", "PolynomialLR", "Program", "RMSprop", "SGD", "StepLR",
    "StepResult", "OperatingSystemError", "UnsupportedError", "UsageError", "compile", "import_model", "plan", "set_message_handler"
]
