#!/usr/bin/env python3
"""What micro-batches cost, and what two stages bring.

The same batch in 1, 2, 4 and 8 micro-batches on one stage, and in 8 in two
stages on two cores; "W of 8" computes gradients of weights for all at once. All take turns in each round; the figure is the median over
rounds of the median step. Batch norm is frozen: its statistics are those of a
micro-batch.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time

import quiet
from vs_pytorch import MODELS, OUTPUT, ROOT, Ours, processor, tool

BATCH = 8
COUNTS = (1, 2, 4, 8)


def tuned(arguments, model, count):
    """The flags of a program in so many micro-batches, whose kernels are chosen by their times if that is wanted."""
    flags = [f"--microbatches={count}", "--batch-norm=frozen"]
    if arguments.tune:
        path = OUTPUT / f"{model}-{arguments.precision}-tuning-{count}.json"
        path.unlink(missing_ok=True)
        tool(arguments, "pp-profile", model, BATCH, *flags, "--tune", "-o", path)
        flags.append(f"--tuning-file={path}")
    return flags


def measure(arguments, model):
    subprocess.run([sys.executable, ROOT / "benchmarks" / "models.py", model], check=True, stdout=subprocess.DEVNULL)
    _, _, steps = MODELS[model]
    flags = {count: tuned(arguments, model, count) for count in COUNTS}
    programs = {
        f"{count} micro-batches": Ours(arguments, model, f"tax-{count}", ["--stages=1", *flags[count]], BATCH)
        for count in COUNTS
    }
    together = f"--weights-together={BATCH}"
    programs[f"{BATCH}, W of {BATCH}"] = Ours(arguments, model, "tax-together", ["--stages=1", together, *flags[BATCH]], BATCH)
    for schedule in ("1f1b", "zb-h1", "auto"):
        programs[f"2 stages, {schedule}"] = Ours(
            arguments, model, f"tax-{schedule}", ["--stages=2", f"--schedule={schedule}", *flags[BATCH]], BATCH)
    programs[f"2 stages, W of {BATCH}"] = Ours(
        arguments, model, "tax-gpipe", ["--stages=2", "--schedule=gpipe", together, *flags[BATCH]], BATCH)
    rounds = quiet.rounds(arguments.rounds, lambda: {name: program.turn(2, steps) for name, program in programs.items()}, model)
    return {name: statistics.median(turns[name] for turns in rounds) for name in programs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--tune", action="store_true", help="choose kernels by pp-profile --tune, for each number of micro-batches")
    parser.add_argument("--flag", action="append", default=[], help="for pp-compile; may be repeated")
    parser.add_argument("models", nargs="*", default=["gpt", "resnet18"], help=f"of {', '.join(MODELS)}")
    arguments = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores of {processor()}, load {os.getloadavg()[0]:.1f}")
    for model in arguments.models:
        medians = measure(arguments, model)
        print(f"\n{model}, {arguments.precision}, {BATCH} samples: median step of {arguments.rounds} rounds")
        one, eight = medians["1 micro-batches"], medians[f"{BATCH} micro-batches"]
        for name, seconds in medians.items():
            note = f"{eight / seconds:.2f} x one stage" if "stages" in name else f"{seconds / one - 1:+.1%}"
            print(f"  {name:<20} {1e3 * seconds:9.2f} ms  {note}")


if __name__ == "__main__":
    main()
