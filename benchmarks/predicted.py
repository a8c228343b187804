#!/usr/bin/env python3
"""What pp-plan predicts against what the runtime measures, in two stages.

    benchmarks/predicted.py BUILD [--rounds N] [--steps N]

For each model: measures its kernels (pp-profile), plans two ranks under each
schedule with these costs, compiles the plans and times their steps. Schedules
take turns in each round. Prints step time and peak memory, predicted, measured,
and the relative error. Models are those of test/models with larger batches, so
nothing has to be exported.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODELS_FOLDER = pathlib.Path(__file__).resolve().parent.parent / "test" / "models"
SCHEDULES = ("gpipe", "1f1b", "zb-h1")
MICROBATCHES = 4

# Model: (batch, loss)
MODELS = {
    "mlp": (1024, "cross_entropy"),
    "lenet": (1024, "cross_entropy"),
    "resnet18": (128, "cross_entropy"),
    "unet": (64, "mse"),
    "gpt": (64, "cross_entropy"),
    "gpt_tied": (64, "cross_entropy"),
}


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def prepare(tools, folder, model, batch, loss):
    """Plans and compiles; returns {schedule: (plan, binary)}."""
    path = MODELS_FOLDER / model / f"{model}.torchscript.onnx"
    training = [f"--loss={loss}", "--optimizer=sgd", "--learning-rate=0.01", "--momentum=0.9"]
    costs = folder / f"{model}.costs.json"
    run(tools / "pp-profile", path, f"--batch={batch}", f"--microbatches={MICROBATCHES}", *training,
        "--repetitions=25", "-o", costs)
    programs = {}
    for schedule in SCHEDULES:
        plan, binary = folder / f"{model}.{schedule}.json", folder / f"{model}.{schedule}"
        run(tools / "pp-plan", path, f"--batch={batch}", f"--microbatches={MICROBATCHES}", *training,
            f"--cost-file={costs}", "--min-ranks=2", "--max-stages-per-rank=1", f"--schedules={schedule}",
            "--checkpoints=never", "-o", plan)
        run(tools / "pp-compile", path, *training, f"--cost-file={costs}", f"--plan={plan}", "-o", binary)
        programs[schedule] = (json.loads(plan.read_text()), binary)
    return programs


def measure(binary, steps):
    return json.loads(run(binary, "bench", "--steps", steps, "--json"))["median_step_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--only", action="append")
    arguments = parser.parse_args()
    tools = arguments.build.resolve() / "bin"
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; {MICROBATCHES} micro-batches, 2 ranks")
    form = "{:<10} {:<7} {:>12} {:>12} {:>8}   {:>24} {:>24} {:>8}"
    print(form.format("model", "", "predicted ms", "measured ms", "error", "predicted bytes", "allocated bytes", "error"))
    errors = []
    with tempfile.TemporaryDirectory() as name:
        for model, (batch, loss) in MODELS.items():
            if arguments.only and model not in arguments.only:
                continue
            programs = prepare(tools, pathlib.Path(name), model, batch, loss)
            times = {schedule: [] for schedule in programs}
            for _ in range(arguments.rounds):
                for schedule, (_, binary) in programs.items():
                    times[schedule].append(measure(binary, arguments.steps))
            for schedule, (plan, binary) in programs.items():
                predicted = plan["predicted"]["step_seconds"]
                measured = statistics.median(times[schedule])
                compiled = json.loads(run(binary, "info", "--plan", "--mode", "train"))
                memory = [sum(compiled["stages"][s]["memory_bytes"] for s in rank["stages"]) for rank in compiled["ranks"]]
                expected = plan["predicted"]["peak_bytes"]
                errors.append(abs(predicted / measured - 1))
                worst = max((p / m - 1 for p, m in zip(expected, memory)), key=abs)
                print(form.format(
                    model, schedule, f"{predicted * 1e3:.2f}", f"{measured * 1e3:.2f}", f"{100 * (predicted / measured - 1):+.1f} %",
                    "/".join(map(str, expected)), "/".join(map(str, memory)), f"{100 * worst:+.1f} %"), flush=True)
    print(f"relative error of the step time: median {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %")


if __name__ == "__main__":
    main()
