#!/usr/bin/env python3
"""Images as bytes, with a mean and a standard deviation: the bits of a training on the numbers that they stand for."""

import subprocess

import common
import numpy as np

SCALE, MEAN, STD = np.float32(1 / 255), np.float32(0.45), np.float32(0.225)
FLAGS = ["--input-scale", f"image={SCALE}", "--input-mean", f"image={MEAN}", "--input-std", f"image={STD}"]


def make_data(context):
    random = np.random.default_rng(4)
    image = random.integers(0, 256, (70, 1, 8, 8)).astype("u1")
    target = random.integers(0, 10, 70)
    paths = []
    for array in image, (image.astype("f4") * SCALE - MEAN) / STD:
        paths.append(context.path(".npz"))
        np.savez(paths[-1], image=array, target=target)
    return paths


def test(context, checks, arguments):
    stored, numbers = make_data(context)
    for precision in "f32", "bf16":
        binary = context.training("lenet", stages=2, microbatches=4, precision=precision)
        weights = ["--weights", common.MODELS / "lenet"]
        results = []
        for data, flags in (stored, FLAGS), (numbers, []):
            snapshot = context.path(".safetensors")
            lines = binary.train(data, *flags, "--epochs", 2, "--save", snapshot, "--eval-data", data, *weights)
            outputs = binary.infer(data, context.path(".npz"), *flags, "--load", snapshot)
            measured = common.run([binary.path, "eval", "--data", data, *flags, "--load", snapshot])
            results.append((common.tensor_bytes(snapshot), [line["loss"] for line in lines if "loss" in line], list(outputs.values())[0].tobytes(),
                            measured))
        checks.check(results[0] == results[1], f"{precision}: bytes train otherwise than the numbers they stand for")
    # Without the flags it says what they would be.
    done = subprocess.run([binary.path, "train", "--data", stored, *weights], capture_output=True, text=True)
    checks.check(done.returncode == 1 and "--input-scale image=" in done.stderr, done.stderr)
    # Processes have to agree.
    train = context.path(".safetensors")
    binary.train(stored, *FLAGS, "--epochs", 2, "--save", train, "--processes", 2, *weights)
    checks.check(common.tensor_bytes(train) == results[0][0], "two processes train otherwise")


if __name__ == "__main__":
    common.main(test, __doc__)
