#!/usr/bin/env python3
"""Times a training step of known models against PyTorch on the same two cores.

Each round runs every contender once, one after the other; the result is the
median over rounds of the median step of a round, and the range. So slow phases
of the machine hit all contenders alike. A round in which other processes used
the processor is repeated (quiet.py).
"""

import argparse
import json
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import time

import quiet

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "benchmarks"
LEARNING_RATE, MOMENTUM = 0.01, 0.9
# Samples of a step, micro-batches of two stages, steps of a turn.
MODELS = {
    "mlp": (32, 4, 300),
    "resnet18": (8, 4, 4),
    "resnet50": (8, 4, 2),
    "mobilenetv2": (8, 4, 4),
    "unet": (8, 4, 4),
    "gpt": (4, 4, 4),
    "bert": (4, 4, 3),
}
IMAGES = ("resnet18", "resnet50", "mobilenetv2", "unet")
# torch.distributed.pipelining needs them cut by hand.
CUT = ("mlp", "resnet18", "resnet50", "gpt")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Torch:
    """Workers of PyTorch that wait for their turn."""

    def __init__(self, arguments, model, kind, threads=2):
        ranks = [0, 1] if kind in ("pipeline", "ddp") else [0]
        port = str(free_port())
        environment = {**os.environ, "OMP_NUM_THREADS": "1" if len(ranks) == 2 else str(threads),
                       "GLOO_SOCKET_IFNAME": "lo"}
        self.processes = [
            subprocess.Popen(
                [sys.executable, ROOT / "benchmarks" / "torch_worker.py", kind, model, "--rank", str(rank), "--port", port,
                 "--precision", arguments.precision, "--threads", str(threads)],
                env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )
            for rank in ranks
        ]

    def turn(self, warmup, steps):
        for process in self.processes:
            process.stdin.write(f"{warmup} {steps}\n")
            process.stdin.flush()
        lines = [process.stdout.readline() for process in self.processes]
        if not all(lines):
            raise RuntimeError(self.processes[-1].stderr.read()[-600:])
        return max(json.loads(line) for line in lines)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def tool(arguments, name, model, batch, *flags):
    """Runs a tool of ours on a model's training step."""
    loss = "mse" if model == "unet" else "cross_entropy"
    command = [
        pathlib.Path(arguments.build) / "bin" / name, OUTPUT / f"{model}.onnx", f"--loss={loss}", f"--batch={batch}",
        "--optimizer=sgd", f"--learning-rate={LEARNING_RATE}", f"--momentum={MOMENTUM}", f"--precision={arguments.precision}",
        *flags, *arguments.flag,
    ]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-600:])
    return done.stdout


class Ours:
    """A program of pp-compile, which starts anew in each turn."""

    processes = ()

    def __init__(self, arguments, model, name, flags, batch=None):
        self.path = OUTPUT / f"{model}-{arguments.precision}-{name}"
        tool(arguments, "pp-compile", model, batch or MODELS[model][0], *flags, "-o", self.path)

    def turn(self, warmup, steps):
        done = subprocess.run([self.path, "bench", "--json", "--steps", str(steps), "--warmup", str(warmup)],
                              capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr[-600:])
        return json.loads(done.stdout)["median_step_seconds"]

    def close(self):
        pass


class Planned(Ours):
    """The fastest of what pp-plan proposes for two cores, with times that pp-profile measures here and now."""

    def __init__(self, arguments, model):
        batch, microbatches, _ = MODELS[model]
        stem = OUTPUT / f"{model}-{arguments.precision}"
        costs, plan = f"{stem}-costs.json", f"{stem}-plan.json"
        counts = f"--microbatches={','.join(str(count) for count in sorted({1, 2, microbatches}))}"
        tool(arguments, "pp-profile", model, batch, counts, "--threads-per-stage=1,2", "--repetitions=8", "-o", costs)
        tool(arguments, "pp-plan", model, batch, counts, "--cores=2", f"--cost-file={costs}", "--measure=2", "-o", plan)
        super().__init__(arguments, model, "planned", [f"--plan={plan}"])
        self.predicted = json.loads(pathlib.Path(plan).read_text())["predicted"]["period_seconds"]


