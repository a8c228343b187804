#!/usr/bin/env python3
"""Loss scales: a power of two changes no bit; an overflow skips a step in all stages.

On the processor in f32, where only the scale makes gradients overflow, and on
the mock device in f16. The number of stages must not change a bit, nor must a
stop in between.
"""

import numpy as np

import common

STAGES = (1, 2, 4)
STEPS = 6


def train(context, binary, data, *arguments, steps=STEPS, device="cpu"):
    """Lines of the steps, tensors and metadata of the snapshot."""
    snapshot = context.path(".safetensors")
    lines = binary.train(data, "--no-shuffle", "--steps", steps, "--epochs", 1000, "--log-bits", "--device", device,
                         "--save", snapshot, *arguments)
    return [line for line in lines if "loss_bits" in line], snapshot


def bits(run):
    lines, snapshot = run
    return [line["loss_bits"] for line in lines], common.tensor_bytes(snapshot)


def parameters(run):
    return {name: value for name, value in common.tensor_bytes(run[1]).items() if "#" not in name}


def scales(run):
    return [(line["loss_scale"], line["skipped_steps"]) for line in run[0]]


def metadata(run):
    return {k: v for k, v in common.read_safetensors(run[1])[None].items() if k.startswith("loss_scale.")}


def check_same_bits(context, checks, model, optimizer, options, data):
    base = train(context, context.training(model, optimizer=optimizer, stages=1, **options), data)
    checks.check("loss_scale" not in base[0][0], f"{model}: a loss scale without --loss-scale")
    for stages in STAGES:
        for schedule in ("1f1b", "gpipe"):
            binary = context.training(model, optimizer=optimizer, stages=stages, schedule=schedule, loss_scale=1024, **options)
            run = train(context, binary, data)
            checks.check(bits(run) == bits(base), f"{model} S={stages} {schedule}: a scale of 1024 changes bits")
            checks.equal(scales(run), [(1024, 0)] * STEPS, f"{model} S={stages} {schedule}: scales")


def check_overflow(context, checks, where, make, data, device, start, rate):
    """`make(stages)` compiles; a scale of `start` overflows in the first steps."""
    first = None
    for stages in STAGES:
        name, binary = f"{where} S={stages}", make(stages)
        huge = ("--set", f"loss_scale={start!r}", "--set", "growth_interval=2", "--set", f"lr={rate}")
        run = train(context, binary, data, *huge, steps=20, device=device)
        skipped = [n for _, n in scales(run)]
        count = skipped[-1]
        checks.check(0 < count < 18, f"{name}: {count} of 20 steps were skipped")
        # It halves in a skipped step, and doubles after two good ones.
        scale, good = start, 0
        for number, (value, total) in enumerate(scales(run)):
            before = skipped[number - 1] if number else 0
            good = 0 if total > before else good + 1
            scale = scale / 2 if total > before else scale * 2 if good == 2 and scale < 1.7e38 else scale
            good %= 2
            checks.check(abs(value - scale) <= 1e-6 * scale, f"{name}, step {number + 1}: the scale is {value}, not {scale}")
        if first is None:
            first = run
        checks.check(bits(run) == bits(first), f"{name}: other bits than one stage")
        checks.equal(metadata(run), metadata(first), f"{name}: the scale in the snapshot")

        # Nothing changes in a skipped step; a rate of 0 changes no parameter either.
        one = train(context, binary, data, *huge, steps=1, device=device)
        none = train(context, binary, data, "--set", "lr=0", steps=1, device=device)
        checks.equal(one[0][0]["skipped_steps"], 1, f"{name}: skipped steps of one")
        checks.check(parameters(one) == parameters(none), f"{name}: a skipped step changes parameters")
        states = {k: v for k, v in common.read_safetensors(one[1]).items() if k and "#" in k}
        checks.check(states and not any(v.any() for v in states.values()), f"{name}: a skipped step changes states")

        half = train(context, binary, data, *huge, steps=9, device=device)
        rest = train(context, binary, data, "--resume", half[1], steps=20, device=device)
        checks.check(bits(rest)[1] == bits(run)[1], f"{name}: other weights after a resume")
        checks.equal(metadata(rest), metadata(run), f"{name}: the scale after a resume")
        checks.equal(scales(rest), scales(run)[9:], f"{name}: scales after a resume")


def check_limit(context, checks, binary, data):
    command = [binary.path, "train", "--data", data, "--steps", 9, "--epochs", 9, "--set", "loss_scale=3e38",
               "--set", "skip_limit=3"]
    try:
        common.run(command, expect=0)
        checks.check(False, "3 skipped steps in a row did not end the training")
    except common.Failure as failure:
        wanted = "the last 3 steps were skipped, because a gradient was not finite"
        checks.check("exit code 1" in str(failure) and wanted in str(failure), f"skip_limit: {failure}")


def enlarged(context, data, factor):
    """Inputs of floating point times a factor, for gradients that are larger than 1."""
    with np.load(data) as file:
        arrays = {k: v * np.float32(factor) if v.dtype == np.float32 else v for k, v in file.items()}
    path = context.path(".npz")
    np.savez(path, **arrays)
    return path


def test(context, checks, arguments):
    options = {"batch": 8, "microbatches": 4}
    models = {"lenet": "sgd"} if arguments.quick else {"lenet": "sgd", "gpt_tied": "adamw"}
    for model, optimizer in models.items():
        data = context.data(model, 16)
        check_same_bits(context, checks, model, optimizer, options, data)
        check_overflow(context, checks, f"{model} f16 on mock",
                       lambda s: context.training(model, stages=s, target="mock", precision="f16", optimizer=optimizer,
                                                  **options), data, "mock", 2.0**34, 0.001)
    large = enlarged(context, context.data("lenet", 16), 1000)
    scaled = {**options, "loss_scale": "dynamic"}
    for optimizer in ("sgd",) if arguments.quick else ("sgd", "adamw"):
        check_overflow(context, checks, f"lenet f32 {optimizer}",
                       lambda s: context.training("lenet", stages=s, optimizer=optimizer, **scaled), large, "cpu", 3e38,
                       1e-8)
    check_limit(context, checks, context.training("lenet", stages=2, **scaled), large)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
