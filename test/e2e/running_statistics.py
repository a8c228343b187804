#!/usr/bin/env python3
"""--batch-norm=each: every micro-batch moves the running statistics, as in PyTorch.

With a learning rate of 0, a step of four micro-batches moves them as four steps
of one do, which are PyTorch's (`reference.npz`), and --batch-norm=micro moves
them otherwise. Bits depend on neither stages, schedules, recomputation, threads,
processes nor, with gradient lanes, replicas.
"""

import pathlib
import sys

import numpy as np

import common
from common import MODELS, OPTIMIZERS, relative_error

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import INT64, graph, integer, message, model, node, opset, tensor, untyped, value  # noqa: E402

MODEL = "normed"
CHANNELS, MOMENTUM = 3, 0.2
TOLERANCE = 1e-6


def train(context, data, steps, *flags, **options):
    binary = context.compile(common.model_file(MODEL), loss="cross_entropy", **options)
    path = context.path(".safetensors")
    binary.train(data, "--no-shuffle", "--epochs", steps, "--steps", steps, "--save", path, *flags)
    return path


def statistics(path):
    return {name: value for name, value in common.read_safetensors(path).items() if name and "running_" in name}


def check_smaller_batch(context, checks, data, mode):
    """Of 3 samples in 8 rows, a step is that of a program for 3 samples; so are those of its micro-batches of 1."""
    few = context.path(".npz")
    np.savez(few, **{name: array[:3] for name, array in np.load(data).items()})
    options = {"batch_norm": mode, "learning_rate": 0.1}
    expected = common.read_safetensors(train(context, few, 1, batch=3, microbatches=1, **options))
    found = common.read_safetensors(train(context, few, 1, batch=8, microbatches=1, **options))
    for name, value in expected.items():
        if name:
            error = relative_error(found[name], value)
            checks.check(error <= TOLERANCE, f"{mode}: {name}: {error:.2g} from that of a program for 3 samples")
    padded = context.path(".npz")
    np.savez(padded, **{name: array[[0, 1, 2, 2, 2, 2, 2, 2]] for name, array in np.load(data).items()})
    others = statistics(train(context, padded, 1, batch=8, microbatches=1, **options))
    away = min(relative_error(value, expected[name]) for name, value in others.items())
    checks.check(away > 100 * TOLERANCE, f"{mode}: copies of a sample change statistics by {away:.2g} only")
    single = common.read_safetensors(train(context, few, 1, batch=3, microbatches=3, **options))
    for more, flags in [({"stages": 1}, ()), ({"stages": 3, "schedule": "zb-h1"}, ("--processes", 3)), ({"threads_per_stage": 2}, ())]:
        path = train(context, few, 1, *flags, batch=8, microbatches=8, **options, **more)
        own = common.read_safetensors(path)
        for name, value in single.items():
            if name:
                error = relative_error(own[name], value)
                checks.check(error <= TOLERANCE, f"{mode} {more}: {name}: {error:.2g} from that of 3 micro-batches")


def norm(x, y):
    return node("BatchNormalization", [x, "scale", "shift", "mean", "variance"], [y], name="n" + y,
                attributes=[integer("training_mode", 1), message((1, "momentum"), (2, 1 - MOMENTUM), (20, 1))])  # fmt: skip


# One norm behind itself, and one of each half of a batch: models, and what their norm sees of a micro-batch.
TWICE = [node("MatMul", ["x", "w"], ["a"]), norm("a", "b"), node("Mul", ["b", "x"], ["c"]), norm("c", "d"), node("MatMul", ["d", "w"], ["y"])]
HALVES = [node("MatMul", ["x", "w"], ["a"]), node("Split", ["a", "sizes"], ["l", "r"], attributes=[integer("axis", 0)]), norm("l", "m"), norm("r", "n"),
          node("Concat", ["m", "n"], ["y"], attributes=[integer("axis", 0)])]  # fmt: skip


def normalized(x):
    return (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5)


