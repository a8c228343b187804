#!/usr/bin/env python3
"""Trains batches that are smaller than the program's: the last one of an epoch.

Losses, gradients and weights are those of PyTorch, which is given the samples
that there are: fewer than micro-batches, a micro-batch that is not full, one
sample; with cross entropy and squared errors, GPipe, 1F1B, zero bubble and
recomputation, on stages and replicas. Batch norms see the samples that a micro-batch
has, and running statistics are those of them. The bits depend neither on the stages,
the schedule, processes nor transports. Programs that do not take such batches say so.
"""

import json
import os
import pathlib
import subprocess

import numpy as np

import common
from common import MODELS, relative_error

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "reference" / "plain_training.py"
TOLERANCE = 1e-4
SETTINGS = {"kind": "sgd", "lr": 0.05, "momentum": 0.9, "weight_decay": 1e-4}

BATCH, MICROBATCHES = 8, 4

# Compiled in these ways; all of one line have the same bits.
PIPELINES = [
    {"stages": 1, "schedule": "gpipe"},
    {"stages": 2, "schedule": "1f1b"},
    {"stages": 2, "schedule": "gpipe"},
    {"stages": 2, "schedule": "zb-h1"},
    {"stages": 1, "weights_together": 3},
    {"stages": 4, "schedule": "1f1b", "checkpoint": "always"},
]
# Gradients are added in another order there.
OTHERS = [{"stages": 2, "replicas": 2}, {"stages": 1, "replicas": 4}]


