#!/usr/bin/env python3
"""Replicas of a pipeline train one model together.

With as many replicas as micro-batches, each adds one micro-batch to the sum, in
the order in which one pipeline does it: the bits are those of one pipeline. With
fewer, the bits depend on the number of replicas, but neither on stages, schedule
or recompute, nor on devices, processes and transports; and the gradients are
those of one pipeline up to rounding. Also: inference, resuming, the loss scale,
plans of pp-plan, and what cannot have replicas.
"""

import json
import pathlib

import numpy as np

import common
from common import MODELS

# Model: batch, optimizer, options. Batch norm's statistics are sums over replicas too.
USED = {
    "lenet": (16, "sgd", {}),
    "resnet18": (16, "sgd", {}),
    "gpt": (8, "adamw", {}),
    "gpt_tied": (8, "adamw", {}),
}
QUICK = ("lenet",)
STEPS = 3


def read(binary, context, data, *arguments, steps=STEPS):
    """Losses, and the bytes of snapshot and gradients."""
    snapshot, gradients = context.path(".safetensors"), context.path(".safetensors")
    lines = binary.train(
        data, "--steps", steps, "--epochs", steps, "--log-bits", "--save", snapshot, "--dump-gradients", gradients,
        *arguments,
    )
    losses = [line["loss_bits"] for line in lines if "loss_bits" in line]
    return {
        "losses": losses, "snapshot": common.tensor_bytes(snapshot), "gradients": common.tensor_bytes(gradients),
        "skipped": [line.get("skipped_steps") for line in lines if "loss_bits" in line],
    }


def check_same(checks, where, found, expected):
    checks.check(len(found["losses"]) == STEPS, f"{where}: {len(found['losses'])} losses")
    for key, value in expected.items():
        checks.check(found[key] == value, f"{where}: {key} differ")


def check_close(context, checks, where, binary, other, data):
    """Gradients of the first step: sums in another order."""
    found, expected = (read(each, context, data, steps=1)["gradients"] for each in (binary, other))
    for name, (_, data) in expected.items():
        a = np.frombuffer(found[name][1], np.float32)
        b = np.frombuffer(data, np.float32)
        error = np.abs(a - b).max() / max(np.abs(b).max(), 1e-6)
        # Sums in another order move an activation at the kink of its ReLU to the other side.
        checks.check(error < 1e-3, f"{where}: the gradient of {name} differs by {error:.2e}")
        checks.check(np.abs(b).max() > 0, f"{where}: the gradient of {name} is zero")


def check_model(context, checks, model, quick):
    batch, optimizer, options = USED[model]
    data = context.data(model, samples=2 * batch)

    def compile(replicas, stages, **more):
        return context.training(
            model, optimizer=optimizer, batch=batch, microbatches=4, replicas=replicas, stages=stages, **options, **more
        )

    alone = compile(1, 1)
    one = read(alone, context, data)
    check_same(checks, f"{model}: 4 replicas of 1 stage", read(compile(4, 1), context, data), one)
    check_same(
        checks, f"{model}: 4 replicas of 2 stages", read(compile(4, 2, schedule="gpipe"), context, data), one
    )
    base = compile(2, 1)
    two = read(base, context, data)
    check_close(context, checks, f"{model}: 2 replicas", base, alone, data)
    cases = [(2, {"checkpoint": "always"}), (3, {"schedule": "zb-h1"}), (4, {"schedule": "interleaved", "ranks": 2})]
    for stages, more in cases[:1] if quick else cases:
        binary = compile(2, stages, **more)
        where = f"{model}: 2 replicas of {stages} stages {more}"
        check_same(checks, where, read(binary, context, data), two)
        plan = binary.plan()
        checks.check(
            plan["replicas"] == 2 and len(plan["stages"]) == stages and plan["microbatches"] == 4,
            f"{where}: the plan does not say so",
        )
        check_same(checks, f"{where}, mock device", read(binary, context, data, "--device", "mock"), two)
        check_same(
            checks, f"{where}, 3 processes", read(binary, context, data, "--processes", 3), two
        )
        check_same(
            checks, f"{where}, 4 processes through sockets, mock device",
            read(binary, context, data, "--processes", 4, "--transport", "host-staged", "--device", "mock"), two,
        )
    # A GPU's program, whose optimizer and sums are kernels of the device.
    mock = compile(2, 2, target="mock")
    expected = read(compile(2, 1, target="mock"), context, data)
    for flags in ((), ("--no-graphs",), ("--processes", 2)):
        check_same(checks, f"{model}: target mock {flags}", read(mock, context, data, *flags), expected)
    # With the kernels that the device has.
    check_close(context, checks, f"{model}: target mock", mock, compile(1, 1, norms="library"), data)
    check_inference(context, checks, model, alone, compile(2, 2))
    check_resume(context, checks, model, base, data, two)


