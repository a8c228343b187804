#!/usr/bin/env python3
"""A loss that the model computes trains it as the compiler's does.

A mean over all samples, and a penalty beside it, are the same for any number of
micro-batches; a mean over what counts is one of micro-batches where it is asked for,
and refused elsewhere. Bits do not depend on the number of stages.
"""

import subprocess
import sys

import numpy as np

import common
from common import MODELS

sys.path.insert(0, str(MODELS / "bad"))
sys.path.insert(0, str(MODELS.parent / "Import"))
from make import FLOAT, INT64, graph, integer, model as onnx_model, node, opset, tensor, text, untyped, value  # noqa: E402
from torch_export import called  # noqa: E402

SHAPES = {"a": [16, 32], "a_bias": [32], "b": [32, 4], "b_bias": [4]}
LAYERS = [
    node("Gemm", ["x", "a", "a_bias"], ["h"], name="a"),
    node("Tanh", ["h"], ["i"], name="tanh"),
    node("Gemm", ["i", "b", "b_bias"], ["y"], name="b"),
]
ERROR = [
    node("Sub", ["y", "t"], ["d"], name="difference"),
    node("Mul", ["d", "d"], ["e"], name="square"),
]
NO_AXES = [integer("keepdims", 0)]
MEAN = [*ERROR, node("ReduceMean", ["e"], ["loss"], name="mean", attributes=NO_AXES)]
PENALTY = [
    *ERROR,
    node("ReduceMean", ["e"], ["mean"], name="mean", attributes=NO_AXES),
    node("Mul", ["b", "b"], ["bb"], name="squares"),
    node("ReduceSum", ["bb"], ["sum"], name="sum", attributes=NO_AXES),
    node("Mul", ["sum", "rate"], ["penalty"], name="penalty"),
    node("Add", ["mean", "penalty"], ["loss"], name="loss"),
]
COUNTED = [
    node("SoftmaxCrossEntropyLoss", ["y", "t"], ["loss"], name="entropy",
         attributes=[text("reduction", "mean"), integer("ignore_index", -100)]),
]  # fmt: skip
# With a gradient that stops at s, that of the mean of (y - t)^2.
DETACHED = [
    called(node("Identity", ["y"], ["s"], name="detach"), "detach.default](args = (%y,)"),
    node("Sub", ["s", "t"], ["d"], name="difference"),
    node("Mul", ["d", "y"], ["dy"], name="product"),
    node("Mul", ["dy", "two"], ["e"], name="twice"),
    node("ReduceMean", ["e"], ["loss"], name="mean", attributes=NO_AXES),
]
SMOOTHED = [called(COUNTED[0], "cross_entropy_loss.default](args = (%y, %t, None, 1, -100, 0.1)")]
STEPS, BATCH = 5, 8


class Model:
    """One that has its loss as an output, from targets `t`."""

    def __init__(self, context, nodes, t, constants=(), output="loss"):
        generator = np.random.default_rng(1)
        weights = [tensor(n, dims, floats=list(generator.normal(size=np.prod(dims)) / 4)) for n, dims in SHAPES.items()]
        x = generator.normal(size=(BATCH, 16)).astype(np.float32)
        self.context, self.path, self.data = context, context.path(".onnx"), context.path(".npz")
        inputs = [value("x", ["n", 16])]
        if output == "loss":
            inputs.append(value("t", ["n", *t.shape[1:]], INT64 if t.dtype == np.int64 else FLOAT))
        self.path.write_bytes(
            onnx_model(
                graph(LAYERS + nodes, inputs=inputs, outputs=[untyped(output)], initializers=[*weights, *constants]),
                opsets=[opset(17)],
            )
        )
        np.savez(self.data, x=x, **{"t" if output == "loss" else "target": t})

    def compile(self, **options):
        return self.context.compile(self.path, batch=BATCH, optimizer="sgd", learning_rate=0.1, **options)

    def train(self, **options):
        binary, saved = self.compile(**options), self.context.path(".safetensors")
        lines = binary.train(self.data, "--steps", STEPS, "--epochs", STEPS, "--no-shuffle", "--save", saved)
        losses = [line["loss"] for line in lines if "loss" in line]
        return losses, {n: v for n, v in common.read_safetensors(saved).items() if n in SHAPES}, saved


def compare(checks, found, expected, what):
    checks.check(
        len(found[0]) == STEPS and np.allclose(found[0], expected[0], rtol=2e-6), f"{what}: losses {found[0]}, not {expected[0]}"
    )
    checks.equal(sorted(found[1]), sorted(SHAPES), f"{what}: parameters")
    for name, wanted in expected[1].items():
        error = np.abs(found[1][name] - wanted).max()
        checks.check(error < 1e-6, f"{what}: {name}: weights are {error:.2g} away")


