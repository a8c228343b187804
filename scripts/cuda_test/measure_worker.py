"""A process of PyTorch that measures what it is asked for.

    python measure_worker.py DEVICE SIZES MODEL FOLDER

Reads requests as lines of JSON, and answers each with one:
{"mode": "train" | "infer", "variant": "eager" | "compile", "batch": 8, "steps": 10} -> {"seconds": 0.1, "flops": 1e12}
{"matmul": 8192} -> {"seconds": 0.01, "flops": 1e12}
"""

import json
import pathlib
import statistics
import sys
import time

import torch

import models
import pytorch

WARMUP = 3


class Clock:
    """Times of steps that follow each other, without waiting between them."""

    def __init__(self, device):
        self.device, self.marks = device, []

    def mark(self):
        if self.device.type == "cuda":
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def median(self):
        pairs = list(zip(self.marks, self.marks[1:]))
        if self.device.type == "cuda":
            torch.cuda.synchronize()
            return statistics.median(1e-3 * one.elapsed_time(other) for one, other in pairs)
        return statistics.median(other - one for one, other in pairs)


class Worker:
    def __init__(self, device, sizes, model, folder):
        self.device = pytorch.torch_device(device)
        self.definition = models.SIZES[sizes][model]
        self.module = pytorch.load_model(pathlib.Path(folder), model, sizes)
        for block in self.module.modules():
            if isinstance(block, models.Attention):
                block.flash = True
        self.module.to(self.device)
        if self.definition.image and len(self.definition.image) == 3:
            self.module.to(memory_format=torch.channels_last)
        self.steps = {}
        torch.backends.cudnn.benchmark = True
        # What PyTorch does with bf16 elsewhere is not slowed down by the rest in f32.
        torch.set_float32_matmul_precision("high")

    def host_arrays(self, batch):
        tensors = {k: torch.from_numpy(v) for k, v in self.definition.arrays(batch).items()}
        return {k: v.pin_memory() if self.device.type == "cuda" else v for k, v in tensors.items()}

    def make_step(self, mode, variant, batch):
        """Copies the batch from the host, as the programs do."""
        host = self.host_arrays(batch)
        run = torch.compile(self.module, dynamic=False) if variant == "compile" else self.module

        def to_device(name):
            tensor = host[name].to(self.device, non_blocking=True)
            return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

        cast = torch.autocast(self.device.type, torch.bfloat16)
        if mode == "infer":
            def step():
                with torch.no_grad(), cast:
                    output = run(to_device("input"))
                # The programs hand their outputs to the host in float32.
                return output.float().to("cpu", non_blocking=True)
            return step
        optimizer = torch.optim.SGD(
            self.module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
            fused=True if self.device.type == "cuda" else None)

        def step():
            optimizer.zero_grad()
            target = to_device("target")
            with cast:
                loss = self.definition.loss_sum(run(to_device("input")), target) / target.numel()
            loss.backward()
            optimizer.step()
        return step

    def count_flops(self, step):
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter:
            step()
        return counter.get_total_flops()

    def measure(self, request):
        mode, variant, batch = request["mode"], request["variant"], request["batch"]
        self.module.train(mode == "train")
        key = (mode, variant, batch)
        if key not in self.steps:
            step = self.make_step(mode, variant, batch)
            flops = self.count_flops(step) if variant == "eager" else 0
            self.steps[key] = (step, flops)
            for _ in range(WARMUP):
                step()
        step, flops = self.steps[key]
        step()
        clock = Clock(self.device)
        clock.mark()
        for _ in range(request["steps"]):
            step()
            clock.mark()
        return {"seconds": clock.median(), "flops": flops}

    def matmul(self, size):
        a, b = (torch.randn(size, size, device=self.device, dtype=torch.bfloat16) for _ in range(2))
        for _ in range(WARMUP):
            a @ b
        clock = Clock(self.device)
        clock.mark()
        for _ in range(20):
            a @ b
            clock.mark()
        return {"seconds": clock.median(), "flops": 2 * size**3}


def main(arguments):
    worker = Worker(*arguments)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = worker.matmul(request["matmul"]) if "matmul" in request else worker.measure(request)
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