def check_several_uses(context, checks):
    """Of a norm that the model uses several times, each use moves the running statistics."""
    names = ("scale", "shift", "mean", "variance")
    tensors = [tensor(name, [CHANNELS], floats=[0.0 if name in ("shift", "mean") else 1.0] * CHANNELS) for name in names]
    tensors.append(tensor("w", [CHANNELS, CHANNELS], floats=np.eye(CHANNELS).ravel().tolist()))
    tensors.append(tensor("sizes", [2], ints=[4, 4], dtype=INT64))
    x = np.random.default_rng(3).normal(1, 2, (20, CHANNELS)).astype(np.float32)
    archive = context.path(".npz")
    np.savez(archive, x=x, target=np.zeros_like(x))
    cases = [(TWICE, lambda rows: [rows, normalized(rows) * rows], 8, ((1, 1), (2, 2), (4, 1))), (HALVES, lambda rows: [rows[:4], rows[4:]], 8, ((1, 1), (1, 2)))]
    for nodes, seen, batch, configurations in cases:
        path = context.path(".onnx")
        path.write_bytes(model(graph(nodes, inputs=[value("x", [batch, CHANNELS])], outputs=[untyped("y")], initializers=tensors), opsets=[opset(17)]))
        # A last mini-batch of 4 samples has no two halves.
        samples = 20 if nodes is TWICE else 16
        np.savez(archive, x=x[:samples], target=np.zeros_like(x[:samples]))
        for microbatches, stages in configurations:
            mean, variance = np.zeros(CHANNELS), np.ones(CHANNELS)
            for first in range(0, samples, batch // microbatches):
                rows = x[first : min(first + batch // microbatches, samples)].astype(np.float64)
                for own in seen(rows):
                    mean += MOMENTUM * (own.mean(0) - mean)
                    variance += MOMENTUM * (own.var(0, ddof=1) - variance)
            binary = context.compile(path, loss="mse", optimizer="sgd", learning_rate=0, train_only="w,scale,shift",
                                     batch=batch, microbatches=microbatches, stages=stages)  # fmt: skip
            snapshot = context.path(".safetensors")
            binary.train(archive, "--no-shuffle", "--epochs", 1, "--save", snapshot)
            found = common.read_safetensors(snapshot)
            for name, expected in (("mean", mean), ("variance", variance)):
                error = relative_error(found[name], expected)
                checks.check(error <= 1e-5, f"{len(nodes)} nodes, {microbatches} micro-batches, {stages} stages: {name} is {error:.2g} from that of single uses")


def test(context, checks, arguments):
    check_several_uses(context, checks)
    data = context.data(MODEL)
    still = {"learning_rate": 0, "batch_norm": "each"}
    # The batches of both trainings are the same samples in the same order.
    whole = statistics(train(context, data, 8, batch=16, microbatches=4, **still))
    single = statistics(train(context, data, 32, batch=4, microbatches=1, **still))
    deferred = statistics(train(context, data, 8, batch=16, microbatches=4, learning_rate=0))
    checks.equal(len(whole), 6, f"{MODEL}: running statistics")
    for name, value in whole.items():
        error = relative_error(value, single[name])
        checks.check(error <= TOLERANCE, f"{name}: {error:.2g} from those of single micro-batches")
        away = relative_error(deferred[name], single[name])
        checks.check(away > 100 * TOLERANCE, f"{name}: --batch-norm=micro is only {away:.2g} away")

    with np.load(MODELS / MODEL / "reference.npz") as reference:
        options = {key.replace("-", "_"): value for key, value in OPTIMIZERS["sgd"].items()}
        trained = statistics(train(context, data, 5, batch=32, microbatches=1, batch_norm="each", **options))
        for name, value in trained.items():
            error = relative_error(value, reference[f"sgd/{name}"])
            checks.check(error <= 1e-5, f"{name}: {error:.2g} from PyTorch's")

    base = {"batch": 16, "microbatches": 4, "batch_norm": "each", "learning_rate": 0.05, "gradient_lanes": 4}
    bits = common.tensor_bytes(train(context, data, 6, **base))
    for options, flags in [
        ({"stages": 2, "schedule": "1f1b"}, ()), ({"stages": 3, "schedule": "zb-h1"}, ("--processes", 3)),
        ({"stages": 2, "schedule": "gpipe", "checkpoint": "always"}, ()), ({"threads_per_stage": 2}, ()),
        ({"replicas": 2}, ()), ({"replicas": 4, "stages": 2}, ()), ({"stages": 2, "replicas": "2,1"}, ()),
    ]:  # fmt: skip
        other = common.tensor_bytes(train(context, data, 6, *flags, **base, **options))
        checks.check(other == bits, f"{options} {flags}: other bits")

    for mode in ("micro", "each"):
        check_smaller_batch(context, checks, data, mode)

    stale = {"loss": "cross_entropy", "batch_norm": "each", "stages": 2, "schedule": "pipedream", "allow_stale": None, "batch": 16}
    common.Binary(context.compile(common.model_file(MODEL), **stale).path).plan()
    try:
        context.compile(common.model_file(MODEL), **stale, replicas="1,2")
        checks.check(False, "an update of some micro-batches took statistics of all")
    except common.Failure as failure:
        checks.check("use --batch-norm=micro" in str(failure), str(failure))


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