def reference(context, model, data, updates, **more):
    job = {"model": model, "batch": BATCH, "updates": updates, "optimizer": SETTINGS, "data": str(data)} | more
    path, out = context.path(".json"), context.path(".npz")
    path.write_text(json.dumps(job))
    done = subprocess.run(
        [os.environ["PP_PYTHON"], REFERENCE, path, out], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise common.Failure(f"{model}: the reference failed:\n{done.stderr[-2000:]}")
    return dict(np.load(out))


def compile_(context, model, options):
    return context.training(model, batch=BATCH, microbatches=MICROBATCHES, **options)


def train(context, binary, data, updates, *flags):
    weights, gradients = context.path(".safetensors"), context.path(".safetensors")
    lines = binary.train(
        data, "--no-shuffle", "--steps", updates, "--save", weights, "--dump-gradients", gradients, "--log-bits", *flags
    )
    return lines, weights, gradients


def worst_error(checks, where, expected, path, prefix=""):
    tensors, worst = common.read_safetensors(path), 0.0
    scale = max(np.abs(array).max() for name, array in expected.items() if name.startswith(prefix))
    for name, value in tensors.items():
        if name is None or "#" in name:
            continue
        if not checks.check(prefix + name in expected, f"{where}: {name} is not in the reference"):
            continue
        reference = expected[prefix + name]
        # The gradient of a bias in front of a norm is 0 but for rounding.
        size = np.abs(reference).max()
        error = np.abs(value - reference).max() / scale if size < 1e-6 * scale else relative_error(value, reference)
        checks.check(error <= TOLERANCE, f"{where}: {prefix}{name}: relative error {error:.3g}")
        worst = max(worst, error)
    return worst


def run_case(context, checks, model, samples, pipelines, others, **more):
    """The last batch of `samples` of the second epoch, and what came before it."""
    data = context.data(model, samples=samples)
    updates = 2 * -(-samples // BATCH)
    size = {"microbatch": BATCH // MICROBATCHES} if model == "normed" else {}
    expected = reference(context, model, data, updates, **size, **more)
    bits = None
    for options in pipelines + others:
        options = options | more
        where = f"{model} {samples} samples, {options}"
        binary = compile_(context, model, options)
        lines, weights, gradients = train(context, binary, data, updates)
        checks.equal(lines[-1]["epoch"], 2, f"{where}: epoch")
        error = abs(lines[-1]["loss"] - float(expected["loss"])) / abs(float(expected["loss"]))
        checks.check(error <= TOLERANCE, f"{where}: loss: relative error {error:.3g}")
        worst = worst_error(checks, where, expected, gradients, "last/"), worst_error(checks, where, expected, weights)
        print(f"{where:<84} gradients {worst[0]:.1e} weights {worst[1]:.1e}", flush=True)
        if "replicas" not in options:
            own = common.tensor_bytes(weights)
            bits = bits or own
            checks.check(own == bits, f"{where}: other bits")
        if options == pipelines[-1] | more:
            check_runs(context, checks, where, binary, data, updates, bits)


def check_runs(context, checks, where, binary, data, updates, bits):
    for flags in [("--processes", 2), ("--processes", 2, "--transport", "host-staged"), ("--device", "mock")]:
        weights = train(context, binary, data, updates, *flags)[1]
        checks.check(common.tensor_bytes(weights) == bits, f"{where}: other bits with {flags}")
    # Stopped after a batch that is not whole, and before one.
    for stop in (updates // 2, updates - 1):
        first = train(context, binary, data, stop)[1]
        weights = train(context, binary, data, updates, "--resume", first)[1]
        checks.check(common.tensor_bytes(weights) == bits, f"{where}: other bits, resumed after step {stop}")


def check_updates_of_a_step(context, checks):
    """Replicas of stages without a flush: each update has a micro-batch of each of them."""
    data = context.data("normed", samples=BATCH + 3)
    still = {**SETTINGS, "lr": 0, "weight_decay": 0}
    job = {"microbatch": BATCH // MICROBATCHES, "optimizer": still}
    stale = {"stages": 2, "schedule": "pipedream", "replicas": "2,1", "allow_stale": None, "learning_rate": 0}
    binary = context.compile(
        common.model_file("normed"), loss="cross_entropy", batch=BATCH, microbatches=MICROBATCHES, **stale
    )
    weights = train(context, binary, data, 4)[1]
    expected = {}
    for replicas, stage in zip((2, 1), binary.plan()["stages"]):
        own = reference(context, "normed", data, 4, commits=replicas, **job)
        statistics = [tensor["name"] for tensor in stage["buffers"] if "running_" in tensor["name"]]
        checks.check(statistics, f"stage {stage['name']} has norms")
        names = [tensor["name"] for tensor in stage["parameters"]] + statistics
        expected.update((name, own[name]) for name in names)
    worst = worst_error(checks, "several updates in a step", expected, weights)
    print(f"{'normed, several updates in a step':<84} weights {worst:.1e}", flush=True)


def check_choices(context, checks):
    """What leaves the last samples out, and what must."""
    data = context.data("lenet", samples=BATCH + 3)
    binary = compile_(context, "lenet", {"stages": 2})
    lines = binary.train(data, "--epochs", 2, "--drop-last")
    checks.equal([line["epoch"] for line in lines], [1, 2], "steps with --drop-last")
    snapshot = context.path(".safetensors")
    binary.train(data, "--epochs", 1, "--drop-last", "--save", snapshot)
    lines = binary.train(data, "--epochs", 2, "--resume", snapshot)
    checks.equal([line["epoch"] for line in lines], [2], "a resumed run drops what the first one has dropped")
    binary.train(data, "--epochs", 1, "--save", snapshot)
    refused = subprocess.run(
        [binary.path, "train", "--data", data, "--epochs", "2", "--resume", snapshot, "--drop-last"],
        capture_output=True, text=True, check=False,
    )
    checks.check(
        refused.returncode == 2 and "--drop-last: the run of --resume" in refused.stderr, f"refused: {refused.stderr}"
    )
    # The library's batch norms read all rows of a micro-batch.
    data = context.data("resnet18", samples=BATCH + 3)
    binary = context.training("resnet18", stages=2, batch=BATCH, microbatches=2, norms="library")
    done = subprocess.run(
        [binary.path, "train", "--data", data, "--epochs", "1"], capture_output=True, text=True, check=False
    )
    checks.equal(len(done.stdout.splitlines()), 1, "steps of an epoch with batch norm")
    checks.check("3 of 11 samples" in done.stderr and "normalises over the samples" in done.stderr, done.stderr)


def test(context, checks, arguments):
    cases = [("mlp", BATCH + 3, PIPELINES[1:2], OTHERS[:1]), ("normed", BATCH + 3, PIPELINES[1:2], [])] if arguments.quick else [
        # One sample; as many as micro-batches less one; a micro-batch that is not full; a row less than all.
        *(("mlp", samples, PIPELINES, OTHERS) for samples in (1, 3, BATCH + 1, BATCH + 3, BATCH + 5, BATCH + 7)),
        ("lenet", BATCH + 3, PIPELINES, OTHERS), ("unet", BATCH + 3, PIPELINES, OTHERS),
        ("gpt", BATCH + 3, PIPELINES, OTHERS),
        *(("normed", samples, PIPELINES, OTHERS) for samples in (1, 3, BATCH + 1, BATCH + 3, BATCH + 7)),
    ]

    def guarded(case):
        try:
            run_case(context, checks, *case)
        except common.Failure as failure:
            checks.check(False, f"{case[:2]}: {failure}")

    context.map(guarded, cases)
    if not arguments.quick:
        run_case(context, checks, "normed", BATCH + 3, PIPELINES[:3], OTHERS[1:], batch_norm="each")
    if not arguments.quick:
        check_updates_of_a_step(context, checks)
        check_choices(context, checks)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
