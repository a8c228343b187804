"""Exports one architecture and says what other programs compute with it.

    export_architecture.py NAME FOLDER [--sensitivity | --double EXPORTER]

Writes data.npz (inputs and a target), reference.npz (PyTorch's loss and gradients),
and for both exporters EXPORTER.infer.onnx with EXPORTER.infer.npz (the outputs of
ONNX Runtime) and EXPORTER.train.onnx. What cannot be written gets a file
EXPORTER.PHASE.error. What is there is not written again.

--sensitivity writes sensitivity.npz instead: how far single precision may be from
double, by parameter. Gradients are computed in double precision with an error of
single precision put into the result of every operator, forward and backward.

--double writes EXPORTER.double.onnx instead: the model to train in double precision.
"""

import argparse
import contextlib
import copy
import io
import json
import logging
import math
import pathlib
import sys
import warnings

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "models"))
from exporters import EXPORTERS  # noqa: E402

MICROBATCHES = 2
# Half of the distance of 1 to the next number.
ROUNDING = 2.0**-24
DRAWS = 8
# Sums of about a thousand terms in 16 lanes are rounded 64 times, which adds up to 8 errors; and their terms may be larger than the result.
ERRORS_OF_SUM = 8
SUMS = ("convolution", "mm", "bmm", "addmm", "baddbmm", "mean", "sum", "var", "batch_norm", "layer_norm", "group_norm", "attention", "pool")


class Rounding(TorchDispatchMode):
    """Puts an error of single precision into what operators compute in double precision."""

    def __init__(self, seed):
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)

    def perturb(self, value, is_sum):
        if not isinstance(value, torch.Tensor) or value.dtype != torch.float64 or value.numel() == 0:
            return value
        size = value.abs()
        if is_sum:
            size = size + ERRORS_OF_SUM * value.square().mean().sqrt()
        return value + ROUNDING * size * (2 * torch.rand(value.shape, generator=self.generator, dtype=torch.float64) - 1)

    def __torch_dispatch__(self, operator, types, arguments=(), options=None):
        result = operator(*arguments, **(options or {}))
        if any(returned.alias_info for returned in operator._schema.returns):
            return result
        is_sum = any(word in str(operator) for word in SUMS)
        if isinstance(result, (tuple, list)):
            return type(result)(self.perturb(each, is_sum) for each in result)
        return self.perturb(result, is_sum)


class Model(torch.nn.Module):
    """An entry's module with tensors as arguments and one as its result."""

    def __init__(self, entry):
        super().__init__()
        self.entry = entry
        self.model = entry.build()

    def forward(self, *values):
        return self.entry.call(self.model, values)


@contextlib.contextmanager
def doubles():
    """What code calls single precision is double precision: tensors that it makes, and casts."""
    single, to_float = torch.get_default_dtype(), torch.Tensor.float
    torch.set_default_dtype(torch.float64)
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.set_default_dtype(single)
        torch.Tensor.float = to_float


def make_model(entry):
    torch.manual_seed(0)
    model = Model(entry)
    with torch.no_grad():
        for parameter in model.parameters():
            # Many start as zeros or ones, whose gradients vanish or which hide each other.
            if parameter.is_floating_point():
                parameter.add_(0.02 * torch.randn_like(parameter))
    # As the attributes of a file have them, such as the epsilon of a norm: in single precision.
    for module in model.modules():
        for name, value in vars(module).items():
            if isinstance(value, float):
                setattr(module, name, float(np.float32(value)))
    return model


def differentiate(model, inputs, target):
    """The loss and its gradients, summed over micro-batches as a pipeline sees them."""
    model = copy.deepcopy(model).train()
    loss = 0.0
    for wanted, *values in zip(*(value.chunk(MICROBATCHES) for value in (target, *inputs))):
        part = torch.nn.functional.mse_loss(model(*values), wanted) / MICROBATCHES
        part.backward()
        loss += part.item()
    return loss, {name: p.grad.numpy() for name, p in model.named_parameters() if p.grad is not None}


