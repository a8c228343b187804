"""Models of f64 infer and train with the precision of f64.

    doubles.py BUILD

The outputs of a model with every convolution, pool and norm are those of NumPy, and so are
the losses, the gradients, the parameters and the optimizer's state of a training.
"""

import itertools
import pathlib
import sys

import numpy as np

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, integer, integers, model, node, opset, tensor, untyped, value  # noqa: E402

DOUBLE = 11
BATCH = 4
EPSILON = 1e-5


def parameters():
    rng = np.random.default_rng(1)
    shapes = {
        "conv": (6, 2, 3, 2), "bias": (6,), "scale": (6,), "shift": (6,), "turned": (6, 2, 3, 3), "linear": (64, 3),
    }  # fmt: skip
    return {name: rng.uniform(-1, 1, shape) for name, shape in shapes.items()}


def write(path, weights):
    window = {"kernel_shape": (3, 2), "strides": (2, 1), "dilations": (1, 2), "pads": (1, 0, 2, 1), "group": 2}
    statistics = {"mean": np.zeros(6), "variance": np.ones(6)}
    constants = [tensor(name, list(array.shape), raw=array.tobytes(), dtype=DOUBLE) for name, array in (weights | statistics).items()]

    def attributes(given):
        return [integer(name, v) if isinstance(v, int) else integers(name, *v) for name, v in given.items()]

    nodes = [
        node("Conv", ["x", "conv", "bias"], ["c"], attributes=attributes(window)),
        node("BatchNormalization", ["c", "scale", "shift", "mean", "variance"], ["n"]),
        node("ConvTranspose", ["n", "turned"], ["t"], attributes=attributes({"strides": (2, 1), "pads": (1, 0, 0, 1), "group": 2})),
        node("MaxPool", ["t"], ["m"], attributes=attributes({"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 1, 1, 0)})),
        node("AveragePool", ["m"], ["a"], attributes=attributes({"kernel_shape": (2, 2), "pads": (1, 1, 0, 0)})),
        node("Flatten", ["a"], ["f"]),
        node("MatMul", ["f", "linear"], ["y"]),
    ]
    body = graph(nodes, inputs=[value("x", [BATCH, 4, 6, 8], DOUBLE)], outputs=[untyped("y")], initializers=constants)
    path.write_bytes(model(body, opsets=[opset(17)]))


def windows(x, kernel, strides, dilations, low, high, fill):
    """What each element of the kernel sees: kernel x N x C x positions."""
    x = np.pad(x, ((0, 0), (0, 0), (low[0], high[0]), (low[1], high[1])), constant_values=fill)
    counts = [(x.shape[2 + i] - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(2)]
    return np.stack([
        x[:, :, i * dilations[0] :: strides[0], j * dilations[1] :: strides[1]][:, :, : counts[0], : counts[1]]
        for i, j in itertools.product(range(kernel[0]), range(kernel[1]))
    ])  # fmt: skip


def reference(x, w):
    seen = windows(x, (3, 2), (2, 1), (1, 2), (1, 0), (2, 1), 0)
    k, n, _, height, width = seen.shape
    seen = seen.reshape(k, n, 2, 2, height, width)
    kernel = w["conv"].reshape(2, 3, 2, k)
    c = np.einsum("kngihw,goik->ngohw", seen, kernel).reshape(n, 6, height, width) + w["bias"][:, None, None]
    normal = c / np.sqrt(1 + EPSILON) * w["scale"][:, None, None] + w["shift"][:, None, None]
    full = np.zeros((n, 4, (height - 1) * 2 + 3, width - 1 + 3))
    for g, i, j in itertools.product(range(2), range(3), range(3)):
        part = np.einsum("nihw,io->nohw", normal[:, 3 * g : 3 * g + 3], w["turned"][3 * g : 3 * g + 3, :, i, j])
        full[:, 2 * g : 2 * g + 2, i : i + 2 * height : 2, j : j + width] += part
    turned = full[:, :, 1:, : full.shape[3] - 1]
    pooled = windows(turned, (3, 2), (2, 2), (1, 1), (1, 1), (1, 0), -np.inf).max(0)
    sums = windows(pooled, (2, 2), (1, 1), (1, 1), (1, 1), (0, 0), 0).sum(0)
    inside = windows(np.ones_like(pooled), (2, 2), (1, 1), (1, 1), (1, 1), (0, 0), 0).sum(0)
    return (sums / inside).reshape(n, -1) @ w["linear"]


CLASSES, SAMPLES, STEPS = 5, 8, 4
LEARNING_RATE, DECAY, BETAS, EPSILON_OF_ADAM = 1e-2, 0.1, (0.9, 0.999), 1e-8


def write_classifier(path, weights):
    nodes = [
        node("Gemm", ["x", "first.weight", "first.bias"], ["a"]),
        node("Tanh", ["a"], ["h"]),
        node("Gemm", ["h", "last.weight", "last.bias"], ["y"]),
    ]
    constants = [tensor(name, list(array.shape), raw=array.tobytes(), dtype=DOUBLE) for name, array in weights.items()]
    body = graph(nodes, inputs=[value("x", [SAMPLES, 6], DOUBLE)], outputs=[untyped("y")], initializers=constants)
    path.write_bytes(model(body, opsets=[opset(17)]))


def differentiate(w, x, labels):
    """The mean cross entropy and its gradients."""
    h = np.tanh(x @ w["first.weight"] + w["first.bias"])
    logits = h @ w["last.weight"] + w["last.bias"]
    scores = np.exp(logits - logits.max(1, keepdims=True))
    shares = scores / scores.sum(1, keepdims=True)
    loss = -np.log(shares[np.arange(len(x)), labels]).mean()
    d = (shares - np.eye(CLASSES)[labels]) / len(x)
    back = d @ w["last.weight"].T * (1 - h * h)
    return loss, {"first.weight": x.T @ back, "first.bias": back.sum(0), "last.weight": h.T @ d, "last.bias": d.sum(0)}


def train(weights, x, labels):
    """AdamW, as torch.optim has it: the losses, the first gradients, and parameters with their states."""
    w = {name: array.copy() for name, array in weights.items()}
    means, squares = ({name: np.zeros_like(array) for name, array in w.items()} for _ in range(2))
    losses, first = [], None
    for step in range(1, STEPS + 1):
        loss, gradients = differentiate(w, x, labels)
        losses.append(loss)
        first = first or gradients
        for name, g in gradients.items():
            means[name] = BETAS[0] * means[name] + (1 - BETAS[0]) * g
            squares[name] = BETAS[1] * squares[name] + (1 - BETAS[1]) * g * g
            root = np.sqrt(squares[name]) / np.sqrt(1 - BETAS[1] ** step) + EPSILON_OF_ADAM
            w[name] = w[name] * (1 - LEARNING_RATE * DECAY) - LEARNING_RATE / (1 - BETAS[0] ** step) * means[name] / root
    states = {f"{name}#exp_avg": array for name, array in means.items()} | {f"{name}#exp_avg_sq": array for name, array in squares.items()}
    return losses, first, w | states


def test_training(context, checks):
    rng = np.random.default_rng(3)
    shapes = {"first.weight": (6, 16), "first.bias": (16,), "last.weight": (16, CLASSES), "last.bias": (CLASSES,)}
    weights = {name: rng.uniform(-1, 1, shape) for name, shape in shapes.items()}
    x, labels = rng.uniform(-1, 1, (SAMPLES, 6)), rng.integers(0, CLASSES, SAMPLES)
    path, data = context.path(".onnx"), context.path(".npz")
    write_classifier(path, weights)
    np.savez(data, x=x, target=labels)
    losses, first, expected = train(weights, x, labels)

    settings = {"loss": "cross_entropy", "optimizer": "adamw", "learning_rate": LEARNING_RATE, "weight_decay": DECAY, "microbatches": 4}
    bits = {}
    for name, options in {
        "one stage": {"stages": 1},
        "two stages": {"stages": 2},
        "threads": {"stages": 1, "threads_per_stage": 2},
        "replicas": {"stages": 2, "replicas": 2},
        "loss scale": {"stages": 1, "loss_scale": "dynamic"},
        "no search": {"stages": 1, "loss_scale": "none"},
        "lanes": {"stages": 1, "gradient_lanes": 4},
        "lanes of replicas": {"stages": 2, "replicas": 2, "gradient_lanes": 4},
    }.items():
        binary = context.compile(path, **settings, **options)
        gradients, snapshot = context.path(".safetensors"), context.path(".safetensors")
        binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", gradients)
        lines = binary.train(data, "--no-shuffle", "--steps", STEPS, "--save", snapshot)
        found = [line["loss"] for line in lines if "loss" in line][:STEPS]
        checks.check(np.allclose(found, losses, rtol=1e-13, atol=0), f"{name}: losses {found}, expected {losses}")
        for path_of, wanted in (gradients, first), (snapshot, expected):
            tensors = {n: t for n, t in common.read_safetensors(path_of).items() if n is not None}
            checks.equal(set(tensors), set(wanted), f"{name}: names")
            for tensor_name, array in wanted.items():
                checks.equal(tensors[tensor_name].dtype, np.float64, f"{name}: the type of {tensor_name}")
                error = common.relative_error(tensors[tensor_name], array)
                checks.check(error < 1e-13, f"{name}: {tensor_name} is off by {error:.1e}")
        bits[name] = common.tensor_bytes(snapshot)
        resumed = context.path(".safetensors")
        binary.train(data, "--no-shuffle", "--steps", STEPS // 2, "--save", resumed)
        binary.train(data, "--no-shuffle", "--steps", STEPS, "--resume", resumed, "--save", resumed)
        checks.check(common.tensor_bytes(resumed) == bits[name], f"{name}: another training after a resume")
    for name in set(bits) - {"replicas", "loss scale", "lanes", "lanes of replicas"}:
        checks.check(bits[name] == bits["one stage"], f"{name}: other bits than one stage")
    checks.check(bits["lanes of replicas"] == bits["lanes"], "replicas change bits in spite of lanes")


def train_late(weights, x, target, rate, parts, correction):
    """Gradient descent on |x a b c - target|^2 with a and b on the first of two stages and c on the second, without a flush
    and with one weight version: PipeMare with its correction of the weights in backward passes (T2)."""
    w = dict(weights)
    before, delay = dict(weights), 1 / parts
    changes = {name: np.zeros_like(weights[name]) for name in ("a", "b")}
    keep = correction ** (1 / delay)
    for _ in range(STEPS):
        sums = {name: np.zeros_like(array) for name, array in w.items()}
        for k, (part, wanted) in enumerate(zip(np.split(x, parts), np.split(target, parts))):
            # The first stage is one micro-batch ahead of the updates.
            early = before if k == 0 else w
            h = part @ early["a"]
            g = h @ early["b"]
            d = 2 * (g @ w["c"] - wanted) / target.size
            back = d @ w["c"].T
            sums["c"] += g.T @ d
            sums["b"] += h.T @ back
            sums["a"] += part.T @ (back @ (w["b"] - delay * changes["b"]).T)
        before = dict(w)
        w = {name: array - rate * sums[name] for name, array in w.items()}
        for name, old in changes.items():
            changes[name] = keep * old + (1 - keep) * (w[name] - before[name])
    return w


def test_late_training(context, checks):
    rng = np.random.default_rng(4)
    weights = {name: rng.uniform(-1, 1, shape) for name, shape in {"a": (6, 5), "b": (5, 4), "c": (4, 3)}.items()}
    x, target = rng.uniform(-1, 1, (SAMPLES, 6)), rng.uniform(-1, 1, (SAMPLES, 3))
    path, data = context.path(".onnx"), context.path(".npz")
    nodes = [node("MatMul", [source, name], [result], name=name) for source, name, result in (("x", "a", "h"), ("h", "b", "g"), ("g", "c", "y"))]
    constants = [tensor(name, list(array.shape), raw=array.tobytes(), dtype=DOUBLE) for name, array in weights.items()]
    body = graph(nodes, inputs=[value("x", [SAMPLES, 6], DOUBLE)], outputs=[untyped("y")], initializers=constants)
    path.write_bytes(model(body, opsets=[opset(17)]))
    np.savez(data, x=x, target=target)
    rate, correction = 0.3, 0.135
    plain = train_late(weights, x, target, rate, 2, 1)
    expected = train_late(weights, x, target, rate, 2, correction)
    checks.check(common.relative_error(expected["a"], plain["a"]) > 1e-6, "the correction changes nothing")
    binary = context.compile(
        path, loss="mse", optimizer="sgd", learning_rate=rate, microbatches=2, stages=2, cuts="c", schedule="pipemare",
        allow_stale=None, correct_discrepancy=correction,
    )
    snapshot = context.path(".safetensors")
    binary.train(data, "--no-shuffle", "--steps", STEPS, "--epochs", STEPS, "--save", snapshot)
    found = common.read_safetensors(snapshot)
    for name, wanted in expected.items():
        error = common.relative_error(found[name], wanted)
        checks.check(found[name].dtype == np.float64 and error < 1e-13, f"corrected: {name} is off by {error:.1e}")


def test(context, checks, arguments):
    test_training(context, checks)
    test_late_training(context, checks)
    weights = parameters()
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (BATCH, 4, 6, 8))
    path = context.path(".onnx")
    write(path, weights)
    archive = context.path(".npz")
    np.savez(archive, x=x)
    got = context.compile(path).infer(archive, context.path(".npz"))["y"]
    checks.equal(got.dtype, np.float64, "the type of the output")
    worst = np.abs(got - reference(x, weights)).max()
    checks.check(worst < 1e-12, f"inference differs from NumPy by {worst}")

    for options in {"stages": 2}, {"threads_per_stage": 2}:
        other = context.compile(path, **options).infer(archive, context.path(".npz"))["y"]
        checks.check(np.array_equal(other, got), f"the output with {options} has other bits")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
