"""Compares models of 16-bit floats, as model.half() and model.bfloat16() are exported, with PyTorch.

    short_models.py BUILD

Outputs, and the loss and the gradients of a step of two micro-batches, may be as far from those in
double precision, of the same rounded parameters, as PyTorch's own in 16 bits are, times ALLOWANCE.
"""

import contextlib
import copy
import io
import logging
import pathlib
import sys
import warnings

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "e2e"), str(HERE.parent / "models")]
import common  # noqa: E402
import export_architecture  # noqa: E402
from exporters import EXPORTERS  # noqa: E402
from zoo import ALL  # noqa: E402

# A batch norm without word of training; values with two readers; embeddings; layouts of convolutions.
NAMES = ["everyday/mlp_batch_norm", "everyday/encoder", "everyday/unet", "odd/last_token"]
# Operators of older opsets, which the exporters write, have no bf16: convolutions, LSTM.
TYPES = {"f16": (torch.float16, NAMES), "bf16": (torch.bfloat16, ["everyday/encoder"])}
MICROBATCHES = 2
ALLOWANCE, FLOOR = 3.0, 2e-3
LOSS_TOLERANCE = 2e-2


def double(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


def array(tensor):
    """What data files have: NumPy knows no bf16."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def differentiate(model, inputs, target):
    """As a pipeline of micro-batches does."""
    model, loss = copy.deepcopy(model).train(), 0.0
    for wanted, *values in zip(*(value.chunk(MICROBATCHES) for value in (target, *inputs))):
        part = torch.nn.functional.mse_loss(model(*values).to(wanted.dtype), wanted) / MICROBATCHES
        part.backward()
        loss += part.item()
    return loss, {name: p.grad.double().numpy() for name, p in model.named_parameters() if p.grad is not None}


class Model:
    """An entry of the zoo in 16 bits, and what PyTorch computes with it."""

    def __init__(self, name, dtype):
        entry = ALL[name]
        self.short = export_architecture.make_model(entry).to(dtype)
        self.inputs = {n: torch.from_numpy(v) for n, v in entry.inputs.items()}
        self.inputs = {n: v.to(dtype) if v.is_floating_point() else v for n, v in self.inputs.items()}
        with torch.no_grad():
            self.own = copy.deepcopy(self.short).eval()(*self.inputs.values()).double().numpy()
        wide = copy.deepcopy(self.short).double()
        with export_architecture.doubles(), torch.no_grad():
            exact = copy.deepcopy(wide).eval()(*map(double, self.inputs.values()))
        self.output = exact.numpy()
        self.target = torch.randn(exact.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
        with export_architecture.doubles():
            self.loss, self.gradients = differentiate(wide, list(map(double, self.inputs.values())), self.target.double())
        _, self.own_gradients = differentiate(self.short, list(self.inputs.values()), self.target)
        # Gradients that are nearly nothing are compared with a part of all.
        self.least = 1e-2 * np.sqrt(sum(np.sum(g**2) for g in self.gradients.values()))

    def export(self, exporter, phase, path):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            EXPORTERS[exporter](self.short, self.inputs, path, "output", training=phase == "train")

    def error(self, value, expected, least=0.0):
        return float(np.linalg.norm((value - expected).ravel()) / max(np.linalg.norm(expected.ravel()), least))


def compare(context, checks, name, kind, exporter):
    dtype, _ = TYPES[kind]
    model, where = Model(name, dtype), f"{name} {kind} {exporter}"
    data, path = context.path(".npz"), context.path(".onnx")
    np.savez(data, **{n: array(v) for n, v in model.inputs.items()})
    model.export(exporter, "infer", path)
    found = context.compile(path, stages=2, microbatches=MICROBATCHES).infer(data, context.path(".npz"))["output"]
    if found.dtype.kind == "V":  # bf16, which NumPy does not know
        found = (found.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    error, own = model.error(found, model.output), model.error(model.own, model.output)
    checks.check(error <= ALLOWANCE * own, f"{where}: output: error {error:.1e}, of PyTorch {own:.1e}")

    path = context.path(".onnx")
    model.export(exporter, "train", path)
    options = {"batch": len(model.target), "loss": "mse", "optimizer": "sgd"}
    binary = context.compile(path, stages=2, microbatches=MICROBATCHES, **options)
    np.savez(data, target=model.target.numpy(), **{n: array(v) for n, v in model.inputs.items()})
    dump = context.path(".safetensors")
    (line,) = binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", dump)
    checks.check(abs(line["loss"] - model.loss) <= LOSS_TOLERANCE * model.loss, f"{where}: loss {line['loss']}, expected {model.loss}")
    gradients = {n: g for n, g in common.read_safetensors(dump).items() if n is not None and "#" not in n}
    checks.equal(sorted(gradients), sorted(model.gradients), f"{where}: trains")
    for n in gradients.keys() & model.gradients.keys():
        error, own = (model.error(each[n], model.gradients[n], model.least) for each in (gradients, model.own_gradients))
        checks.check(error <= ALLOWANCE * own + FLOOR, f"{where}: gradient of {n}: error {error:.1e}, of PyTorch {own:.1e}")


def test(context, checks, options):
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for kind, (_, names) in TYPES.items():
        for name in names:
            for exporter in EXPORTERS:
                compare(context, checks, name, kind, exporter)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
