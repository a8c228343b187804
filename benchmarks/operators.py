#!/usr/bin/env python3
"""A training step of single operators and small blocks, against PyTorch on as many cores.

Each is behind a product with a weight, so that its gradient is computed, and before a mean of squares. What takes
longer than PyTorch comes first in the end.
"""

import argparse
import contextlib
import pathlib
import re
import statistics
import subprocess
import sys
import warnings

import torch
from torch import nn

import other_models
import vs_pytorch
from operator_modules import operators

OUTPUT = vs_pytorch.OUTPUT / "operators"


def compile_(arguments, name, module, inputs):
    """Returns the program."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    path = OUTPUT / f"{re.sub('[^a-z0-9]+', '-', name.lower())}.onnx"
    if not path.exists():
        torch.onnx.export(module, (inputs,), str(path), dynamo=True, optimize=False, input_names=["x"], output_names=["y"], verbose=False)
    program = path.with_suffix("")
    flags = ["--loss=mse", "--optimizer=sgd", "--learning-rate=1e-9", f"--precision={arguments.precision}", f"--threads-per-stage={arguments.cores}"]
    command = [pathlib.Path(arguments.build) / "bin" / "pp-compile", path, *flags, "-o", program]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-300:])
    return program


def stepper(arguments, module, inputs):
    optimizer = torch.optim.SGD(module.parameters(), 1e-9)
    is_short = arguments.precision == "bf16"

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16) if is_short else contextlib.nullcontext():
            output = module(inputs)
        nn.functional.mse_loss(output.float(), torch.zeros(output.shape)).backward()
        optimizer.step()

    return step


def measure(arguments, name, module, inputs):
    program = compile_(arguments, name, module.train(), inputs)
    step = stepper(arguments, module, inputs)
    turns = []
    for _ in range(arguments.rounds):
        turns.append((other_models.ours(arguments, program, arguments.steps), other_models.theirs(step, arguments.steps)))
    program.unlink()
    return [statistics.median(turn) for turn in zip(*turns, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=vs_pytorch.ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="of a turn")
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--cores", type=int, default=1, help="threads of either side")
    parser.add_argument("pattern", nargs="?", default="", help="a regular expression for names; all without one")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(arguments.cores)
    print(f"{arguments.cores} cores of {vs_pytorch.processor()}, PyTorch {torch.__version__}, {arguments.precision}; ms")
    found = {}
    for name, module, inputs in operators():
        if not re.search(arguments.pattern, name):
            continue
        try:
            own, other = measure(arguments, name, module, inputs)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        found[name] = other / own
        print(f"{name:<60} {other / own:6.2f} x  ({1e3 * own:.2f}, PyTorch {1e3 * other:.2f})", flush=True)
    slower = sorted((ratio, name) for name, ratio in found.items() if ratio < 1)
    print(f"{len(found)} measured, {len(slower)} of them slower than PyTorch" + "".join(f"\n  {ratio:.2f} x {name}" for ratio, name in slower))


if __name__ == "__main__":
    main()
