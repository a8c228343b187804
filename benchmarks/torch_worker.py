#!/usr/bin/env python3
"""PyTorch's side of vs_pytorch: trains or runs a model when it is told to.

A worker is started once, since torch.compile takes a minute, and then measures
so many steps for each line of its input: it answers with the median in seconds.
Several ranks get the line at the same time, and the last one answers.
"""

import argparse
import contextlib
import json
import statistics
import sys
import time

LEARNING_RATE, MOMENTUM = 0.01, 0.9
MICROBATCHES = 4


def autocast(arguments):
    import torch

    if arguments.precision == "bf16":
        return torch.autocast("cpu", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def make_eager(arguments, sample, torch):
    torch.set_num_threads(arguments.threads)
    module, inputs = sample.module.train(), sample.inputs
    if "channels_last" in arguments.kind:
        module = module.to(memory_format=torch.channels_last)
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    if "infer" in arguments.kind:
        module = module.eval()
    if "compile" in arguments.kind:
        module = torch.compile(module)
    if "infer" in arguments.kind:

        def infer():
            with torch.inference_mode(), autocast(arguments):
                module(inputs)

        return infer
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE, MOMENTUM)

    def step():
        optimizer.zero_grad()
        with autocast(arguments):
            output = module(inputs)
        sample.loss(output, sample.target).backward()
        optimizer.step()

    return step


def make_pipeline(arguments, sample, torch):
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    stage = PipelineStage(sample.half(arguments.rank), arguments.rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=MICROBATCHES, loss_fn=sample.loss)
    optimizer = torch.optim.SGD(stage.submod.parameters(), LEARNING_RATE, MOMENTUM)

    def step():
        optimizer.zero_grad()
        with autocast(arguments):
            if arguments.rank == 0:
                schedule.step(sample.inputs)
            else:
                schedule.step(target=sample.target)
        optimizer.step()

    return step


def make_replica(arguments, sample, torch):
    module = torch.nn.parallel.DistributedDataParallel(sample.module.train())
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE, MOMENTUM)
    inputs, target = sample.inputs.chunk(2)[arguments.rank], sample.target.chunk(2)[arguments.rank]

    def step():
        optimizer.zero_grad()
        with autocast(arguments):
            output = module(inputs)
        sample.loss(output, target).backward()
        optimizer.step()

    return step


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", help="eager, channels_last, compile, compile_channels_last, each also with _infer; pipeline, ddp")
    parser.add_argument("model")
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=0, help="samples, where not the model's own number")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--host", default="127.0.0.1", help="of rank 0")
    parser.add_argument("--port")
    arguments = parser.parse_args()
    import torch

    import models

    # As our programs do.
    torch.set_flush_denormal(True)
    if arguments.kind in ("pipeline", "ddp"):
        import torch.distributed as dist

        torch.set_num_threads(1)
        dist.init_process_group(
            "gloo", init_method=f"tcp://{arguments.host}:{arguments.port}", rank=arguments.rank, world_size=2
        )
    sample = models.build(arguments.model)
    if arguments.batch:
        sample.take(arguments.batch)
    make = {"pipeline": make_pipeline, "ddp": make_replica}.get(arguments.kind, make_eager)
    step = make(arguments, sample, torch)
    for line in sys.stdin:
        warmup, steps = map(int, line.split())
        for _ in range(warmup):
            step()
        times = []
        for _ in range(steps):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        print(json.dumps(statistics.median(times)), flush=True)


if __name__ == "__main__":
    main()