def check_inference(context, checks, model, one, two):
    """Outputs of all samples, in their places."""
    data = context.data(model, samples=19)
    expected = one.infer(data, context.path(".npz"))
    for flags in ((), ("--processes", 3), ("--device", "mock")):
        found = two.infer(data, context.path(".npz"), *flags)
        for name, values in expected.items():
            checks.check(
                values.tobytes() == found[name].tobytes(), f"{model}: inference {flags}: output {name} differs"
            )


def check_resume(context, checks, model, binary, data, expected):
    half, whole = context.path(".safetensors"), context.path(".safetensors")
    binary.train(data, "--steps", STEPS - 1, "--epochs", STEPS, "--save", half)
    binary.train(data, "--resume", half, "--steps", STEPS, "--epochs", STEPS, "--save", whole)
    checks.check(common.tensor_bytes(whole) == expected["snapshot"], f"{model}: resume differs")


def check_loss_scale(context, checks):
    """An overflow in one replica is one of all."""
    options = {
        "optimizer": "sgd", "batch": 16, "microbatches": 4, "loss_scale": "dynamic", "target": "mock", "precision": "f16"
    }
    data = context.data("lenet", samples=32)
    binaries = [context.training("lenet", replicas=2, stages=stages, **options) for stages in (1, 2)]
    # Overflows in the first steps, and now and then after them.
    flags = ("--set", "loss_scale=0x1p20", "--set", "growth_interval=2")
    expected, found, apart = (
        read(binary, context, data, *flags, *extra, steps=9)
        for binary, extra in ((binaries[0], ()), (binaries[1], ()), (binaries[1], ("--processes", 4)))
    )
    for name, run in (("2 stages", found), ("4 processes", apart)):
        for key, value in expected.items():
            checks.check(run[key] == value, f"lenet with a loss scale, {name}: {key} differ")
    skipped = expected["skipped"]
    checks.check(0 < skipped[-1] < 9, f"lenet with a loss scale: skipped {skipped}")


def check_plan(context, checks):
    """pp-plan's choice of replicas runs as it is."""
    plan = context.path(".json")
    common.run([
        context.build / "bin" / "pp-plan", common.model_file("lenet"), "--loss=cross_entropy", "--batch=16",
        "--microbatches=4", "--max-ranks=1", "--schedules=gpipe", "-o", plan,
    ])
    replicas = json.loads(plan.read_text())["replicas"]
    checks.check(replicas > 1, "pp-plan chose no replicas")
    binary = context.compile(common.model_file("lenet"), loss="cross_entropy", plan=plan)
    checks.check(binary.plan()["replicas"] == replicas, "the program has other replicas than the plan")
    data = context.data("lenet", samples=32)
    report = context.path(".json")
    binary.train(data, "--steps", 2, "--report", report)
    stages = json.loads(report.read_text())["stages"]
    checks.check(len(stages) == replicas * len(binary.plan()["stages"]), f"{len(stages)} stages are reported")
    for stage in stages:
        checks.check(stage["memory_bytes"] == stage["planned_bytes"], f"{stage['name']} allocates other memory")


def check_faults(context, checks):
    def refuse(text, *arguments):
        try:
            common.run([context.compiler, common.model_file("lenet"), "-o", context.path(), *arguments])
        except common.Failure as failure:
            return checks.check(text in str(failure), f"{arguments}: expected '{text}', got {failure}")
        return checks.check(False, f"{arguments}: compiled")

    refuse("6 micro-batches cannot be dealt out equally to 4 replicas", "--batch=12", "--microbatches=6", "--replicas=4")
    refuse("--replicas=0: must be", "--replicas=0")
    binary = context.training("lenet", batch=16, microbatches=4, replicas=4, stages=1)
    data = context.data("lenet", samples=32)
    try:
        binary.train(data, "--processes", 5)
        checks.check(False, "5 processes for 4 ranks: started")
    except common.Failure as failure:
        checks.check("5 processes for the 4 ranks" in str(failure), f"5 processes: {failure}")


def test(context, checks, arguments):
    for model in QUICK if arguments.quick else USED:
        check_model(context, checks, model, arguments.quick)
    check_loss_scale(context, checks)
    check_plan(context, checks)
    check_faults(context, checks)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
