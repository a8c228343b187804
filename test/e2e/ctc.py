#!/usr/bin/env python3
"""--loss=ctc trains sequences without an alignment: as the sum over all paths says,
and as PyTorch's CTCLoss, with the same bits however the model is cut."""

import itertools
import os
import pathlib
import subprocess
import sys

import numpy as np

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, model, node, opset, tensor, value  # noqa: E402

BATCH, SAMPLES, EPOCHS, RATE = 4, 10, 3, 0.5  # the last batch of an epoch has two samples
WIDTH, CLASSES = 3, 4
TOLERANCE = 1e-5  # relative, single precision against double
TORCH = """
import sys, numpy as np, torch
data, out = dict(np.load(sys.argv[1])), sys.argv[2]
batch, epochs, rate, blank = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])
p = {n[2:]: torch.tensor(a, dtype=torch.float64, requires_grad=True) for n, a in data.items() if n.startswith("p.")}
optimizer, losses = torch.optim.SGD(p.values(), lr=rate), []
for _ in range(epochs):
    for first in range(0, len(data["x"]), batch):
        x, target, frames = (torch.tensor(data[n][first:first + batch]) for n in ("x", "target", "frames"))
        y = torch.tanh(x.double() @ p["hidden.weight"]) @ p["weight"] + p["bias"]
        lengths = (target >= 0).sum(1)
        loss = torch.nn.CTCLoss(blank=blank)(y.log_softmax(2).transpose(0, 1), target.clamp(min=0), frames, lengths)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        losses.append(loss.item())
np.savez(out, losses=losses, **{n: a.detach().numpy() for n, a in p.items()})
"""


def make_parameters():
    random = np.random.default_rng(7)
    shapes = {"hidden.weight": (WIDTH, 5), "weight": (5, CLASSES), "bias": (CLASSES,)}
    return {name: (random.standard_normal(shape) * 0.7).astype(np.float32) for name, shape in shapes.items()}


def make_data(frames, length, blank):
    """Labels of 0 to `length`, some of them twice in a row."""
    random = np.random.default_rng(8)
    names = [c for c in range(CLASSES) if c != blank]
    target = np.full((SAMPLES, length), -1)
    for sample in range(SAMPLES):
        count = [0, 1, length][sample] if sample < 3 else random.integers(1, length + 1)
        target[sample, :count] = random.choice(names, count)
    target[2] = names[1]
    # A label after itself needs a frame in between.
    needed = (target >= 0).sum(1) + ((target[:, 1:] == target[:, :-1]) & (target[:, 1:] >= 0)).sum(1)
    return {"x": random.standard_normal((SAMPLES, frames, WIDTH)).astype(np.float32), "target": target,
            "frames": random.integers(np.minimum(needed, frames), frames + 1)}


def write_model(path, parameters, frames):
    nodes = [node("MatMul", ["x", "hidden.weight"], ["h"]), node("Tanh", ["h"], ["t"]), node("MatMul", ["t", "weight"], ["z"]),
             node("Add", ["z", "bias"], ["y"])]
    constants = [tensor(name, list(p.shape), raw=p.tobytes()) for name, p in parameters.items()]
    body = graph(nodes, inputs=[value("x", [BATCH, frames, WIDTH])], outputs=[value("y", [BATCH, frames, CLASSES])],
                 initializers=constants)
    path.write_bytes(model(body, opsets=[opset(17)]))


def ctc(logits, target, frames, blank):
    """The mean of the samples' losses, and its gradient, from all paths there are."""
    total, gradient = 0, np.zeros_like(logits)
    p = np.exp(logits - logits.max(2, keepdims=True))
    p /= p.sum(2, keepdims=True)
    for n, labels in enumerate(target):
        labels = [c for c in labels if c >= 0]
        sum_, shares = 0, np.zeros_like(logits[n])
        for path in itertools.product(range(CLASSES), repeat=frames[n]):
            merged = [c for i, c in enumerate(path) if (i == 0 or c != path[i - 1]) and c != blank]
            if merged != labels:
                continue
            steps = np.arange(frames[n])
            probability = p[n][steps, path].prod()
            sum_ += probability
            shares[steps, path] += probability
        weight = 1 / (max(len(labels), 1) * len(target))
        total -= np.log(sum_) * weight
        gradient[n, :frames[n]] = (p[n] - shares / sum_)[:frames[n]] * weight
    return total, gradient


def train_by_paths(parameters, data, blank):
    p = {name: array.astype(np.float64) for name, array in parameters.items()}
    losses = []
    for _ in range(EPOCHS):
        for first in range(0, SAMPLES, BATCH):
            x, target, frames = (data[name][first:first + BATCH] for name in ("x", "target", "frames"))
            t = np.tanh(x @ p["hidden.weight"])
            loss, gradient = ctc(t @ p["weight"] + p["bias"], target, frames, blank)
            losses.append(loss)
            of_hidden = gradient @ p["weight"].T * (1 - t * t)
            p["weight"] -= RATE * np.einsum("ntk,ntc->kc", t, gradient)
            p["bias"] -= RATE * gradient.sum((0, 1))
            p["hidden.weight"] -= RATE * np.einsum("ntd,ntk->dk", x, of_hidden)
    return losses, p


