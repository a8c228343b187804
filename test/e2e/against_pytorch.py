#!/usr/bin/env python3
"""Compares outputs, losses, gradients and trained weights with PyTorch.

For each test model: the loss and every gradient of the first step, and every
parameter and buffer after some steps, against reference.npz. test/models/README.md
says what is in there. Tolerances are relative errors in the Frobenius norm,
tensor by tensor.
"""

import json

import numpy as np

import common
from common import MODELS, relative_error

TOLERANCE = 1e-4

# Of weights after several steps: the last layers of resnet18 normalise over 8
# elements. PyTorch in float32 differs from PyTorch in float64 by 4e-5 there.
WEIGHT_TOLERANCE = {"resnet18": 3e-4}

# Running statistics are means over many elements: there PyTorch in float32
# differs from PyTorch in float64 by 8e-5 at most, also in resnet18.
STATISTICS_TOLERANCE = 1e-3

# What AdamW does with a gradient that is zero but for rounding is noise of the
# size of the learning rate: the first step moves by lr * g / (|g| + epsilon).
# Elements with such a gradient are left out of the comparison.
NOISE = 1e-6

# (model, exporters, micro-batch counts besides 1, stages used with them)
CASES = [
    ("mlp", ["torchscript", "dynamo", "torchscript.dynamic", "dynamo.dynamic", "external"]),
    ("lenet", ["torchscript", "dynamo"]),
    ("resnet18", ["torchscript"]),
    ("unet", ["torchscript", "dynamo"]),
    ("gpt", ["torchscript", "dynamo", "torchscript.dynamic", "dynamo.dynamic"]),
    ("gpt_tied", ["torchscript", "dynamo"]),
    # The other exporter makes means of what sees nothing.
    ("padded", ["torchscript"]),
]


# With --quick, in 2 stages with 4 micro-batches.
QUICK_CASES = [("lenet", "torchscript", "sgd"), ("unet", "dynamo", "sgd"), ("gpt_tied", "torchscript", "adamw")]


class Reference:
    def __init__(self, model, exporter, microbatches):
        folder = MODELS / model
        # Batch norm sees micro-batches, so their number matters.
        special = folder / f"reference.m{microbatches}.npz"
        self.path = special if special.exists() else folder / "reference.npz"
        self.arrays = dict(np.load(self.path))
        self.steps = int(self.arrays.pop("steps", 1 if special.exists() else 5))
        names = json.loads((folder / "names.json").read_text())
        self.renamed = names.get(common.model_file(model, exporter).name, {})

    def batch(self):
        return len(self.arrays["target"])

    def under(self, prefix):
        """Tensors under `prefix` by the names that they have in the ONNX file."""
        tensors = {}
        for key, value in self.arrays.items():
            if not key.startswith(prefix):
                continue
            name = key[len(prefix) :]
            if name.endswith("num_batches_tracked"):
                continue
            other = self.renamed.get(name, {"initializer": name, "transposed": False})
            tensors[other["initializer"]] = value.T if other["transposed"] else value
        return tensors


def is_statistic(name):
    return name.endswith(("running_mean", "running_var"))


def compare(checks, where, expected, tensors, tolerance=TOLERANCE, masks=None):
    """Every expected tensor is there and close, and nothing else is there. Returns
    the worst relative error and its tensor."""
    values = {n: t for n, t in tensors.items() if n is not None and "#" not in n}
    checks.check(set(values) == set(expected), f"{where}: names differ: {sorted(set(values) ^ set(expected))}")
    worst = (0.0, "")
    for name in sorted(set(values) & set(expected)):
        value, wanted = values[name], expected[name]
        if masks is not None and name in masks and value.shape == wanted.shape:
            value, wanted = value[masks[name]], wanted[masks[name]]
        error = relative_error(value, wanted)
        # Also catches NaN.
        limit = min(tolerance, STATISTICS_TOLERANCE) if is_statistic(name) else tolerance
        checks.check(error <= limit, f"{where}: {name}: relative error {error:.3g}, more than {limit:g}")
        worst = max(worst, (error if error == error else float("inf"), name))
    return worst


