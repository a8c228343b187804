#!/usr/bin/env python3
"""What schedules cost, bring and change: the claims of their papers.

    benchmarks/schemes.py build/release OUT [--only PART] [--epochs N] [--seeds N] [--rate R]

Prints tables and writes OUT/*.svg. The parts:

utilisation  the example of the textbooks: 4 ranks, 1, 4 and 8 micro-batches,
             simulated; and as many ranks as there are cores, measured
memory       of each stage of a GPT, planned and allocated
costs        of a step of 8 samples on 2 and 4 ranks, GPT and ResNet-18: its time,
             predicted from measured kernels and measured, by turns, and the memory
             of all ranks. On fewer cores than ranks, these take turns
accuracy     of LeNet on the digits of test/models/digits, by epoch
rates        the same, by learning rate
workers      WSP of two workers, each a process with a pipeline of two stages, with
             a clock distance of 0, 1 and 4: steps per second, loss and accuracy,
             where both run freely, where one is stopped again and again, and
             where both are, by turns
statistics   of batch norms: accuracy where running statistics move once in a step,
             and where each micro-batch moves them
stability    the largest learning rate with which a quadratic whose weights are on
             the first of 4 stages converges, beside that of the delay

Each epoch ends with an evaluation, for which the pipeline runs empty. Only the
measured utilisation and the steps per second depend on what else the machine does.
"""

import argparse
import json
import math
import os
import pathlib
import random
import re
import signal
import statistics as numbers
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test" / "models" / "bad"))
from make import graph, model, node, opset, tensor, untyped, value  # noqa: E402

DIGITS = ROOT / "test" / "models" / "digits"
STAGES, BATCH = 4, 32
COLOURS = ["#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#6a4c93", "#222222"]

# Name: flags of the compiler, flags of `train`.
SCHEMES = {
    "1f1b": (["--schedule=1f1b", "--microbatches=4"], []),
    "pipedream": (["--schedule=pipedream", "--allow-stale"], []),
    "pipedream-vertical-sync": (["--schedule=pipedream-vertical-sync", "--allow-stale"], []),
    "pipedream-2bw": (["--schedule=pipedream-2bw", "--allow-stale", "--microbatches=4"], []),
    "pipemare": (["--schedule=pipemare", "--allow-stale"], []),
    "pipemare T2": (["--schedule=pipemare", "--allow-stale", "--correct-discrepancy=0.135"], []),
    "pipemare T1": (["--schedule=pipemare", "--allow-stale"], ["--annealed-steps", "200"]),
    "pipemare T1 T2 T3": (
        ["--schedule=pipemare", "--allow-stale", "--correct-discrepancy=0.135"],
        ["--annealed-steps", "200", "--flushed-steps", "90"],
    ),
}


WAVES = ["--schedule=wsp", "--allow-stale", "--microbatches=8", "--replicas=2"]


def run(*command):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout


class Programs:
    def __init__(self, build, folder):
        self.build, self.folder, self.made = build, folder, {}

    def make(self, path, flags):
        key = (str(path), *flags)
        if key not in self.made:
            program = self.folder / f"program{len(self.made)}"
            run(self.build / "bin" / "pp-compile", path, "-o", program, *flags)
            self.made[key] = program
        return self.made[key]

    def model(self, name, flags):
        return self.make(ROOT / f"test/models/{name}/{name}.torchscript.onnx", ["--loss=cross_entropy", *flags])


