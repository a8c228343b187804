#!/usr/bin/env python3
"""A training starts from any weights, and `eval` measures them.

`train --load` takes the weights of a snapshot of another batch, number of stages,
loss and optimizer, and the optimizer's state where it is the same optimizer: then
the next steps have the bits of a training that went on. Metrics are those of
NumPy.
"""

import json
import subprocess

import numpy as np

import common
from common import MODELS

TRAIN, TEST = MODELS / "digits" / "digits-train.npz", MODELS / "digits" / "digits-test.npz"


def failure(binary, *arguments):
    done = subprocess.run([str(a) for a in (binary.path, *arguments)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def check_load(context, checks):
    options = {"loss": "cross_entropy", "optimizer": "adamw", "learning_rate": 1e-3, "microbatches": 2}
    model = common.model_file("lenet")
    one = context.compile(model, batch=8, stages=1, **options)
    four = context.compile(model, batch=8, stages=4, **options)
    # All steps have the same data.
    data = context.path(".npz")
    with np.load(TRAIN) as arrays:
        np.savez(data, **{name: array[:8] for name, array in arrays.items()})
    steps = ["--no-shuffle", "--epochs", 9]
    half, whole, rest = (context.path(".safetensors") for _ in range(3))
    one.train(data, *steps, "--steps", 2, "--save", half)
    one.train(data, *steps, "--steps", 5, "--save", whole)
    lines = four.train(data, *steps, "--steps", 3, "--load", half, "--save", rest)
    checks.equal([line["step"] for line in lines if "loss" in line], [1, 2, 3], "steps of a new training")
    checks.check(common.tensor_bytes(rest) == common.tensor_bytes(whole), "with the optimizer's state: other bits than a training that goes on")
    # And from there again.
    again, twice = context.path(".safetensors"), context.path(".safetensors")
    one.train(data, *steps, "--steps", 1, "--load", rest, "--save", again)
    one.train(data, *steps, "--steps", 6, "--save", twice)
    checks.check(common.tensor_bytes(again) == common.tensor_bytes(twice), "loaded twice: other bits")
    # A resumed one knows of the steps before.
    resumed = context.path(".safetensors")
    four.train(data, *steps, "--steps", 4, "--resume", rest, "--save", resumed)
    checks.check(common.tensor_bytes(resumed) == common.tensor_bytes(twice), "resumed after --load: other bits")
    # Another batch and optimizer: the weights alone.
    other = context.compile(model, batch=16, stages=2, loss="cross_entropy", optimizer="sgd", learning_rate=0.1, microbatches=4)
    start = context.path(".safetensors")
    other.train(TRAIN, "--steps", 0, "--load", half, "--save", start)
    weights = lambda path: {n: t for n, t in common.tensor_bytes(path).items() if "#" not in n}  # noqa: E731
    checks.check(weights(start) == weights(half), "another optimizer: other weights")
    code, text = failure(other, "train", "--data", TRAIN, "--steps", 1, "--load", half)
    checks.check(code == 0 and "#momentum'" in text and "anew" in text, f"another optimizer: the log does not say so: {text}")
    code, text = failure(one, "train", "--data", data, "--steps", 1, "--load", half)
    checks.check(code == 0 and "state after 2 steps" in text, f"the same optimizer: the log does not say so: {text}")
    # Files of other tools.
    tensors = {n: t for n, t in common.read_safetensors(half).items() if n and "#" not in n}
    plain = context.path(".safetensors")
    common.write_safetensors(plain, {**tensors, "more": np.zeros(3, np.float32)})
    code, text = failure(one, "train", "--data", data, "--steps", 0, "--load", plain, "--save", start)
    checks.check(code == 0 and "no snapshot" in text and "1 tensors" in text, f"a plain file: {text}")
    checks.check(weights(start) == weights(half), "a plain file: other weights")
    first = sorted(tensors)[0]
    for what, changed, fragment in (
        ("missing", {n: t for n, t in tensors.items() if n != first}, "is missing"),
        ("shape", {**tensors, first: np.zeros(3, np.float32)}, "[3]"),
        ("NaN", {**tensors, first: np.full_like(tensors[first], np.nan)}, "NaN"),
    ):
        common.write_safetensors(plain, changed)
        code, text = failure(one, "train", "--data", data, "--steps", 1, "--load", plain)
        checks.check(code == 1 and first in text and fragment in text, f"{what}: code {code}: {text}")
    code, text = failure(one, "train", "--data", data, "--load", half, "--resume", half)
    checks.equal(code, 2, "--load and --resume")
    return one, half


def check_eval(context, checks, binary, snapshot):
    arrays = np.load(TEST)
    target = arrays["target"]
    (logits,) = binary.infer(TEST, context.path(".npz"), "--load", snapshot).values()
    logits = logits.astype(np.float64)
    rank = np.argsort(-logits, axis=1, kind="stable")
    best = rank[:, 0]
    log = logits - logits.max(1, keepdims=True)
    log -= np.log(np.exp(log).sum(1, keepdims=True))
    entropy = -log[np.arange(len(target)), target].mean()
    f1 = []
    for c in range(logits.shape[1]):
        right = np.sum((best == c) & (target == c))
        total = np.sum(best == c) + np.sum(target == c)
        if total:
            f1.append(2 * right / total)
    expected = {
        "accuracy": np.mean(best == target), "top3": np.mean((rank[:, :3] == target[:, None]).any(1)), "f1": np.mean(f1),
        "cross_entropy": entropy, "perplexity": np.exp(entropy),
    }  # fmt: skip
    names = ",".join(expected)
    text = common.run([binary.path, "eval", "--data", TEST, "--load", snapshot, "--metrics", names])
    found = json.loads(text)
    checks.equal(found.pop("samples"), len(target), "samples")
    checks.equal(sorted(found), sorted(expected), "metrics")
    for name, value in expected.items():
        checks.check(abs(found[name] - value) <= 1e-5 * value, f"{name}: {found[name]}, expected {value}")
    lines = binary.train(TRAIN, "--steps", 1, "--eval-data", TEST, "--metrics", "top2,perplexity")
    checks.equal(sorted(lines[-1]), ["epoch", "perplexity", "step", "top2"], "what train prints")
    (line,) = common.run([binary.path, "eval", "--data", TEST, "--load", snapshot]).splitlines()
    checks.check(abs(json.loads(line)["accuracy"] - expected["accuracy"]) < 1e-5, f"without --metrics: {line}")
    for metric, fragment in (("mse", "not for targets"), ("acuracy", "there is no"), ("top0", "there is no"), ("topx", "there is no")):
        code, text = failure(binary, "eval", "--data", TEST, "--metrics", metric)
        checks.check(code == 2 and fragment in text, f"{metric}: code {code}: {text}")
    code, text = failure(binary, "eval", "--data", TEST, "--target", "none")
    checks.check(code == 1 and "none" in text, f"--target none: {text}")
    code, text = failure(binary, "train", "--data", TRAIN, "--metrics", "accuracy")
    checks.check(code == 2 and "--eval-data" in text, f"--metrics alone: {text}")


def test(context, checks, arguments):
    binary, snapshot = check_load(context, checks)
    check_eval(context, checks, binary, snapshot)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])