def train_in_torch(context, parameters, data, blank):
    archive, out = context.path(".npz"), context.path(".npz")
    np.savez(archive, **data, **{"p." + name: array for name, array in parameters.items()})
    numbers = [str(number) for number in (BATCH, EPOCHS, RATE, blank)]
    done = subprocess.run([os.environ["PP_PYTHON"], "-c", TORCH, archive, out, *numbers], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise common.Failure(f"the reference failed:\n{done.stderr[-2000:]}")
    arrays = dict(np.load(out))
    return arrays.pop("losses"), arrays


def check_numbers(context, checks, frames, length, blank, reference):
    parameters, data = make_parameters(), make_data(frames, length, blank)
    where = f"{frames} frames, {length} labels, blank {blank}"
    model_file = context.path(".onnx")
    write_model(model_file, parameters, frames)
    losses, expected = reference(parameters, data, blank)
    archive, first = context.path(".npz"), {}
    np.savez(archive, **data)
    flags = {"loss": "ctc", "ctc_blank": blank, "ctc_target_length": length, "ctc_frames": None, "learning_rate": RATE}
    for options, more in (
        ({"stages": 1}, []), ({"stages": 2, "schedule": "1f1b"}, []), ({"stages": 2, "schedule": "zb-h1"}, ["--processes", 2]),
        ({"stages": 2, "replicas": 2}, []), ({"stages": 1, "threads_per_stage": 2}, []), ({"stages": 1, "checkpoint": "always"}, []),
        # A GPU, whose kernels the processor runs.
        ({"stages": 1, "target": "mock"}, ["--device", "mock"]), ({"stages": 2, "target": "mock"}, ["--device", "mock"]),
    ):
        target = options.get("target", "cpu")
        if target == "cpu":
            options = options | {"gradient_lanes": 2}
        binary = context.compile(model_file, batch=BATCH, microbatches=2, **flags, **options)
        snapshot = context.path(".safetensors")
        lines = binary.train(archive, "--no-shuffle", "--epochs", EPOCHS, "--log-bits", "--save", snapshot, *more)
        bits = common.tensor_bytes(snapshot), [line["loss_bits"] for line in lines]
        if target not in first:
            first[target] = bits
            found = common.read_safetensors(snapshot)
            for name, array in expected.items():
                error = common.relative_error(found[name] - parameters[name], array - parameters[name])
                checks.check(error <= TOLERANCE, f"{where}, {target}: {name} is off by {error:.2g}")
            error = common.relative_error(np.array([line["loss"] for line in lines]), np.array(losses))
            checks.check(error <= TOLERANCE, f"{where}, {target}: losses are off by {error:.2g}")
        checks.check(bits == first[target], f"{where}: {options} {more}: other bits")


def check_impossible(context, checks):
    """More labels than frames: the loss is infinite, and the training says so."""
    parameters, data = make_parameters(), make_data(5, 3, 0)
    data["frames"][5] = 0
    model_file, archive = context.path(".onnx"), context.path(".npz")
    write_model(model_file, parameters, 5)
    np.savez(archive, **data)
    binary = context.compile(model_file, batch=BATCH, loss="ctc", ctc_target_length=3, ctc_frames=None)
    done = subprocess.run([binary.path, "train", "--data", archive, "--epochs", "1", "--no-shuffle"], capture_output=True, text=True)
    checks.check(done.returncode == 1 and "step 2: the loss is inf" in done.stderr, f"infinite: {done.stderr}")


def check_refused(context, checks):
    parameters = make_parameters()
    model_file = context.path(".onnx")
    write_model(model_file, parameters, 5)
    for options, message in [
        ({"loss": "ctc", "ctc_blank": 4}, "the output has 4 classes, so the blank one is none of 0 to 3: 4"),
        ({"loss": "mse", "ctc_blank": 1}, "--ctc-blank: is for --loss=ctc"),
        ({"loss": "ctc", "ctc_target_length": -1}, "--ctc-target-length: must be a positive number"),
    ]:
        try:
            context.compile(model_file, batch=BATCH, **options)
            checks.check(False, f"{options} was compiled")
        except common.Failure as failure:
            checks.check(message in str(failure), f"{options}: {failure}")


def test(context, checks, arguments):
    for blank in (0, 3):
        check_numbers(context, checks, 5, 3, blank, train_by_paths)
    if "PP_PYTHON" in os.environ:
        check_numbers(context, checks, 40, 12, 2, lambda *of: train_in_torch(context, *of))
    check_impossible(context, checks)
    check_refused(context, checks)


if __name__ == "__main__":
    common.main(test, __doc__)