def train(program, data, *flags):
    """Losses by step and accuracies by epoch, as far as they are numbers."""
    done = subprocess.run(
        [program, "train", "--data", data, "--on-nan", "continue", *flags], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{program}: {done.stderr.strip()}")
    plain = re.sub(r"-?\b(nan|inf)\b", "null", done.stdout)
    lines = [json.loads(line) for line in plain.splitlines()]
    return [l["loss"] for l in lines if "loss" in l], [l["accuracy"] for l in lines if "accuracy" in l]


def train_digits(program, *flags):
    return train(program, DIGITS / "digits-train.npz", "--eval-data", DIGITS / "digits-test.npz", *flags)


class Chart:
    """Lines over numbers, or over names that stand in equal distances."""

    width, height, left, right, top, bottom = 680, 360, 60, 200, 44, 50

    def __init__(self, title, x_name, y_name, even=False):
        self.title, self.x_name, self.y_name, self.even = title, x_name, y_name, even
        self.series = []

    def add(self, name, xs, ys):
        self.series.append((name, list(xs), list(ys)))

    def write(self, path):
        xs = sorted({x for _, points, _ in self.series for x in points})
        ys = [y for _, _, points in self.series for y in points]
        low, high = min(ys), max(max(ys), min(ys) + 1e-9)

        def at(x, y):
            share = xs.index(x) / max(len(xs) - 1, 1) if self.even else (x - xs[0]) / max(xs[-1] - xs[0], 1e-9)
            return (
                self.left + share * (self.width - self.left - self.right),
                self.height - self.bottom - (y - low) / (high - low) * (self.height - self.bottom - self.top),
            )

        end = self.width - self.right
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{self.width}" height="{self.height}" fill="white"/>',
            f'<text x="{self.left}" y="18" font-size="14">{self.title}</text>',
            f'<text x="{(self.left + end) / 2}" y="{self.height - 12}" text-anchor="middle">{self.x_name}</text>',
            f'<text x="8" y="36">{self.y_name}</text>',
        ]
        for x in xs if self.even or len(xs) < 9 else (xs[0], xs[-1]):
            parts.append(f'<text x="{at(x, low)[0]:.1f}" y="{self.height - self.bottom + 16}" text-anchor="middle">{x:g}</text>')
        for y in (low, (low + high) / 2, high):
            height = at(xs[0], y)[1]
            parts.append(f'<line x1="{self.left}" x2="{end}" y1="{height:.1f}" y2="{height:.1f}" stroke="#ddd"/>')
            parts.append(f'<text x="{self.left - 6}" y="{height + 4:.1f}" text-anchor="end">{y:.3g}</text>')
        for number, (name, points, values) in enumerate(self.series):
            colour = COLOURS[number % len(COLOURS)]
            dashes = ' stroke-dasharray="5 3"' if number >= len(COLOURS) else ""
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(x, y) for x, y in zip(points, values)))
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
            parts.append(f'<text x="{end + 10}" y="{self.top + 16 * number}" fill="{colour}">{name}</text>')
        path.write_text("\n".join([*parts, "</svg>", ""]))


def common_flags(rate=0.05):
    return [f"--stages={STAGES}", f"--batch={BATCH}", "--optimizer=sgd", f"--learning-rate={rate}", "--momentum=0.9"]


def chain(path, kind, layers, width, rows, first=1.0):
    """Products of one size after each other, each a node of its own."""
    rng = np.random.default_rng(0)
    nodes, constants, last = [], [], "x"
    for k in range(layers):
        square = np.eye(width) if kind == "identity" and k else rng.normal(size=(width, width)) / math.sqrt(width) * first
        constants.append(tensor(f"w{k}", [width, width], raw=square.astype(np.float32).tobytes()))
        result = "y" if k + 1 == layers else f"h{k}"
        nodes.append(node("MatMul", [last, f"w{k}"], [result], name=f"product{k}"))
        last = result
    body = graph(nodes, inputs=[value("x", [rows, width])], outputs=[untyped("y")], initializers=constants)
    path.write_bytes(model(body, opsets=[opset(17)]))


