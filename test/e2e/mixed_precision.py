#!/usr/bin/env python3
"""Products in sixteen bits: close to f32, the same bits for every number of stages.

The loss and the gradients of a step differ from PyTorch's in f32 by what bf16
rounds off (on the processor and on the mock device), or f16 (on the mock
device, with a loss scale), and by no less, which shows that it was used. Residuals
are smaller than in f32.
"""

import numpy as np

import common
from against_pytorch import Reference
from common import relative_error

# bf16 has 8 bits: a product is off by up to 2^-8, sums of many by less. f16 has 11.
LOSS_TOLERANCE = {"bf16": 1e-2, "f16": 1.5e-3}
# Batch norm over very few elements makes noise of any rounding: resnet18 has one
# pixel and few samples in its last layers.
GRADIENT_TOLERANCE = {"resnet18": None}
DEFAULT_TOLERANCE = {"bf16": 5e-2, "f16": 7e-3}
USED = {"bf16": 1e-4, "f16": 1e-5}

MODELS_USED = {"lenet": "sgd", "unet": "adamw", "gpt": "adamw", "gpt_tied": "sgd", "resnet18": "sgd"}
CONFIGURATIONS = ((1, "gpipe", "never"), (2, "1f1b", "never"), (3, "zb-h1", "never"), (2, "gpipe", "always"))


def residual_bytes(binary):
    return sum(stage["areas"]["residuals"]["slot_bytes"] for stage in binary.plan()["stages"])


def test_model(context, checks, model, optimizer, precision, target):
    reference = Reference(model, "torchscript", 4)
    options = {"batch": reference.batch(), "microbatches": 4, "precision": precision, "target": target}
    data = context.data(reference.path)
    device = ("--device", target)
    what = f"{model} {precision} {target}"
    first = None
    for stages, schedule, checkpoint in CONFIGURATIONS:
        where = f"{what} S={stages} {schedule} {checkpoint}"
        binary = context.training(
            model, optimizer=optimizer, stages=stages, schedule=schedule, checkpoint=checkpoint, **options
        )
        snapshot, gradients = context.path(".safetensors"), context.path(".safetensors")
        lines = binary.train(
            data, "--no-shuffle", "--steps", 3, "--epochs", 3, "--log-bits", "--save", snapshot, "--dump-gradients", gradients,
            *device
        )
        result = ([line["loss_bits"] for line in lines if "loss_bits" in line], common.tensor_bytes(snapshot))
        if first is None:
            first = result
        checks.check(result == first, f"{where}: differs from one stage")
    finite = all(np.isfinite(np.frombuffer(data, np.float32)).all() for _, data in first[1].values())
    checks.check(finite, f"{what}: the weights are not finite")

    binary = context.training(model, optimizer=optimizer, stages=2, schedule="1f1b", checkpoint="never", **options)
    gradients = context.path(".safetensors")
    lines = binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", gradients, *device)
    checks.check(("loss_scale" in lines[-1]) == (precision == "f16"), f"{what}: {lines[-1]}")
    expected = float(reference.arrays["loss"])
    error = abs(lines[-1]["loss"] - expected) / abs(expected)
    checks.check(error <= LOSS_TOLERANCE[precision], f"{what}: loss {lines[-1]['loss']}, expected {expected}")
    actual = common.read_safetensors(gradients)
    wanted = reference.under("grad/")
    norm = np.sqrt(sum(np.sum(np.square(t, dtype=np.float64)) for t in wanted.values()))
    off = np.sqrt(sum(np.sum(np.square(actual[n] - t, dtype=np.float64)) for n, t in wanted.items()))
    tolerance = GRADIENT_TOLERANCE.get(model, DEFAULT_TOLERANCE[precision])
    if tolerance:
        checks.check(off <= tolerance * norm, f"{what}: gradients are off by {off / norm:.3g}")
    checks.check(off >= USED[precision] * norm, f"{what}: gradients are off by {off / norm:.3g} only: is it used?")

    full = context.training(
        model, optimizer=optimizer, stages=2, schedule="1f1b", checkpoint="never", **{**options, "precision": "f32"}
    )
    short, long = residual_bytes(binary), residual_bytes(full)
    print(f"{what:19s} loss off by {error:.2e}, gradients by {off / norm:.2e}; residuals {short} bytes, in f32 {long}")
    checks.check(short < long, f"{what}: {short} bytes of residuals, in f32 {long}")


# Optimizers that update parameters as they lie, one by one, along directions of their own, and by groups.
UPDATES = {
    "sgd": {}, "adamw": {"threads_per_stage": 2}, "lamb": {}, "muon": {"stages": 2}, "adafactor": {},
    "adamw groups": {"flags": ["--group=blocks.0.*:frozen", "--group=*.bias:weight_decay=0"]},
}


def test_short_parameters(context, checks, name, options):
    """What an update leaves of parameters in 16 bits is what is made of them when they are loaded."""
    options = dict(options)
    flags = options.pop("flags", [])
    binary = context.compile(
        common.model_file("gpt"), loss="cross_entropy", optimizer=name.split()[0], learning_rate=0.01, batch=4, precision="bf16", **options
    )
    prepared = [p for stage in binary.plan()["stages"] for p in stage["parameters"] if "prepared" in p]
    checks.check(prepared, f"{name}: no parameter is prepared by the update")
    data = context.data(Reference("gpt", "torchscript", 4).path)
    snapshot, whole = context.path(".safetensors"), context.path(".safetensors")
    binary.train(data, "--no-shuffle", "--steps", 4, "--epochs", 4, "--save", whole, *flags)
    for step in range(1, 5):
        resume = ("--resume", snapshot) if step > 1 else ()
        binary.train(data, "--no-shuffle", "--steps", step, "--epochs", 4, "--save", snapshot, *resume, *flags)
    checks.check(common.tensor_bytes(snapshot) == common.tensor_bytes(whole), f"{name}: other bits when loaded before each step")


def test(context, checks, arguments):
    for name, options in list(UPDATES.items())[: 2 if arguments.quick else None]:
        test_short_parameters(context, checks, name, options)
    models = ("lenet", "gpt") if arguments.quick else tuple(MODELS_USED)
    for precision, target in (("bf16", "cpu"), ("bf16", "mock"), ("f16", "mock")):
        for model in models[:1] if arguments.quick and target == "mock" else models:
            test_model(context, checks, model, MODELS_USED[model], precision, target)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