def check_microbatches(checks, model, what, **more):
    """Any number of micro-batches makes the same training, but for rounding."""
    own = {"loss": "output:loss", **more}
    whole = model.train(microbatches=1, stages=1, **own)
    for microbatches in (2, 4, 8):
        one = model.train(microbatches=microbatches, stages=1, **own)
        compare(checks, one, whole, f"{what}, {microbatches} micro-batches")
        two = model.train(microbatches=microbatches, stages=2, schedule="1f1b", **own)
        checks.check(
            common.tensor_bytes(two[2]) == common.tensor_bytes(one[2]), f"{what}, {microbatches} micro-batches: other bits of two stages"
        )
    # The inference program gives the loss of the whole mini-batch.
    binary = model.compile(microbatches=4, stages=2, **own)
    (loss,) = binary.infer(model.data, model.context.path(".npz")).values()
    checks.check(np.allclose(loss, whole[0][0], rtol=2e-6), f"{what}: infer gives {loss}, train {whole[0][0]}")
    return whole


def check_refused(checks, model, fragments, **options):
    """The command line, since the compiler must say why."""
    flags = [f"--{name.replace('_', '-')}={value}" if value is not None else f"--{name.replace('_', '-')}" for name, value in options.items()]
    done = subprocess.run(
        [str(model.context.build / "bin" / "pp-compile"), str(model.path), f"--batch={BATCH}", "--optimizer=sgd", "--learning-rate=0.1", *flags,
         "-o", str(model.context.path(""))],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    checks.check(
        done.returncode in (1, 2) and all(f in done.stderr for f in fragments), f"{options}: code {done.returncode}: {done.stderr}"
    )


def test(context, checks, arguments):
    generator = np.random.default_rng(2)
    t = generator.normal(size=(BATCH, 4)).astype(np.float32)
    mean = Model(context, MEAN, t)
    own = check_microbatches(checks, mean, "a mean")
    outside = Model(context, [], t, output="y")
    compare(checks, own, outside.train(microbatches=1, stages=1, loss="mse"), "--loss=mse")

    rate = tensor("rate", [], floats=[0.01])
    check_microbatches(checks, Model(context, PENALTY, t, [rate]), "a mean and a penalty")

    # What PyTorch's exporter says beside the nodes.
    detached = Model(context, DETACHED, t, [tensor("two", [], floats=[2.0])])
    for microbatches, stages in ((1, 1), (4, 2)):
        _, weights, _ = detached.train(microbatches=microbatches, stages=stages, loss="output:loss")
        compare(checks, (own[0], weights), own, f"a gradient that stops, {microbatches} micro-batches, {stages} stages")

    # Without labels that do not count, both means are one.
    labels = generator.integers(0, 4, size=BATCH)
    counted = Model(context, COUNTED, labels)
    check_microbatches(checks, counted, "a mean over labels", mean_of_microbatches=None)
    check_refused(checks, counted, ["entropy", "--mean-of-microbatches", "--microbatches=1"],
                  loss="output:loss", microbatches=2, stages=1)  # fmt: skip
    check_refused(checks, counted, ["--mean-of-microbatches"], loss="mse", microbatches=2, mean_of_microbatches=None)
    check_refused(checks, mean, ["--replicas=2", "'loss'"], loss="output:loss", microbatches=2, replicas=2)
    # With some, each micro-batch counts as much as any other.
    some = labels.copy()
    some[[0, 1, 5]] = -100
    smoothed = Model(context, SMOOTHED, some).train(microbatches=1, stages=1, loss="output:loss")
    plain = Model(context, [], some, output="y")
    expected = plain.train(microbatches=1, stages=1, loss="cross_entropy", label_smoothing=0.1, ignore_index=-100)
    compare(checks, smoothed, expected, "smoothed labels")
    partly = Model(context, COUNTED, some)
    parts = []
    for first in range(0, BATCH, 4):
        part = context.path(".npz")
        with np.load(partly.data) as arrays:
            np.savez(part, **{name: array[first : first + 4] for name, array in arrays.items()})
        binary = context.compile(partly.path, batch=4, microbatches=1, stages=1, loss="output:loss", optimizer="sgd", learning_rate=0.1)
        parts.append(binary.train(part, "--steps", 1)[0]["loss"])
    losses, _, _ = partly.train(microbatches=2, stages=1, loss="output:loss", mean_of_microbatches=None)
    checks.check(abs(losses[0] - np.mean(parts)) < 2e-6, f"the mean of {parts} is {losses[0]}")
    whole, _, _ = partly.train(microbatches=1, stages=1, loss="output:loss")
    checks.check(abs(whole[0] - losses[0]) > 1e-3, f"as without micro-batches: {whole[0]}")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
