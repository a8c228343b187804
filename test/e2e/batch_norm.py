"""Batch norms of any number of channels, in any layout, are those of NumPy in f64.

    batch_norm.py BUILD

Loss, gradients and running statistics of tanh(norm(convolution(x))), where the
channels' means are many deviations away from zero: sums of squares that are not
taken around the mean would show.
"""

import pathlib
import sys

import numpy as np

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, integer, model, node, opset, tensor, untyped, value  # noqa: E402

BATCH = 6
INPUTS = 4
EPSILON = 1e-5
TOLERANCE = 5e-5

# (channels, extents of the image)
SHAPES = [(1, (9,)), (3, (5, 5)), (8, (4, 4)), (24, (3, 3, 2)), (37, (1, 1)), (64, (7, 7)), (104, (10, 9)), (16, (17, 5))]


def parameters(channels, axes):
    rng = np.random.default_rng(channels)
    weights = {
        "weight": rng.uniform(-1, 1, (channels, INPUTS, *[1] * axes)), "bias": rng.uniform(20, 40, channels),
        "scale": rng.uniform(0.5, 1.5, channels), "shift": rng.uniform(-1, 1, channels),
        "mean": np.zeros(channels), "variance": np.ones(channels),
    }  # fmt: skip
    return {name: array.astype(np.float32) for name, array in weights.items()}


def write(path, weights, extents):
    constants = [tensor(name, list(array.shape), raw=array.tobytes()) for name, array in weights.items()]
    nodes = [
        node("Conv", ["x", "weight", "bias"], ["c"]),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n", "m", "v"], attributes=[integer("training_mode", 1)]),
        node("Tanh", ["n"], ["y"]),
    ]
    body = graph(nodes, inputs=[value("x", [BATCH, INPUTS, *extents])], outputs=[untyped("y")], initializers=constants)
    path.write_bytes(model(body, opsets=[opset(17)]))


def reference(x, target, w):
    """Loss, gradients and running statistics."""
    x, target = x.astype(np.float64), target.astype(np.float64)
    w = {name: array.astype(np.float64) for name, array in w.items()}
    kernel = w["weight"].reshape(len(w["scale"]), INPUTS)
    spread = lambda numbers: numbers.reshape(-1, *[1] * (x.ndim - 2))  # noqa: E731
    flat = lambda image: image.reshape(*image.shape[:2], -1)  # noqa: E731
    axes = (0, *range(2, x.ndim))
    c = np.einsum("ni...,oi->no...", x, kernel) + spread(w["bias"])
    mean, variance = c.mean(axes), c.var(axes)
    inverse = 1 / np.sqrt(variance + EPSILON)
    normal = (c - spread(mean)) * spread(inverse)
    y = np.tanh(normal * spread(w["scale"]) + spread(w["shift"]))
    g = 2 * (y - target) / y.size * (1 - y * y)
    shift, scale = g.sum(axes), (g * normal).sum(axes)
    count = y.size / len(scale)
    dc = spread(w["scale"] * inverse) * (g - spread(shift) / count - normal * spread(scale) / count)
    gradients = {
        "weight": np.einsum("nop,nip->oi", flat(dc), flat(x)).reshape(w["weight"].shape), "scale": scale, "shift": shift,
    }  # fmt: skip
    running = {"mean": 0.9 * w["mean"] + 0.1 * mean, "variance": 0.9 * w["variance"] + 0.1 * variance * count / (count - 1)}
    return ((y - target) ** 2).mean(), gradients, running


def test(context, checks, arguments):
    for channels, extents in SHAPES:
        weights = parameters(channels, len(extents))
        rng = np.random.default_rng(7)
        x = rng.uniform(-1, 1, (BATCH, INPUTS, *extents)).astype(np.float32)
        target = rng.uniform(-1, 1, (BATCH, channels, *extents)).astype(np.float32)
        path, data = context.path(".onnx"), context.path(".npz")
        write(path, weights, extents)
        np.savez(data, x=x, target=target)
        loss, gradients, running = reference(x, target, weights)
        bits = {}
        for options in ({"layouts": "plain"}, {"layouts": "channels_last"}, {"layouts": "blocked"},
                        {"layouts": "plain", "threads_per_stage": 2}, {"layouts": "channels_last", "threads_per_stage": 2},
                        {"layouts": "blocked", "stages": 2}):
            where = f"{channels} channels of {extents} {options}"
            binary = context.compile(path, loss="mse", optimizer="sgd", learning_rate=0.1, **options)
            found, state = context.path(".safetensors"), context.path(".safetensors")
            lines = binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", found, "--save", state)
            checks.check(abs(lines[-1]["loss"] - loss) <= TOLERANCE * loss, f"{where}: loss {lines[-1]['loss']}, expected {loss}")
            tensors = common.read_safetensors(found)
            for name, expected in gradients.items():
                error = common.relative_error(tensors[name], expected)
                checks.check(error <= TOLERANCE, f"{where}: the gradient of '{name}' differs by {error:.1e}")
            tensors = common.read_safetensors(state)
            for name, expected in running.items():
                error = common.relative_error(tensors[name], expected)
                checks.check(error <= TOLERANCE, f"{where}: '{name}' differs by {error:.1e}")
            same = bits.setdefault(options["layouts"], common.tensor_bytes(state))
            checks.check(common.tensor_bytes(state) == same, f"{where}: other bits")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
