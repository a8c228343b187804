"""plan() and compile(): the tools pp-plan and pp-compile."""

import json
import os
import pathlib
import tempfile

from . import _core
from .errors import UsageError
from .flags import flags_of
from .models import is_module, model_file
from .optimizers import Optimizer
from .program import Program

# Options of pp-plan that are none of the model: what --help lists as planning options.
PLANNING_OPTIONS = frozenset({
    "allow_stale", "annotate", "checkpoints", "clock_distance", "cluster", "cores", "csv", "evaluate", "explain", "html", "kept", "max_ranks",
    "max_stages_per_rank", "measure", "microbatches", "min_ranks", "minimize", "ranks", "replicate", "save_problem", "schedules", "slow",
    "stages", "threads_per_stage", "time_limit", "timeline", "times", "top", "trace", "transfer"
})
# Options of compile() that the program takes when it is opened.
RUN_OPTIONS = frozenset({
    "annealed_steps", "clip_gradient_norm", "clip_gradient_value", "device", "ema", "input_mean", "input_scale", "input_std", "log_gradient_norm", "on_nan", "pad", "pin", "seed", "watchdog",
    "weights"
})


class Plan:
    """A pipeline for a model: its cut, schedule, micro-batches, replicas and recomputation."""

    def __init__(self, text, report="", options=None):
        #: JSON, as pp-plan writes it.
        self.text = text
        #: What pp-plan prints: the best plans, and the timeline of the first.
        self.report = report
        #: Options of the model, which compile() takes too.
        self.options = dict(options or {})

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def step_seconds(self):
        """The predicted time of a step."""
        return self.json["predicted"]["step_seconds"]

    def save(self, path):
        pathlib.Path(path).write_text(self.text)

    @staticmethod
    def load(path):
        return Plan(pathlib.Path(path).read_text())

    def __repr__(self):
        plan = self.json
        return (f"<Plan of {plan['model']}: batch {plan['batch']}, {plan['microbatches']} micro-batches, {plan['replicas']} replicas, "
                f"{len(plan['stages'])} stages>")


def _with_optimizer(options, optimizer):
    if optimizer is None:
        return options
    if not isinstance(optimizer, Optimizer):
        raise UsageError(f"{optimizer!r} is no optimizer; pp_mlir.AdamW(1e-3) is one")
    return {**options, **optimizer.options()}


def import_model(model, *, example=None, **options):
    """The model as MLIR, as `pp-compile --compile-to=import` prints it."""
    with tempfile.TemporaryDirectory() as folder:
        path, own = model_file(model, example, folder)
        return _core.import_model(path, flags_of({**own, **options}))


def plan(model, *, example=None, optimizer=None, **options):
    """The best pipeline for a model.

    `loss`, `batch`, `cores`, `cluster`, `microbatches`, `measure`, ...: the flags of pp-plan.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, own = model_file(model, example, folder)
        options = _with_optimizer({**own, **options}, optimizer)
        text, report = _core.plan(path, flags_of(options))
    return Plan(text, report, {name: value for name, value in options.items() if name not in PLANNING_OPTIONS})


def compile(model, plan=None, *, example=None, optimizer=None, schedule=None, groups=None, set=None, output=None, **options):
    """A program, opened for training if there is a loss, else for inference.

    `schedule` is how the learning rate changes, such as CosineLR(steps=1000). `groups` are texts such as
    `"*.bias:weight_decay=0"`, the first that fits a parameter counts. `set` is {name: value} of the optimizer's values.
    `clip_gradient_norm`, `clip_gradient_value`, `log_gradient_norm`, `on_nan`, `seed`, `pin`, `device`, `watchdog`,
    `weights`, `ema`, `input_scale`, `input_mean` and `input_std` ({name: numbers}) are those of `program train`; all others are
    flags of pp-compile. `output` keeps the shared object.
    """
    if is_module(model) and plan is not None and not isinstance(plan, Plan) and example is None:
        plan, example = None, plan
    if plan is not None and not isinstance(plan, Plan):
        raise UsageError(f"{plan!r} is no plan; pp_mlir.plan() makes one, Plan.load() reads one")
    run = {name: options.pop(name) for name in list(options) if name in RUN_OPTIONS}
    options = {**(plan.options if plan else {}), **options}
    options = _with_optimizer(options, optimizer)
    folder = tempfile.TemporaryDirectory(prefix="pp-mlir-")
    path, own = model_file(model, example, folder.name)
    binary = os.fspath(output) if output is not None else os.path.join(folder.name, "model.so")
    _core.compile(path, plan.text if plan else "", flags_of({**own, **options}), binary)
    return Program(binary, trains=options.get("loss") is not None, schedule=schedule, groups=groups, set=set, _folder=folder, **run)