def write_reference(model, inputs, folder):
    with torch.no_grad():
        output = copy.deepcopy(model).train()(*inputs.values())
    target = torch.randn(output.shape, generator=torch.Generator().manual_seed(0))
    np.savez(folder / "data.npz", target=target.numpy(), **{name: value.numpy() for name, value in inputs.items()})
    loss, single = differentiate(model, inputs.values(), target)
    gradients = single
    wide = [value.double() if value.is_floating_point() else value for value in inputs.values()]
    # Where tensors of 32 bits are made within all the same, there is an error; where there are masks for 32 bits, NaN.
    with contextlib.suppress(RuntimeError), doubles():
        wide_loss, wide_gradients = differentiate(model.double(), wide, target.double())
        if math.isfinite(wide_loss):
            loss, gradients = wide_loss, wide_gradients
    arrays = {f"float32/{name}": array for name, array in single.items()}
    arrays |= {f"grad/{name}": array for name, array in gradients.items()}
    np.savez(folder / "reference.npz", loss=loss, **arrays)
    # Of tensors that have several names, PyTorch tells one.
    first, names = {}, {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names[name] = first.setdefault(id(parameter), name)
    (folder / "names.json").write_text(json.dumps(names))
    model.float()


def write_sensitivity(model, inputs, folder):
    """By parameter: the differences that DRAWS draws of errors make."""
    with np.load(folder / "data.npz") as arrays:
        target = torch.from_numpy(arrays["target"]).double()
    wide = [value.double() if value.is_floating_point() else value for value in inputs.values()]
    with doubles():
        _, exact = differentiate(model.double(), wide, target)
    found = {name: [] for name in exact}
    for seed in range(DRAWS):
        with doubles(), Rounding(seed):
            _, moved = differentiate(model, wide, target)
        for name, gradient in moved.items():
            found[name].append(np.linalg.norm((gradient - exact[name]).ravel()))
    np.savez(folder / "sensitivity.npz", **{name: np.array(differences) for name, differences in found.items()})


def write_double(model, inputs, folder, exporter):
    wide = {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}
    path = folder / f"{exporter}.double.partial"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        EXPORTERS[exporter](model.double(), wide, path, "output")
    path.rename(folder / f"{exporter}.double.onnx")


def run_onnxruntime(path, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = {value.name for value in session.get_inputs()}
    outputs = session.run(None, {name: value.numpy() for name, value in inputs.items() if name in names})
    return dict(zip((value.name for value in session.get_outputs()), outputs))


def write_part(model, inputs, folder, exporter, phase):
    """One file of one exporter, or why there is none."""
    stem = folder / f"{exporter}.{phase}"
    if stem.with_suffix(f".{phase}.onnx").exists() or stem.with_suffix(f".{phase}.error").exists():
        return
    partial = stem.with_suffix(f".{phase}.partial")
    step = "exporter"
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            EXPORTERS[exporter](model, inputs, partial, "output", training=phase == "train")
        if phase == "infer":
            step = "ONNX Runtime"
            np.savez(stem.with_suffix(f".{phase}.npz"), **run_onnxruntime(partial, inputs))
        partial.rename(stem.with_suffix(f".{phase}.onnx"))
    except Exception as error:  # noqa: BLE001: whatever it is, it is told.
        lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        # The last line of the cause, where exporters wrap it.
        cause = error.__cause__
        text = str(cause).strip().splitlines()[0] if cause and str(cause).strip() else lines[0]
        # The list of what passes says nothing of where it was made.
        text = text.replace(f"{folder}/", "")
        stem.with_suffix(f".{phase}.error").write_text(f"{step}: {text[:200].partition(' Please ')[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--sensitivity", action="store_true")
    parser.add_argument("--double", metavar="EXPORTER")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)

    from zoo import ALL

    entry = ALL[arguments.name]
    arguments.folder.mkdir(parents=True, exist_ok=True)
    model = make_model(entry)
    inputs = {name: torch.from_numpy(array) for name, array in entry.inputs.items()}
    if arguments.sensitivity:
        write_sensitivity(model, inputs, arguments.folder)
        return
    if arguments.double:
        write_double(model, inputs, arguments.folder, arguments.double)
        return
    if not (arguments.folder / "names.json").exists():
        write_reference(model, inputs, arguments.folder)
    for exporter in EXPORTERS:
        for phase in ("infer", "train"):
            write_part(model, inputs, arguments.folder, exporter, phase)


if __name__ == "__main__":
    main()
