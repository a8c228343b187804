#!/usr/bin/env python3
"""What it costs to run the stages in processes instead of threads.

    benchmarks/processes.py BUILD [--rounds N] [--steps N] [--only MODEL]

For each model of test/models in two stages: the median training step in one
process with two threads, and in two processes with each transport. Contenders
take turns in each round; prints the median over the rounds and its ratio to
threads.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODELS_FOLDER = pathlib.Path(__file__).resolve().parent.parent / "test" / "models"
CONTENDERS = {
    "threads": [],
    "peer": ["--processes", "2", "--transport", "peer"],
    "host-staged": ["--processes", "2", "--transport", "host-staged"],
}
# Model: (batch, loss)
MODELS = {"lenet": (32, "cross_entropy"), "gpt": (16, "cross_entropy"), "unet": (16, "mse"), "resnet18": (32, "cross_entropy")}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def measure(program, weights, steps, arguments):
    """Seconds of the median step, and bytes that cross the border in a step."""
    result = json.loads(run(program, "bench", "--mode", "train", "--weights", weights, "--steps", steps, "--json", *arguments))
    sent = sum(channel["sent_bytes"] for channel in result["channels"])
    # Traffic counts the warm-up too.
    return result["median_step_seconds"], sent / (steps + 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--only", choices=MODELS)
    arguments = parser.parse_args()
    print(f"{'model':<10} {'KB/step':>8}" + "".join(f" {name + ' ms':>15} {'ratio':>6}" for name in CONTENDERS))
    with tempfile.TemporaryDirectory() as folder:
        for model in [arguments.only] if arguments.only else MODELS:
            batch, loss = MODELS[model]
            program = pathlib.Path(folder) / model
            run(arguments.build / "bin" / "pp-compile", MODELS_FOLDER / model / f"{model}.torchscript.onnx", f"--loss={loss}",
                f"--batch={batch}", "--microbatches=4", "--stages=2", "--schedule=1f1b", "-o", program)
            times = {name: [] for name in CONTENDERS}
            for _ in range(arguments.rounds):
                for name, flags in CONTENDERS.items():
                    seconds, sent = measure(program, MODELS_FOLDER / model, arguments.steps, flags)
                    times[name].append(seconds)
            medians = {name: statistics.median(values) for name, values in times.items()}
            print(f"{model:<10} {sent / 1024:>8.0f}" + "".join(
                f" {1e3 * medians[name]:>15.3f} {medians[name] / medians['threads']:>6.2f}" for name in CONTENDERS), flush=True)


if __name__ == "__main__":
    main()
