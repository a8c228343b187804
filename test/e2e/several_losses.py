#!/usr/bin/env python3
"""Losses of several outputs, each with a weight, train as their sum does, with the same bits however the model is cut."""

import pathlib
import subprocess
import sys

import numpy as np

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, integer, model, node, opset, tensor, value  # noqa: E402

BATCH, SAMPLES, EPOCHS, RATE = 8, 26, 5, 0.1  # the last batch of an epoch has two samples
SIZES = {"trunk": (10, 6), "logits": (4, 10), "boxes": (3, 10), "auxiliary": (4, 6)}
WEIGHTS = {"logits": 1, "auxiliary": 0.3, "boxes": 0.5}
IGNORED, DELTA = -100, 0.7
FLAGS = {
    "loss": "cross_entropy",
    "loss_output": "logits",
    "add_loss": "0.3*cross_entropy:auxiliary=target,0.5*huber:boxes",
    "huber_delta": DELTA,
    "optimizer": "sgd",
    "learning_rate": RATE,
    "gradient_lanes": 2,  # the same bits for two replicas
}
TOLERANCE = 1e-5  # relative, single precision against double


def make_parameters():
    random = np.random.default_rng(7)
    return {name + end: (random.standard_normal(shape) * 0.5).astype(np.float32)
            for name, size in SIZES.items() for end, shape in ((".weight", size), (".bias", size[:1]))}


def make_data():
    random = np.random.default_rng(8)
    target = random.integers(0, 4, SAMPLES)
    target[[1, 2, 9, 25]] = IGNORED
    return {"x": random.standard_normal((SAMPLES, 6)).astype(np.float32), "target": target,
            "target.boxes": random.standard_normal((SAMPLES, 3)).astype(np.float32)}


def write_model(path, parameters):
    def linear(name, source, result):
        return node("Gemm", [source, name + ".weight", name + ".bias"], [result], attributes=[integer("transB", 1)])

    nodes = [linear("trunk", "x", "h"), node("Tanh", ["h"], ["t"]), linear("boxes", "t", "boxes"),
             linear("auxiliary", "x", "auxiliary"), linear("logits", "t", "logits")]
    constants = [tensor(name, list(p.shape), raw=p.tobytes()) for name, p in parameters.items()]
    body = graph(nodes, inputs=[value("x", [BATCH, 6])],
                 outputs=[value("boxes", [BATCH, 3]), value("logits", [BATCH, 4]), value("auxiliary", [BATCH, 4])],
                 initializers=constants)
    path.write_bytes(model(body, opsets=[opset(17)]))


def cross_entropy(logits, target):
    """The loss and its gradient."""
    counts = target != IGNORED
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    chosen = np.where(counts, target, 0)
    rows = np.arange(len(target))
    number = max(counts.sum(), 1)
    loss = -(np.log(p[rows, chosen]) * counts).sum() / number
    gradient = p.copy()
    gradient[rows, chosen] -= 1
    return loss, gradient * counts[:, None] / number


def huber(output, target):
    d = output - target
    near = np.abs(d) < DELTA
    loss = np.where(near, d * d / 2, DELTA * (np.abs(d) - DELTA / 2)).mean()
    return loss, np.where(near, d, DELTA * np.sign(d)) / d.size


def train_in_numpy(parameters, data):
    """In double precision: losses and parameters."""
    p = {name: array.astype(np.float64) for name, array in parameters.items()}
    losses = []
    for _ in range(EPOCHS):
        for first in range(0, SAMPLES, BATCH):
            x, target, boxes = (data[name][first:first + BATCH] for name in ("x", "target", "target.boxes"))
            x = x.astype(np.float64)
            t = np.tanh(x @ p["trunk.weight"].T + p["trunk.bias"])
            inputs = {"logits": t, "boxes": t, "auxiliary": x}
            outputs = {name: value @ p[name + ".weight"].T + p[name + ".bias"] for name, value in inputs.items()}
            terms = {"logits": cross_entropy(outputs["logits"], target), "auxiliary": cross_entropy(outputs["auxiliary"], target),
                     "boxes": huber(outputs["boxes"], boxes)}
            losses.append(sum(WEIGHTS[name] * loss for name, (loss, _) in terms.items()))
            gradients, of_trunk = {}, 0
            for name, (_, gradient) in terms.items():
                gradient = WEIGHTS[name] * gradient
                gradients[name + ".weight"], gradients[name + ".bias"] = gradient.T @ inputs[name], gradient.sum(0)
                if name != "auxiliary":
                    of_trunk = of_trunk + gradient @ p[name + ".weight"]
            of_trunk = of_trunk * (1 - t * t)
            gradients["trunk.weight"], gradients["trunk.bias"] = of_trunk.T @ x, of_trunk.sum(0)
            for name in p:
                p[name] -= RATE * gradients[name]
    return losses, p