def contenders(arguments, model):
    """Name -> a function that starts it."""
    microbatches = MODELS[model][1]
    ours = {
        "1 core": ["--stages=1", "--microbatches=1"],
        "2 stages": ["--stages=2", f"--microbatches={microbatches}", "--schedule=zb-h1"],
        "2 threads": ["--stages=1", "--microbatches=1", "--threads-per-stage=2"],
        "2 replicas": ["--stages=1", "--replicas=2", "--microbatches=2"],
    }
    result = {
        f"pp-mlir, {name}": lambda name=name, flags=flags: Ours(arguments, model, name.replace(" ", "-"), flags)
        for name, flags in ours.items()
    }
    if not arguments.no_plan:
        result["pp-mlir, plan of pp-plan"] = lambda: Planned(arguments, model)
    kinds = {"PyTorch, 1 thread": ("eager", 1), "PyTorch, 2 threads": ("eager", 2)}
    if model in IMAGES:
        kinds["PyTorch, channels last, 1 thread"] = ("channels_last", 1)
        kinds["PyTorch, channels last, 2 threads"] = ("channels_last", 2)
    if not arguments.quick:
        kinds["PyTorch, torch.compile, 2 threads"] = ("compile", 2)
        if model in IMAGES:
            kinds["PyTorch, torch.compile, channels last, 2 threads"] = ("compile_channels_last", 2)
        kinds["PyTorch, DDP over gloo"] = ("ddp", 1)
        if model in CUT:
            kinds["PyTorch, pipelining over gloo"] = ("pipeline", 1)
    for name, (kind, threads) in kinds.items():
        result[name] = lambda kind=kind, threads=threads: Torch(arguments, model, kind, threads)
    return result


def measure(arguments, model):
    """Contender -> the medians of its turns, and what pp-plan predicted."""
    subprocess.run([sys.executable, ROOT / "benchmarks" / "models.py", model], check=True, stdout=subprocess.DEVNULL)
    _, _, steps = MODELS[model]
    running = {}
    for name, start in contenders(arguments, model).items():
        try:
            running[name] = start()
            # The first turn compiles and touches memory.
            running[name].turn(2, 1)
        except RuntimeError as error:
            print(f"{model}: {name}: failed: {error}", file=sys.stderr)
            running.pop(name, None)
    pids = [process.pid for contender in running.values() for process in contender.processes]
    rounds = quiet.rounds(arguments.rounds, lambda: {name: contender.turn(1, steps) for name, contender in running.items()}, model, pids)
    for contender in running.values():
        contender.close()
    predicted = next((contender.predicted for contender in running.values() if isinstance(contender, Planned)), None)
    return {name: [turns[name] for turns in rounds] for name in running}, predicted


def report(arguments, model, times, predicted):
    batch = MODELS[model][0]
    medians = {name: statistics.median(values) for name, values in times.items()}
    # Where another program shares a core, a turn may be anything above what it is on a free one.
    shortest = {name: min(values) for name, values in times.items()}

    def best(prefix, single, seconds):
        fitting = {name: value for name, value in seconds.items()
                   if name.startswith(prefix) and (not single or "1 core" in name or "1 thread" in name)}
        name = min(fitting, key=fitting.get, default=None)
        return name, fitting.get(name)

    print(f"\n{model}, {arguments.precision}: a training step of {batch} samples; median and range of {arguments.rounds} rounds")
    for name, values in times.items():
        print(f"  {name:<50} {1e3 * medians[name]:9.2f} ms ({1e3 * min(values):.2f} to {1e3 * max(values):.2f})  "
              f"{batch / medians[name]:9.2f} samples/s")
    ratios = {}
    for label, single in (("2 cores", False), ("1 core", True)):
        (ours, own), (theirs, other) = (best(prefix, single, medians) for prefix in ("pp-mlir", "PyTorch"))
        if own and other:
            ratios[label] = other / own
            (_, own), (_, other) = (best(prefix, single, shortest) for prefix in ("pp-mlir", "PyTorch"))
            print(f"  {label}: {ratios[label]:.2f} x PyTorch ({ours} against {theirs}), {other / own:.2f} x by the shortest turns")
    planned = medians.get("pp-mlir, plan of pp-plan")
    if planned:
        ours = min(value for name, value in medians.items() if name.startswith("pp-mlir"))
        print(f"  the plan: predicted {1e3 * predicted:.2f} ms ({100 * (predicted / planned - 1):+.1f} %), "
              f"{100 * (planned / ours - 1):.1f} % above the fastest of ours")
    return {"model": model, "precision": arguments.precision, "batch": batch, "seconds": times, "ratios": ratios,
            "predicted": predicted}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--quick", action="store_true", help="without torch.compile, DDP and pipelining")
    parser.add_argument("--no-plan", action="store_true",
                        help="without pp-plan, for which a large model is profiled for minutes")
    parser.add_argument("--flag", action="append", default=[], help="a further flag for pp-compile")
    parser.add_argument("--json", type=pathlib.Path, help="write the numbers to this file")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all without one")
    arguments = parser.parse_args()
    import torch

    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores of {processor()}, PyTorch {torch.__version__}, "
          f"load {os.getloadavg()[0]:.1f}")
    results = []
    for model in arguments.models or MODELS:
        results.append(report(arguments, model, *measure(arguments, model)))
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