def utilisation(programs, out, _):
    plan = programs.build / "bin" / "pp-plan"
    print("utilisation with 4 ranks, simulated (backward passes take twice as long); most micro-batches that a rank keeps")
    chart = Chart("Utilisation", "micro-batches", "utilisation, %", even=True)
    counts = [1, 2, 4, 8, 16]
    for schedule in ("gpipe", "1f1b", "zb-h1"):
        found, kept = [], []
        for count in counts:
            text = run(plan, f"--timeline={schedule}", "--ranks=4", f"--microbatches={count}")
            found.append(float(re.search(r"utilisation ([\d.]+) %", text).group(1)))
            kept.append(max(map(int, re.search(r"kept at once, by stage: ([\d ]+)", text).group(1).split())))
        print(f"  {schedule:<6} " + "  ".join(f"{m}: {u:.1f} % ({k})" for m, u, k in zip(counts, found, kept)))
        chart.add(f"{schedule}, 4 ranks", counts, found)
    ranks = min(os.cpu_count() or 1, 4)
    path, width = programs.folder / "chain.onnx", 256
    chain(path, "random", 4 * ranks, width, 64)
    print(f"{ranks} ranks on as many cores, measured: busy share of a step in which all is computed, m / (m + p - 1)")
    values = []
    for count in counts:
        program = programs.make(path, ["--loss=mse", f"--stages={ranks}", f"--batch={64 * count}", f"--microbatches={count}",
                                       "--schedule=gpipe", "--optimizer=sgd", "--learning-rate=0"])
        report = programs.folder / "report.json"
        run(program, "bench", "--mode", "train", "--steps", "50", "--report", report)
        shares = [stage["utilisation"] for stage in json.loads(report.read_text())["stages"]]
        values.append(100 * sum(shares) / len(shares))
        print(f"  {count:>2} micro-batches: {values[-1]:.1f} %, formula {100 * count / (count + ranks - 1):.1f} %", flush=True)
    chart.add(f"gpipe, {ranks} ranks, measured", counts, values)
    chart.add(f"gpipe, {ranks} ranks, formula", counts, [100 * m / (m + ranks - 1) for m in counts])
    chart.write(out / "utilisation.svg")