def check_numbers(context, checks, model_file, parameters, data):
    archive = context.path(".npz")
    np.savez(archive, **data)
    losses, expected = train_in_numpy(parameters, data)
    first = None
    for options, flags in (
        ({"stages": 1}, []), ({"stages": 2, "schedule": "1f1b"}, []), ({"stages": 3, "schedule": "zb-h1"}, ["--processes", 3]),
        ({"stages": 2, "replicas": 2}, ["--processes", 2]), ({"stages": 1, "threads_per_stage": 2}, []),
    ):
        binary = context.compile(model_file, batch=BATCH, microbatches=4, **FLAGS, **options)
        snapshot = context.path(".safetensors")
        lines = binary.train(archive, "--no-shuffle", "--epochs", EPOCHS, "--log-bits", "--save", snapshot, "--eval-data", archive,
                             *flags)
        steps = [line for line in lines if "loss" in line]
        bits = common.tensor_bytes(snapshot), [line["loss_bits"] for line in steps]
        if first is None:
            first = bits
            found = common.read_safetensors(snapshot)
            for name, value in expected.items():
                error = common.relative_error(found[name] - parameters[name], value - parameters[name])
                checks.check(error <= TOLERANCE, f"{name} is off by {error:.2g}")
            error = common.relative_error(np.array([line["loss"] for line in steps]), np.array(losses))
            checks.check(error <= TOLERANCE, f"losses are off by {error:.2g}")
            # What is measured is the output of --loss, of three.
            outputs = binary.infer(archive, context.path(".npz"), "--load", snapshot)
            counts = data["target"] != IGNORED
            accuracy = (outputs["logits"].argmax(1) == data["target"])[counts].mean()
            measured = [line["accuracy"] for line in lines if "accuracy" in line]
            checks.check(abs(measured[-1] - accuracy) < 1e-6, f"accuracy is {measured[-1]}, not {accuracy}")
            evaluated = common.run([binary.path, "eval", "--data", archive, "--load", snapshot])
            checks.check(f'"accuracy":{measured[-1]}' in evaluated, f"eval says {evaluated}")
        checks.check(bits == first, f"{options} {flags}: other bits")


def check_refused(context, checks, model_file, data):
    def refused(add_loss, pattern, code):
        flags = {**FLAGS, "add_loss": add_loss}
        done = subprocess.run([str(context.compiler), str(model_file), "-o", str(context.path()), "--batch=8", *context.arguments(flags)],
                              capture_output=True, text=True)
        checks.check(done.returncode == code and pattern in done.stderr, f"{add_loss}: {done.returncode} {done.stderr}")

    refused("huber:nowhere", "has no output 'nowhere'; outputs: boxes, logits, auxiliary", 1)
    refused("huber:boxes=target", "the targets 'target' are 'tensor<8xi64>' to one loss and 'tensor<8x3xf32>' to another", 1)
    refused("huber:boxes=x", "has an input 'x'", 1)
    for text in ("huber", "0*huber:boxes", "-1*huber:boxes", "nan*huber:boxes", "hubber:boxes", "output:boxes", "huber:", "huber:boxes="):
        refused(text, f"--add-loss: cannot read '{text}'", 2)
    # An array is missing.
    binary = context.compile(model_file, batch=BATCH, microbatches=4, stages=1, **FLAGS)
    archive = context.path(".npz")
    np.savez(archive, **{name: array for name, array in data.items() if name != "target.boxes"})
    done = subprocess.run([binary.path, "train", "--data", archive], capture_output=True, text=True)
    checks.check(done.returncode != 0 and "target.boxes" in done.stderr, done.stderr)


def test(context, checks, arguments):
    parameters, data = make_parameters(), make_data()
    model_file = context.path(".onnx")
    write_model(model_file, parameters)
    check_numbers(context, checks, model_file, parameters, data)
    check_refused(context, checks, model_file, data)


if __name__ == "__main__":
    common.main(test, __doc__)
