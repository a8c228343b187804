#!/usr/bin/env python3
"""Stages with unequal numbers of replicas train one model together.

With --gradient-lanes, the bits are those of one pipeline without replicas; with
numbers that divide no lanes, the gradients are those of one pipeline up to
rounding. Neither threads, processes, transports, recomputation nor a step of
fewer samples change that. Memory is as planned, inference gives the same bits, and a
training may stop and resume at another layout.
"""

import json
import subprocess

import numpy as np

import common

BATCH, MICROBATCHES, STEPS = 16, 8, 4

# Model: optimizer. ResNet's batch norms add statistics over micro-batches, too.
MODELS = {"lenet": "sgd", "gpt": "adamw", "resnet18": "sgd"}

# With lanes, and without.
SAME = [("2,1", {}), ("1,4", {"schedule": "gpipe"}), ("4,1,2", {"checkpoint": "always"}), ("1,2,1", {})]
CLOSE = [("3,1", {}), ("1,3", {"schedule": "gpipe"}), ("2,3", {"checkpoint": "always"}), ("5,3,2", {})]


def train(context, binary, data, *flags, steps=STEPS):
    path = context.path(".safetensors")
    binary.train(data, "--steps", steps, "--epochs", steps, "--save", path, *flags)
    return path


def gradients(context, binary, data):
    path = context.path(".safetensors")
    binary.train(data, "--steps", 1, "--dump-gradients", path)
    return {name: tensor for name, tensor in common.read_safetensors(path).items() if name is not None}


def check_memory(context, checks, where, binary, data):
    """What was allocated is what was planned, for each replica."""
    report = context.path(".json")
    binary.train(data, "--steps", 2, "--report", report)
    plan = binary.plan()
    planned = [
        stage["memory_bytes"] for stage, count in zip(plan["stages"], plan["stage_replicas"]) for _ in range(count)
    ]
    allocated = [stage["memory_bytes"] for stage in json.loads(report.read_text())["stages"]]
    checks.equal(allocated, planned, f"{where}: bytes")


def check_same(context, checks, model, data, expected, compile_one):
    previous = None
    for replicas, more in SAME:
        binary = compile_one(replicas=replicas, gradient_lanes=4, **more)
        where = f"{model} replicas {replicas} {more}"
        for flags in [(), ("--processes", 2), ("--processes", 3, "--transport", "host-staged"), ("--device", "mock")]:
            found = train(context, binary, data, *flags)
            done = subprocess.run([binary.path, "verify", expected, found], capture_output=True, text=True, check=False)
            checks.check(done.returncode == 0, f"{where} {flags}: {done.stdout}")
        if previous:
            resumed = train(context, binary, data, "--resume", train(context, previous, data, steps=2))
            done = subprocess.run([binary.path, "verify", expected, resumed], capture_output=True, text=True, check=False)
            checks.check(done.returncode == 0, f"{where}, resumed from another layout: {done.stdout}")
        check_memory(context, checks, where, binary, data)
        previous = binary


def check_close(context, checks, model, data, alone, compile_one):
    expected = gradients(context, alone, data)
    for replicas, more in CLOSE:
        binary = compile_one(replicas=replicas, **more)
        where = f"{model} replicas {replicas} {more}"
        found, worst = gradients(context, binary, data), 0
        checks.equal(set(found), set(expected), f"{where}: names of gradients")
        for name, wanted in expected.items():
            error = np.abs(found[name] - wanted).max() / max(np.abs(wanted).max(), 1e-6)
            worst = max(worst, error)
            checks.check(error < 1e-4, f"{where}: the gradient of {name} differs by {error:.2e}")
        bits = common.tensor_bytes(train(context, binary, data))
        for flags in [("--processes", 2), ("--processes", 4, "--transport", "host-staged")]:
            checks.check(common.tensor_bytes(train(context, binary, data, *flags)) == bits, f"{where} {flags}: other bits")
        check_memory(context, checks, where, binary, data)
        print(f"{where}: gradients at most {worst:.1e} from those of one pipeline", flush=True)


def check_inference(context, checks, model, alone, binary):
    data = context.data(model, samples=2 * BATCH + 3)
    expected = alone.infer(data, context.path(".npz"))
    for flags in ((), ("--processes", 3)):
        for name, values in binary.infer(data, context.path(".npz"), *flags).items():
            checks.check(values.tobytes() == expected[name].tobytes(), f"{model}: inference {flags}: '{name}' differs")


def run_model(context, checks, model):
    # The last batch is not whole, except where batch norms need that.
    data = context.data(model, samples=2 * BATCH if model == "resnet18" else 2 * BATCH + 5)

    def compile_one(**options):
        return context.training(model, optimizer=MODELS[model], batch=BATCH, microbatches=MICROBATCHES, **options)

    laned = compile_one(stages=1, gradient_lanes=4)
    check_same(context, checks, model, data, train(context, laned, data), compile_one)
    alone = compile_one(stages=1)
    check_close(context, checks, model, data, alone, compile_one)
    check_inference(context, checks, model, alone, compile_one(replicas="3,2"))


def test(context, checks, arguments):
    for model in ["lenet"] if arguments.quick else MODELS:
        run_model(context, checks, model)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