def run_case(context, checks, model, exporter, microbatches, stages, optimizer, **options):
    """`options`: more of the compiler's."""
    reference = Reference(model, exporter, microbatches)
    where = " ".join([f"{model}.{exporter} M={microbatches} S={stages} {optimizer}", *context.arguments(options)])
    binary = context.training(
        model, exporter, optimizer, stages=stages, batch=reference.batch(), microbatches=microbatches,
        schedule="1f1b", checkpoint="never", **options,
    )
    data = context.data(reference.path)
    row = {"case": where}

    gradients = context.path(".safetensors")
    lines = binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", gradients)
    expected = float(reference.arrays["loss"])
    row["loss"] = abs(lines[-1]["loss"] - expected) / abs(expected)
    checks.check(row["loss"] <= TOLERANCE, f"{where}: loss {lines[-1]['loss']}, expected {expected}")
    row["gradients"] = compare(
        checks, f"{where}: gradients", reference.under("grad/"), common.read_safetensors(gradients)
    )

    snapshot = context.path(".safetensors")
    binary.train(data, "--no-shuffle", "--steps", reference.steps, "--save", snapshot)
    masks = None
    if optimizer == "adamw":
        masks = {n: np.abs(g) > NOISE for n, g in reference.under("grad/").items()}
    expected = reference.under(f"{optimizer}/")
    row["weights"] = compare(
        checks, f"{where}: after {reference.steps} steps", expected, common.read_safetensors(snapshot),
        WEIGHT_TOLERANCE.get(model, TOLERANCE) if reference.steps > 1 else TOLERANCE, masks
    )

    if f"{optimizer}_output" in reference.arrays and reference.steps > 1 and microbatches == 1:
        # Inference on the trained weights, which also uses running statistics.
        outputs = binary.infer(data, context.path(".npz"), "--load", snapshot)
        (output,) = outputs.values()
        error = relative_error(output, reference.arrays[f"{optimizer}_output"])
        checks.check(error <= WEIGHT_TOLERANCE.get(model, TOLERANCE), f"{where}: inference: relative error {error:.3g}")
        row["trained"] = error
    if not any(is_statistic(n) for n in expected):
        # Without batch norm, training and inference compute the same.
        outputs = binary.infer(data, context.path(".npz"))
        (output,) = outputs.values()
        row["output"] = relative_error(output, reference.arrays["output"])
        checks.check(row["output"] <= TOLERANCE, f"{where}: output: relative error {row['output']:.3g}")
    return row


def test(context, checks, arguments):
    cases = [(model, exporter, 4, 2, optimizer) for model, exporter, optimizer in QUICK_CASES]
    for model, exporters in CASES if not arguments.quick else []:
        if arguments.only and model not in arguments.only:
            continue
        for exporter in exporters:
            cases.append((model, exporter, 1, 1, "sgd"))
            cases.append((model, exporter, 4, 2, "sgd"))
        cases.append((model, exporters[0], 1, 1, "adamw"))

    def guarded(case):
        try:
            return run_case(context, checks, *case)
        except common.Failure as failure:
            checks.check(False, f"{case}: {failure}")

    print_rows([row for row in context.map(guarded, cases) if row])


def print_rows(rows):
    """A table of what run_case returned."""

    def cell(value):
        if value is None:
            return ""
        return f"{value:.1e}" if isinstance(value, float) else f"{value[0]:.1e} {value[1]}"

    print("relative errors (worst tensor)")
    form = "{:<40} {:<8} {:<8} {:<42} {:<42} {:<8}"
    print(form.format("model", "output", "loss", "gradients", "weights", "trained output"))
    for row in rows:
        print(form.format(row["case"], *(cell(row.get(k)) for k in ("output", "loss", "gradients", "weights", "trained"))))


def add_options(parser):
    parser.add_argument("--only", action="append", help="only this model; may be repeated")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0], add_options)
