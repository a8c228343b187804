#!/usr/bin/env python3
"""What pp-plan predicts against what the runtime measures, in two stages.

    benchmarks/predicted.py BUILD [--rounds N] [--seconds S] [--share X] [--only MODEL]

For each model and schedule, in each round: measures the kernels under this
schedule (pp-profile), plans two ranks with these costs, compiles the plan and
times its steps. Profile and steps are measured one right after the other, while
nobody else uses the processor, since a shared machine is not as fast now as it
was a minute ago. Prints the medians over the rounds of the predicted and the
measured step time and of the relative error, and predicted against allocated
bytes. Models are those of test/models with larger batches, so nothing has to be
exported.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import quiet

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


def predict_and_measure(tools, folder, model, schedule, steps, share):
    """One round of as many steps: predicted and measured seconds, the plan, and
    the binary."""
    batch, loss = MODELS[model]
    path = MODELS_FOLDER / model / f"{model}.torchscript.onnx"
    training = [f"--loss={loss}", "--optimizer=sgd", "--learning-rate=0.01", "--momentum=0.9"]
    size = [f"--batch={batch}", f"--microbatches={MICROBATCHES}"]
    costs, plan, binary = folder / "costs.json", folder / "plan.json", folder / "program"
    quiet.run([tools / "pp-profile", path, *size, *training, f"--schedule={schedule}", f"--repetitions={steps}",
               "-o", costs], share)
    run(tools / "pp-plan", path, *size, *training, f"--cost-file={costs}", "--min-ranks=2", "--max-stages-per-rank=1",
        f"--schedules={schedule}", "--checkpoints=never", "-o", plan)
    run(tools / "pp-compile", path, *training, f"--cost-file={costs}", f"--plan={plan}", "-o", binary)
    report = json.loads(quiet.run([binary, "bench", "--steps", steps, "--json"], share))
    plan = json.loads(plan.read_text())
    return plan["predicted"]["period_seconds"], report["median_step_seconds"], plan, binary


def memory_of(plan, binary):
    """Bytes of each rank, predicted and allocated."""
    compiled = json.loads(run(binary, "info", "--plan", "--mode", "train"))
    allocated = [sum(compiled["stages"][s]["memory_bytes"] for s in rank["stages"]) for rank in compiled["ranks"]]
    return plan["predicted"]["peak_bytes"], allocated


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each measurement, about")
    parser.add_argument("--share", type=float, default=0.05,
                        help="the most of a processor that others may use meanwhile")
    parser.add_argument("--only", action="append")
    arguments = parser.parse_args()
    tools = arguments.build.resolve() / "bin"
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores; {MICROBATCHES} micro-batches, 2 ranks")
    form = "{:<10} {:<7} {:>12} {:>12} {:>8} {:>17}   {}"
    print(form.format("model", "", "predicted ms", "measured ms", "error", "least to most", "bytes"))
    errors = []
    with tempfile.TemporaryDirectory() as name:
        for model in arguments.only or MODELS:
            # Schedules take turns, so that a slow minute does not meet all rounds of one.
            rounds = {schedule: [] for schedule in SCHEDULES}
            trial = predict_and_measure(tools, pathlib.Path(name), model, SCHEDULES[0], 40, arguments.share)
            steps = max(40, int(arguments.seconds / trial[1]))
            for _ in range(arguments.rounds):
                for schedule in SCHEDULES:
                    rounds[schedule].append(
                        predict_and_measure(tools, pathlib.Path(name), model, schedule, steps, arguments.share))
                    rounds[schedule][-1] += memory_of(*rounds[schedule][-1][2:])
            for schedule, results in rounds.items():
                ratios = sorted(result[0] / result[1] - 1 for result in results)
                error = statistics.median(ratios)
                errors.append(abs(error))
                memory = "as predicted" if all(r[4] == r[5] for r in results) else f"{results[-1][4]}, allocated {results[-1][5]}"
                print(form.format(
                    model, schedule, f"{statistics.median(r[0] for r in results) * 1e3:.2f}",
                    f"{statistics.median(r[1] for r in results) * 1e3:.2f}", f"{100 * error:+.1f} %",
                    f"{100 * ratios[0]:+.0f} to {100 * ratios[-1]:+.0f} %", memory), flush=True)
    print(f"relative error of the step time: median {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %")


if __name__ == "__main__":
    main()
