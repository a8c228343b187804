#!/usr/bin/env python3
"""How near to the peak each product and convolution of a model runs, in its step.

A program with marked kernels for each candidate, on one core: layouts, packed
weights, Winograd's algorithm. They take turns; the figure is the median over the
rounds of a kernel's rate over that of a product in the cache, which each
program measures itself. The last line weights the shares by time.
"""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import quiet
from vs_pytorch import IMAGES, MODELS, OUTPUT, ROOT, Ours, processor

CANDIDATES = {
    "chosen": [],
    "plain": ["--layouts=plain", "--pack-weights=never", "--convolutions=direct"],
    "packed": ["--pack-weights=always"],
}
OF_IMAGES = {
    "channels last": ["--layouts=channels_last"],
    "blocked": ["--layouts=blocked"],
}
# What a kernel computes, without how.
HOW = re.compile(r" (layout|packed|algorithm|types|[abc]s)=\S+")


class Candidate(Ours):
    def rows(self, steps):
        done = subprocess.run([self.path, "bench", "--json", "--kernels", "1000", "--steps", str(steps), "--warmup", "2"],
                              capture_output=True, text=True, check=True)
        return {HOW.sub("", row["key"]): row for row in json.loads(done.stdout)["kernels"] if "share_of_peak" in row}


def measure(arguments, model):
    subprocess.run([sys.executable, ROOT / "benchmarks" / "models.py", model], check=True, stdout=subprocess.DEVNULL)
    flags = {**CANDIDATES, **(OF_IMAGES if model in IMAGES else {})}
    programs = {
        name: Candidate(arguments, model, "kernels-" + name.replace(" ", "-"), ["--stages=1", "--mark-kernels", *own])
        for name, own in flags.items()
    }
    rounds = quiet.rounds(arguments.rounds, lambda: {name: program.rows(MODELS[model][2]) for name, program in programs.items()}, model)
    return {name: [rows[name] for rows in rounds] for name in programs}


def shares(rounds):
    """Kernel -> median share of the peak, and of the seconds in a step."""
    return {
        key: tuple(statistics.median(rows[key][field] for rows in rounds) for field in ("share_of_peak", "seconds_per_step"))
        for key in rounds[0]
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16"))
    parser.add_argument("--flag", action="append", default=[], help="for pp-compile; may be repeated")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all but the MLP without one")
    arguments = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, one core of {processor()}, load {os.getloadavg()[0]:.1f}")
    for model in arguments.models or [name for name in MODELS if name != "mlp"]:
        rounds = measure(arguments, model)
        table = {name: shares(own) for name, own in rounds.items()}
        print(f"\n{model}, {arguments.precision}: share of the peak in a step, medians of {arguments.rounds} rounds\n")
        print("| kernel | ms per step |" + "".join(f" {name} |" for name in table))
        print("|---|---|" + "---|" * len(table))
        for key, (_, seconds) in sorted(table["chosen"].items(), key=lambda item: -item[1][1]):
            cells = "".join(f" {own[key][0]:.0%} |" if key in own else " - |" for own in table.values())
            print(f"| `{key}` | {1e3 * seconds:.2f} |{cells}")
        total = "".join(f" {sum(a * b for a, b in own.values()) / sum(b for _, b in own.values()):.0%} |" for own in table.values())
        print(f"| weighted by time | {1e3 * sum(b for _, b in table['chosen'].values()):.2f} |{total}")


if __name__ == "__main__":
    main()
