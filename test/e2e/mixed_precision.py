#!/usr/bin/env python3
"""Products in bf16: close to f32, the same bits for every number of stages.

The loss and the gradients of a step differ from PyTorch's in f32 by what bf16
rounds off, and by no less, which shows that it was used. Losses stay close over
5 steps. Residuals are smaller than in f32.
"""

import numpy as np

import common
from against_pytorch import Reference
from common import relative_error

# bf16 has 8 bits: a product is off by up to 2^-8, sums of many by less.
LOSS_TOLERANCE = 1e-2
# Batch norm over very few elements makes noise of any rounding: resnet18 has one
# pixel and few samples in its last layers.
GRADIENT_TOLERANCE = {"resnet18": None}
DEFAULT_TOLERANCE = 5e-2
USED = 1e-4

MODELS_USED = {"lenet": "sgd", "unet": "adamw", "gpt": "adamw", "gpt_tied": "sgd", "resnet18": "sgd"}
CONFIGURATIONS = ((1, "gpipe", "never"), (2, "1f1b", "never"), (3, "zb-h1", "never"), (2, "gpipe", "always"))


def residual_bytes(binary):
    return sum(stage["areas"]["residuals"]["slot_bytes"] for stage in binary.plan()["stages"])


def test_model(context, checks, model, optimizer):
    reference = Reference(model, "torchscript", 4)
    options = {"batch": reference.batch(), "microbatches": 4, "precision": "bf16"}
    data = context.data(reference.path)
    first = None
    for stages, schedule, checkpoint in CONFIGURATIONS:
        where = f"{model} S={stages} {schedule} {checkpoint}"
        binary = context.training(
            model, optimizer=optimizer, stages=stages, schedule=schedule, checkpoint=checkpoint, **options
        )
        snapshot, gradients = context.path(".safetensors"), context.path(".safetensors")
        lines = binary.train(
            data, "--no-shuffle", "--steps", 3, "--epochs", 3, "--log-bits", "--save", snapshot, "--dump-gradients", gradients
        )
        result = ([line["loss_bits"] for line in lines if "loss_bits" in line], common.tensor_bytes(snapshot))
        if first is None:
            first = result
        checks.check(result == first, f"{where}: differs from one stage")
    finite = all(np.isfinite(np.frombuffer(data, np.float32)).all() for _, data in first[1].values())
    checks.check(finite, f"{model}: the weights are not finite")

    binary = context.training(model, optimizer=optimizer, stages=2, schedule="1f1b", checkpoint="never", **options)
    gradients = context.path(".safetensors")
    lines = binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", gradients)
    expected = float(reference.arrays["loss"])
    error = abs(lines[-1]["loss"] - expected) / abs(expected)
    checks.check(error <= LOSS_TOLERANCE, f"{model}: loss {lines[-1]['loss']}, expected {expected}")
    actual = common.read_safetensors(gradients)
    wanted = reference.under("grad/")
    norm = np.sqrt(sum(np.sum(np.square(t, dtype=np.float64)) for t in wanted.values()))
    off = np.sqrt(sum(np.sum(np.square(actual[n] - t, dtype=np.float64)) for n, t in wanted.items()))
    tolerance = GRADIENT_TOLERANCE.get(model, DEFAULT_TOLERANCE)
    if tolerance:
        checks.check(off <= tolerance * norm, f"{model}: gradients are off by {off / norm:.3g}")
    checks.check(off >= USED * norm, f"{model}: gradients are off by {off / norm:.3g} only: is bf16 used?")

    full = context.training(
        model, optimizer=optimizer, stages=2, schedule="1f1b", checkpoint="never", **{**options, "precision": "f32"}
    )
    short, long = residual_bytes(binary), residual_bytes(full)
    print(f"{model:9s} loss off by {error:.2e}, gradients by {off / norm:.2e}; residuals {short} bytes, in f32 {long}")
    return short, long


def test(context, checks, arguments):
    models = ("lenet", "gpt") if arguments.quick else tuple(MODELS_USED)
    for model in models:
        short, long = test_model(context, checks, model, MODELS_USED[model])
        checks.check(short < long, f"{model}: {short} bytes of residuals, in f32 {long}")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
