#!/usr/bin/env python3
"""Times a training step in two stages or replicas against PyTorch on the same two cores.

Each round runs every contender once, one after the other, in processes of their
own; the result is the median over rounds of the median step of a round. So slow
phases of the machine hit all contenders alike.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "benchmarks"
MICROBATCHES = 4
LEARNING_RATE, MOMENTUM = 0.01, 0.9
SCHEDULES = ("1f1b", "gpipe")


# What runs in the processes of PyTorch.


def measure(step, arguments):
    for _ in range(arguments.warmup):
        step()
    times = []
    for _ in range(arguments.steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def run_eager(arguments):
    import torch

    import models

    torch.set_num_threads(2)
    sample = models.build(arguments.model)
    module = sample.module.train()
    if arguments.worker == "compile":
        module = torch.compile(module)
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE, MOMENTUM)

    def step():
        optimizer.zero_grad()
        sample.loss(module(sample.inputs), sample.target).backward()
        optimizer.step()

    print(json.dumps(measure(step, arguments)))


def run_pipeline(arguments):
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

    import models

    torch.set_num_threads(1)
    rank = arguments.rank
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{arguments.port}", rank=rank, world_size=2
    )
    sample = models.build(arguments.model)
    module = sample.halves[rank](sample.module.train())
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    kind = Schedule1F1B if arguments.worker == "1f1b" else ScheduleGPipe
    schedule = kind(stage, n_microbatches=MICROBATCHES, loss_fn=sample.loss)
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE, MOMENTUM)

    def step():
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(sample.inputs)
        else:
            schedule.step(target=sample.target)
        optimizer.step()

    seconds = measure(step, arguments)
    if rank == 1:
        print(json.dumps(seconds))
    dist.destroy_process_group()


def run_replica(arguments):
    import torch
    import torch.distributed as dist

    import models

    torch.set_num_threads(1)
    rank = arguments.rank
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{arguments.port}", rank=rank, world_size=2
    )
    sample = models.build(arguments.model)
    module = torch.nn.parallel.DistributedDataParallel(sample.module.train())
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE, MOMENTUM)
    inputs, target = sample.inputs.chunk(2)[rank], sample.target.chunk(2)[rank]

    def step():
        optimizer.zero_grad()
        sample.loss(module(inputs), target).backward()
        optimizer.step()

    seconds = measure(step, arguments)
    if rank == 1:
        print(json.dumps(seconds))
    dist.destroy_process_group()


WORKERS = {**dict.fromkeys(SCHEDULES, run_pipeline), "ddp": run_replica}


# What compares.


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def time_pytorch(arguments, model, worker):
    command = [
        sys.executable, __file__, "--worker", worker, "--model", model,
        "--steps", str(arguments.steps), "--warmup", str(arguments.warmup),
    ]
    ranks = [0, 1] if worker in WORKERS else [0]
    environment = {**os.environ, "OMP_NUM_THREADS": "1" if len(ranks) == 2 else "2", "GLOO_SOCKET_IFNAME": "lo"}
    port = str(free_port())
    processes = [
        subprocess.Popen(
            [*command, "--rank", str(rank), "--port", port], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in ranks
    ]
    outputs = [p.communicate(timeout=900) for p in processes]
    if any(p.returncode for p in processes):
        return None, outputs[-1][1][-600:]
    return json.loads(outputs[-1][0].splitlines()[-1]), ""


def compile_binary(arguments, model, schedule, microbatches, stages, replicas=1):
    path = OUTPUT / f"{model}-{schedule}-{stages}x{microbatches}x{replicas}"
    subprocess.run(
        [
            pathlib.Path(arguments.build) / "bin" / "pp-compile", OUTPUT / f"{model}.onnx", "-o", path,
            f"--stages={stages}", "--batch=8", f"--microbatches={microbatches}", f"--schedule={schedule}",
            f"--replicas={replicas}",
            "--loss=cross_entropy", "--optimizer=sgd", f"--learning-rate={LEARNING_RATE}", f"--momentum={MOMENTUM}",
        ],
        check=True,
    )
    return path


def time_binary(arguments, path):
    done = subprocess.run(
        [path, "bench", "--json", "--steps", str(arguments.steps), "--warmup", str(arguments.warmup)],
        capture_output=True, text=True,
    )
    if done.returncode:
        return None, done.stderr[-600:]
    return json.loads(done.stdout)["median_step_seconds"], ""


def compare(arguments, model):
    subprocess.run([sys.executable, pathlib.Path(__file__).parent / "models.py", model], check=True,
                   stdout=subprocess.DEVNULL)
    contenders = {}
    for schedule in SCHEDULES:
        path = compile_binary(arguments, model, schedule, MICROBATCHES, 2)
        contenders[f"pp-mlir, 2 stages, {schedule}"] = lambda path=path: time_binary(arguments, path)
    path = compile_binary(arguments, model, "1f1b", 1, 1)
    contenders["pp-mlir, 1 stage, 1 thread"] = lambda: time_binary(arguments, path)
    path = compile_binary(arguments, model, "1f1b", 2, 1, replicas=2)
    contenders["pp-mlir, 2 replicas of 1 stage"] = lambda path=path: time_binary(arguments, path)
    names = {
        "eager": "PyTorch, 1 process, 2 threads",
        "compile": "PyTorch, the same, torch.compile",
        "1f1b": "PyTorch, 2 processes, 1f1b",
        "gpipe": "PyTorch, 2 processes, gpipe",
        "ddp": "PyTorch, 2 processes, DDP",
    }
    for worker, name in names.items():
        contenders[name] = lambda worker=worker: time_pytorch(arguments, model, worker)

    times = {name: [] for name in contenders}
    for number in range(arguments.rounds):
        for name, contender in contenders.items():
            # torch.compile takes a minute each time before it starts.
            if times[name] is None or ("compile" in name and number > 0):
                continue
            seconds, error = contender()
            if seconds is None:
                print(f"{model}: {name}: failed: {error}", file=sys.stderr)
                times[name] = None
            else:
                times[name].append(seconds)
    print(f"\n{model}: one training step of 8 samples, median of {arguments.rounds} rounds (range), "
          f"{MICROBATCHES} micro-batches where there are 2 stages; replicas and DDP have one each, of 4 samples")
    ours = statistics.median(times["pp-mlir, 2 stages, 1f1b"]) if times["pp-mlir, 2 stages, 1f1b"] else None
    for name, values in times.items():
        if not values:
            print(f"  {name:<36} failed")
            continue
        median = statistics.median(values)
        ratio = f"{median / ours:6.2f} x pp-mlir 1f1b" if ours else ""
        print(f"  {name:<36} {1e3 * median:9.2f} ms ({1e3 * min(values):.2f} to {1e3 * max(values):.2f}) {ratio}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--model", choices=["resnet18", "gpt"], help="only this one")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        WORKERS.get(arguments.worker, run_eager)(arguments)
        return
    import torch

    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, {platform.machine()}, PyTorch {torch.__version__}, "
          f"load {os.getloadavg()[0]:.1f}")
    for model in [arguments.model] if arguments.model else ["resnet18", "gpt"]:
        compare(arguments, model)


if __name__ == "__main__":
    main()