def memory(programs, out, _):
    print("memory of each stage, GPT in 4 stages, batch 8, in bytes; planned = allocated")
    flags = ["--stages=4", "--batch=8", "--optimizer=sgd", "--learning-rate=0.01"]
    chart = Chart("GPT in 4 stages, batch 8", "stage", "bytes", even=True)
    for name, more in {
        "gpipe": ["--schedule=gpipe", "--microbatches=8"],
        "gpipe, recomputed": ["--schedule=gpipe", "--microbatches=8", "--checkpoint=always"],
        "1f1b": ["--schedule=1f1b", "--microbatches=8"],
        "pipedream-2bw": ["--schedule=pipedream-2bw", "--allow-stale", "--microbatches=8"],
        "pipemare": ["--schedule=pipemare", "--allow-stale", "--microbatches=8"],
        "pipemare T2": ["--schedule=pipemare", "--allow-stale", "--microbatches=8", "--correct-discrepancy=0.135"],
        "wsp, 2 workers, D = 0": WAVES,
        "wsp, 2 workers, D = 4": [*WAVES, "--clock-distance=4"],
        "pipedream, 8 per update": ["--schedule=pipedream", "--allow-stale"],
        "pipedream, 1 per update": ["--schedule=pipedream", "--allow-stale", "--batch=1"],
    }.items():
        own = [flag for flag in flags if not any(flag.split("=")[0] == other.split("=")[0] for other in more)]
        program = programs.model("gpt", own + more)
        report = programs.folder / "report.json"
        run(program, "bench", "--mode", "train", "--steps", "3", "--report", report)
        plan = json.loads(run(program, "info", "--plan", "--mode", "train"))
        planned = [s["memory_bytes"] for s in plan["stages"]]
        allocated = [s["memory_bytes"] for s in json.loads(report.read_text())["stages"]]
        copies = plan.get("replicas", 1)
        if any(allocated[k] != allocated[k // copies * copies] for k in range(len(allocated))):
            raise SystemExit(f"{name}: the workers have allocated {allocated}")
        allocated = allocated[::copies]
        if planned != allocated:
            raise SystemExit(f"{name}: planned {planned}, allocated {allocated}")
        versions = [s["areas"].get("versions", {}).get("bytes", 0) for s in plan["stages"]]
        print(f"  {name:<24} {' '.join(f'{b:>8}' for b in planned)}   of it further versions {' '.join(map(str, versions))}", flush=True)
        chart.add(name, range(len(planned)), planned)
    chart.write(out / "memory.svg")


def costs_of(ranks, model):
    """Flags of the compiler by name of the scheme."""
    one, eight = ["--microbatches=1"], ["--microbatches=8"]
    stages = [f"--stages={ranks}"]
    stale = [*stages, "--allow-stale"]
    half = ranks // 2
    result = {
        "gpipe": [*stages, "--schedule=gpipe", *eight],
        "1f1b": [*stages, "--schedule=1f1b", *eight],
        "zb-h1": [*stages, "--schedule=zb-h1", *eight],
        "1f1b, 2 replicas": [f"--stages={half}", "--replicas=2", "--schedule=1f1b", *eight],
        "pipedream": [*stale, "--schedule=pipedream", *one],
        "pipedream-vertical-sync": [*stale, "--schedule=pipedream-vertical-sync", *one],
        "pipedream-2bw": [*stale, "--schedule=pipedream-2bw", *eight],
        "pipemare": [*stale, "--schedule=pipemare", *eight],
        "wsp, 2 workers, D = 1": [f"--stages={half}", "--allow-stale", "--schedule=wsp", "--replicas=2", "--clock-distance=1", *eight],
    }
    # Replicas of stages have no trained batch norms yet.
    if model == "gpt":
        counts = "3,1" if ranks == 4 else "2"
        least = 6 if ranks == 4 else 8
        result[f"pipedream, replicas {counts}"] = [
            f"--stages={counts.count(',') + 1}", "--allow-stale", "--schedule=pipedream", f"--replicas={counts}",
            f"--microbatches={least}", f"--batch={least}",
        ]  # fmt: skip
    return result


def costs(programs, out, options):
    print(f"a step of 8 samples (replicas 3,1: 6) on {os.cpu_count()} cores: ms predicted, ms measured (median of {options.rounds} rounds by turns), MB of all ranks")
    common = ["--batch=8", "--optimizer=sgd", "--learning-rate=0.01"]
    for model in ("gpt", "resnet18"):
        path = ROOT / f"test/models/{model}/{model}.torchscript.onnx"
        measured = programs.folder / f"{model}.costs.json"
        run(programs.build / "bin" / "pp-profile", path, "--loss=cross_entropy", *common, "--microbatches=1,8", "-o", measured)
        # Six samples are six micro-batches of one sample, as eight are.
        for ranks in (2, 4):
            made, times = {}, {}
            for name, more in costs_of(ranks, model).items():
                flags = [f for f in common if not any(f.split("=")[0] == m.split("=")[0] for m in more)] + more
                flags += ["--loss=cross_entropy", f"--cost-file={measured}"]
                text = run(programs.build / "bin" / "pp-compile", path, *flags, "--dry-run")
                predicted = float(re.search(r"predicted step ([\d.]+) ms", text).group(1))
                made[name] = (programs.make(path, flags), predicted)
                times[name] = []
            report = programs.folder / "report.json"
            memory = {}
            for _ in range(options.rounds):
                for name, (program, _) in made.items():
                    text = run(program, "bench", "--mode", "train", "--duration", "1", "--report", report)
                    times[name].append(1e3 * float(re.search(r"median step ([\d.e-]+) s", text).group(1)))
                    stages = json.loads(report.read_text())["stages"]
                    if any(stage["planned_bytes"] != stage["memory_bytes"] for stage in stages):
                        raise SystemExit(f"{name}: the plan has other bytes than the program")
                    memory[name] = sum(stage["memory_bytes"] for stage in stages)
            for name, (_, predicted) in made.items():
                print(f"  {model:<8} {ranks} ranks  {name:<24} {predicted:8.2f} {numbers.median(times[name]):8.2f} {memory[name] / 1e6:8.2f}", flush=True)


def accuracy(programs, out, options):
    print(f"accuracy on the test digits after epochs 1, 2, 4, 8, ..., median of {options.seeds} seeds (range at the end)")
    chart = Chart("LeNet on digits, 4 stages", "epochs", "test accuracy")
    for name, (compiled, flags) in SCHEMES.items():
        program = programs.model("lenet", common_flags(options.rate) + compiled)
        runs = [train_digits(program, "--epochs", str(options.epochs), "--seed", str(s), *flags)[1] for s in range(options.seeds)]
        medians = [numbers.median(r[e] for r in runs) for e in range(options.epochs)]
        last = sorted(r[-1] for r in runs)
        shown = " ".join(f"{medians[e]:.4f}" for e in range(options.epochs) if e in (0, 1, 3, 7) or e == options.epochs - 1)
        print(f"  {name:<24} {shown} ({last[0]:.4f} to {last[-1]:.4f})", flush=True)
        chart.add(name, range(1, options.epochs + 1), medians)
    chart.write(out / "accuracy.svg")


def rates(programs, out, options):
    print(f"accuracy after {options.epochs} epochs by learning rate (one seed; 0.1 is guessing)")
    tried = [0.02, 0.05, 0.1, 0.2, 0.3]
    chart = Chart(f"LeNet on digits, 4 stages, {options.epochs} epochs", "learning rate", "test accuracy", even=True)
    for name, (compiled, flags) in SCHEMES.items():
        values = []
        for rate in tried:
            program = programs.model("lenet", common_flags(rate) + compiled)
            values.append(train_digits(program, "--epochs", str(options.epochs), *flags)[1][-1])
        print(f"  {name:<24} " + "  ".join(f"{r:g}: {v:.3f}" for r, v in zip(tried, values)), flush=True)
        chart.add(name, tried, values)
    chart.write(out / "rates.svg")


class Slowed:
    """Stops processes for as long as they ran, 20 ms on average, so that each works
    about half of the time."""

    def __init__(self, processes, seed=0):
        seeds, self.is_over = random.Random(seed), threading.Event()
        self.threads = [threading.Thread(target=self.slow, args=(p, seeds.random())) for p in processes]

    def slow(self, process, seed):
        lengths = random.Random(seed)
        while process.poll() is None and not self.is_over.is_set():
            time.sleep(lengths.expovariate(1 / 0.02))
            self.signal(process, signal.SIGSTOP)
            time.sleep(lengths.expovariate(1 / 0.02))
            self.signal(process, signal.SIGCONT)

    @staticmethod
    def signal(process, number):
        if process.poll() is None:
            process.send_signal(number)

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()


def train_workers(program, folder, flags, slowed):
    """Steps per second, losses and accuracies of two processes, some of which are slowed."""
    report, job = folder / "report.json", f"workers-{time.monotonic_ns()}"
    command = [program, "train", "--data", DIGITS / "digits-train.npz", "--eval-data", DIGITS / "digits-test.npz", *flags,
               "--report", report]
    processes = [
        subprocess.Popen(
            command, text=True,
            stdout=subprocess.PIPE if number == 0 else subprocess.DEVNULL,
            env={**os.environ, "PP_PROCESS": str(number), "PP_PROCESSES": "2", "PP_JOB": job},
        )
        for number in range(2)
    ]
    with Slowed([processes[number] for number in slowed]):
        text = processes[0].communicate()[0]
        codes = [process.wait() for process in processes]
    if any(codes):
        raise SystemExit(f"{program}: exit codes {codes}")
    lines = [json.loads(line) for line in text.splitlines()]
    summary = json.loads(report.read_text())
    return (
        summary["steps"] / summary["seconds"],
        [line["loss"] for line in lines if "loss" in line],
        [line["accuracy"] for line in lines if "accuracy" in line],
    )


def workers(programs, out, options):
    print(f"WSP, LeNet on digits, two workers of 2 stages with 2 micro-batches of 8 in flight, {options.epochs} epochs")
    distances = (0, 1, 4)
    chart = Chart("WSP: two workers of 2 stages", "clock distance", "steps/s", even=True)
    own = [f for f in common_flags() if not f.startswith("--stages")]
    losses = Chart("WSP: two workers of 2 stages", "epochs", "test accuracy")
    for name, slowed in {"both run freely": [], "one is slowed": [1], "both are slowed": [0, 1]}.items():
        rates = []
        for distance in distances:
            program = programs.model("lenet", [
                *own, "--schedule=wsp", "--allow-stale", "--microbatches=4", "--worker-stages=1+1,1+1",
                f"--clock-distance={distance}"])
            flags = ["--epochs", str(options.epochs), "--seed", "0"]
            found, loss, accuracies = train_workers(program, programs.folder, flags, slowed)
            rates.append(found)
            last = sum(loss[-10:]) / len(loss[-10:])
            print(f"  {name:<16} D = {distance}: {found:7.1f} steps/s, loss {last:.4f}, accuracy {accuracies[-1]:.4f}", flush=True)
            if not slowed:
                losses.add(f"D = {distance}", range(1, options.epochs + 1), accuracies)
        chart.add(name, distances, rates)
    chart.write(out / "workers.svg")
    losses.write(out / "workers-accuracy.svg")


def statistics(programs, out, options):
    print("accuracy on the test digits after epochs 1, 2, 4, 8, ...: running statistics that move once in a step of 8 micro-batches, and with each")
    chart = Chart("Batch norms on digits, 8 micro-batches of 4", "epochs", "test accuracy")
    for mode in ("micro", "each"):
        program = programs.model(
            "normed", ["--stages=2", f"--batch={BATCH}", "--microbatches=8", f"--batch-norm={mode}", f"--learning-rate={options.rate}"]
        )
        runs = [train_digits(program, "--epochs", str(options.epochs), "--seed", str(s))[1] for s in range(options.seeds)]
        medians = [numbers.median(r[e] for r in runs) for e in range(options.epochs)]
        shown = " ".join(f"{medians[e]:.4f}" for e in range(options.epochs) if e in (0, 1, 3, 7) or e == options.epochs - 1)
        print(f"  {mode:<6} {shown}", flush=True)
        chart.add(f"--batch-norm={mode}", range(1, options.epochs + 1), medians)
    chart.write(out / "statistics.svg")


def stability(programs, out, _):
    """The loss is (c / 2) |W - T|^2 with a curvature c of 1: samples are rows of a multiple of the identity, and the other
    stages multiply by it."""
    width = 8
    path, data = programs.folder / "quadratic.onnx", programs.folder / "quadratic.npz"
    chain(path, "identity", STAGES, width, width)
    scale = math.sqrt(width * width / 2)
    rng = np.random.default_rng(1)
    np.savez(data, x=(scale * np.eye(width)).astype(np.float32), target=rng.normal(size=(width, width)).astype(np.float32))
    flags = ["--loss=mse", f"--batch={width}", f"--stages={STAGES}", "--train-only=w0", "--optimizer=sgd",
             "--cuts=" + ",".join(f"product{k}" for k in range(1, STAGES))]
    print("a quadratic of curvature 1 on stage 0 of 4: the largest learning rate that converges, and (2 / c) sin(pi / (4 tau + 2))")
    steps = 2000

    def converges(compiled, rate):
        program = programs.make(path, [*flags, f"--learning-rate={rate}", *compiled])
        losses, _ = train(program, data, "--steps", str(steps), "--epochs", str(steps), "--no-shuffle")
        return losses[-1] is not None and losses[-1] < losses[0]

    for name, delay, compiled in [
        ("1f1b", 0, ["--schedule=1f1b", "--microbatches=4"]),
        ("pipedream-2bw", 1, ["--schedule=pipedream-2bw", "--allow-stale", "--microbatches=4"]),
        ("pipemare, 2 micro-batches", 1.5, ["--schedule=pipemare", "--allow-stale", "--microbatches=2"]),
        ("pipemare", 3, ["--schedule=pipemare", "--allow-stale"]),
        ("pipedream", 3, ["--schedule=pipedream", "--allow-stale"]),
    ]:
        limit = 2 * math.sin(math.pi / (4 * delay + 2))
        low, high = 0.5 * limit, 2 * limit
        while high - low > 0.005 * limit:
            middle = (low + high) / 2
            low, high = (middle, high) if converges(compiled, middle) else (low, middle)
        print(f"  {name:<26} {low:.3f}   tau = {delay:g}: {limit:.3f}", flush=True)


PARTS = [utilisation, memory, costs, accuracy, rates, workers, statistics, stability]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.05, help="the learning rate of `accuracy`")
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS], action="append")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pp-schemes-") as folder:
        programs = Programs(options.build.resolve(), pathlib.Path(folder))
        for part in PARTS:
            if not options.only or part.__name__ in options.only:
                part(programs, options.out, options)


if __name__ == "__main__":
    main()
